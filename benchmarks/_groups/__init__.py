"""Groups of works that are compared on the same data, see `_contest`."""
