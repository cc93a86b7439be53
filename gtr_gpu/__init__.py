"""GTR-GPU: find the few tables, among very many, that together answer a question."""
