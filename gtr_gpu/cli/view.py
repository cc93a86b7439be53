"""Styled things on stdout, whatever characters it takes: on a terminal with colours, plain elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console, RenderableType
from rich.text import Text

from gtr_gpu.cli.common import put

# What stands in for the few characters of our own that a stdout of ASCII does not take.
_ASCII = str.maketrans({"×": "x", "—": "-", "─": "-", "✓": "+", "✗": "x", "·": "-", "…": "."})


class View:
    """Shows things; what stdout can't encode is shown as codes, as `put` does.

    Args:
        widest: Columns at most.
        console: Only a test needs another.

    Attributes:
        width: The columns.
        ascii: Whether stdout takes ASCII alone.
    """

    def __init__(self, widest: int | None = None, console: Console | None = None) -> None:
        self._console = console or Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
        self.width = min(self._console.width, widest or self._console.width)
        self.ascii = self._console.options.ascii_only

    def show(self, thing: RenderableType, wrap: bool = True) -> None:
        """Shows one thing.

        Args:
            thing: Whatever rich can draw.
            wrap: Whether lines that are wider than the terminal are broken at words.
        """
        with self._console.capture() as captured:
            self._console.print(thing, width=self.width if wrap else None, soft_wrap=not wrap)
        shown = "\n".join(line.rstrip() for line in captured.get().splitlines())
        put(shown.translate(_ASCII) if self.ascii else shown)
        sys.stdout.flush()  # a build's progress on stderr must not overtake it

    def part(self, text: Text) -> None:
        """Shows a part of a line, which goes on with the next one."""
        with self._console.capture() as captured:
            self._console.print(text, end="", soft_wrap=True)
        put(captured.get().translate(_ASCII) if self.ascii else captured.get(), end="")
        sys.stdout.flush()

    def say(self, text: str) -> None:
        """Shows a sentence."""
        self.show(Text(text))
