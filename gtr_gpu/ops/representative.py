"""Representative scores S_rep of questions against clusters, and the tables of the best clusters."""

from gtr_gpu.ops.reference.representative import centroid_scores, cluster_scores, members_of, probe

__all__ = ["centroid_scores", "cluster_scores", "members_of", "probe"]
