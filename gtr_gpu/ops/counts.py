"""Counts over the tokens of each text."""

from gtr_gpu.ops.reference.counts import structural_counts

__all__ = ["structural_counts"]
