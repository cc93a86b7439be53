"""What happened while sources were read: nothing is left out in silence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gtr_gpu.errors import GTRError
from gtr_gpu.tables.normalize import Limits, printable
from gtr_gpu.tables.table import Table

_EXAMPLES = 20


@dataclass
class ReadReport:
    """Counts of a reading, filled in as it goes on.

    Attributes:
        tables: Tables read.
        files: Files (and members of archives) that gave tables or were read to the end.
        failed: Files, sheets or database tables that could not be read: place and reason.
        skipped: What was passed over, by kind: the extension of files that no reader knows, `no extension`, `hidden`,
            or `index` for the folder of an index.
        skipped_examples: The first of those, by path.
        layout_tables: HTML tables that only lay out a page, and were left out.
        lines_failed: Lines of JSON lines files that are no table.
        line_failures: The first of those: place and reason.
        rows: Rows of all sources.
        rows_kept: Rows that were kept, at most the row limit of each table.
        tables_cut: Tables with more rows than were kept.
    """

    tables: int = 0
    files: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    skipped_examples: list[str] = field(default_factory=list)
    layout_tables: int = 0
    lines_failed: int = 0
    line_failures: list[tuple[str, str]] = field(default_factory=list)
    rows: int = 0
    rows_kept: int = 0
    tables_cut: int = 0

    def count(self, table: Table) -> None:
        """Counts one table that was read."""
        self.tables += 1
        self.rows += table.n_rows
        self.rows_kept += len(table.rows)
        self.tables_cut += table.n_rows > len(table.rows)

    def skip(self, kind: str, path: str) -> None:
        """Counts a file or a folder that is passed over."""
        self.skipped[kind] += 1
        if len(self.skipped_examples) < _EXAMPLES:
            self.skipped_examples.append(printable(path))

    def skipped_text(self) -> str:
        """What was passed over, by kind, the most frequent first: `12 .pdf, 1 hidden`; empty where nothing was."""
        return ", ".join(f"{count:,} {kind}" for kind, count in self.skipped.most_common(5))

    def reasons(self, limit: int = 3) -> str:
        """The first failures as one text, for an error message; empty where there were none."""
        failures = [*self.failed, *self.line_failures]
        texts = [f"{place}: {reason}" for place, reason in failures[:limit]]
        more = len(self.failed) + self.lines_failed - len(texts)
        return "; ".join([*texts, f"and {more} more"] if more > 0 else texts)


@dataclass
class Reading:
    """What a reader is told: how much to keep, and where to report what it cannot read.

    Attributes:
        limits: How many rows of a table are kept.
        report: The counts of the whole reading.
        strict: Whether the first failure ends the reading.
        root: What comes before a file's name in messages: the folder that it was found in.
    """

    limits: Limits
    report: ReadReport = field(default_factory=ReadReport)
    strict: bool = False
    root: str = ""

    def place(self, name: str) -> str:
        """Where something was read from, for messages."""
        return printable(self.root + name)

    def failed(self, place: str, reason: str) -> None:
        """Reports a file, a sheet or a database table that cannot be read.

        Raises:
            GTRError: The reading is strict.
        """
        self._stop_if_strict(place, reason)
        self.report.failed.append((self.place(place), reason))

    def line_failed(self, place: str, reason: str) -> None:
        """Reports a line that is no table.

        Raises:
            GTRError: The reading is strict.
        """
        self._stop_if_strict(place, reason)
        self.report.lines_failed += 1
        if len(self.report.line_failures) < _EXAMPLES:
            self.report.line_failures.append((self.place(place), reason))

    def _stop_if_strict(self, place: str, reason: str) -> None:
        if self.strict:
            raise GTRError(f"{self.place(place)} can't be read: {reason}; mend or remove it, or read without --strict")
