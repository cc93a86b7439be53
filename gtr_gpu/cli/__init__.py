"""`gtr`, the command line: one file a command. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

from gtr_gpu.cli.app import app, main

__all__ = ["app", "main"]
