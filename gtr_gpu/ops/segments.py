"""Sums, maxima, softmax, top-k and unions over the rows of ragged batches."""

from gtr_gpu.ops.reference.segments import (
    segment_max,
    segment_mean,
    segment_normalize,
    segment_softmax,
    segment_sum,
    segment_top_k,
    segment_top_k_ragged,
    union,
)

__all__ = [
    "segment_max",
    "segment_mean",
    "segment_normalize",
    "segment_softmax",
    "segment_sum",
    "segment_top_k",
    "segment_top_k_ragged",
    "union",
]
