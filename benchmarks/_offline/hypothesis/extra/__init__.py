"""Stands in for hypothesis.extra."""
