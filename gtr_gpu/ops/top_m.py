"""The m most similar rows of each row, exactly, in bounded memory: dense features and sparse ones."""

from gtr_gpu.ops.reference.top_m import MAX_TILE, dense_top_m, merge_top_m, sparse_top_m

__all__ = ["MAX_TILE", "dense_top_m", "merge_top_m", "sparse_top_m"]
