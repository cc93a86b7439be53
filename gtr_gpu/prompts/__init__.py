"""Ranked tables and their relations to the prompt of a language model."""
