"""The three feature modalities of a table: semantic, structural and heuristic."""
