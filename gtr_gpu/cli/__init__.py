"""`gtr`, the command line: one file a command. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Runs one command, as `gtr_gpu.cli.app.main` says; Ctrl-C counts from here on, also while that is imported."""
    try:
        from gtr_gpu.cli.app import main as run

        return run(args)
    except KeyboardInterrupt:
        sys.stderr.write("gtr: interrupted\n")
        return 130
