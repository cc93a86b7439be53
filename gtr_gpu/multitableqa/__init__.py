"""MultiTableQA: single tables and their questions, cut into a benchmark of cross-table retrieval."""
