"""The operations in plain torch: what they mean, the oracle of the kernels, and the fallback on any device."""

from gtr_gpu.ops.reference import (
    counts,
    kmeans,
    lexical,
    pagerank,
    pooling,
    representative,
    seeds,
    segments,
    sparse_top_m,
    top_m,
    transfer,
    union,
)

__all__ = [
    "counts",
    "kmeans",
    "lexical",
    "pagerank",
    "pooling",
    "representative",
    "seeds",
    "segments",
    "sparse_top_m",
    "top_m",
    "transfer",
    "union",
]
