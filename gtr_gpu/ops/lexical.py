"""Counting terms and scoring questions by BM25 over postings."""

from gtr_gpu.ops.reference.lexical import bm25_idf, bm25_scores, term_counts

__all__ = ["bm25_idf", "bm25_scores", "term_counts"]
