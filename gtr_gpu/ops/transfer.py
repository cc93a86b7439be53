"""The sparse transfer matrix of each query's candidates, as one block-diagonal matrix for the whole batch."""

from gtr_gpu.ops.reference.transfer import induced_transfer, similarity_transfer, widen

__all__ = ["induced_transfer", "similarity_transfer", "widen"]
