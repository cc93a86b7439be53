"""The two halves of a round of k-means: rows to their nearest centroids, and the sums of each cluster's rows."""

from gtr_gpu.ops.reference.kmeans import SUM_BLOCK, assign, distances_to, fold_columns, sparse_product, update

__all__ = ["SUM_BLOCK", "assign", "distances_to", "fold_columns", "sparse_product", "update"]
