"""The harness: measures retrieval methods on tasks without showing them a label."""
