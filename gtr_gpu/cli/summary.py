"""What a build says when it is done: what was read, what was left out, and what it took."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtr_gpu.cli.common import put
from gtr_gpu.cli.progress import duration
from gtr_gpu.cli.text import counted, visible

if TYPE_CHECKING:
    from gtr_gpu.index import GTRIndex
    from gtr_gpu.tables import ReadReport

_FAILURES_SHOWN = 20
_SKIPPED_SHOWN = 3


@dataclass(frozen=True)
class BuildSummary:
    """The end of a build.

    Attributes:
        index: Where the index is.
        n_tables: How many tables it holds.
        read: What the readers counted.
        left_out: What the build left out, counted, by the names of `GTRIndex.summary`.
        notes: Sentences of the build.
        seconds: Wall seconds of each stage.
        total_seconds: Wall seconds of all.
        peak_memory: The largest memory of the process, in bytes; None where the system doesn't say.
    """

    index: Path
    n_tables: int
    read: ReadReport
    left_out: Mapping[str, int]
    notes: list[str]
    seconds: Mapping[str, float]
    total_seconds: float
    peak_memory: int | None

    @classmethod
    def of(
        cls, index: GTRIndex, path: Path, report: ReadReport, seconds: Mapping[str, float], total_seconds: float
    ) -> BuildSummary:
        """The summary of an index that was just built."""
        notes = list(index.notes)
        return cls(
            path, index.n_tables, report, index.summary["left_out"], notes, seconds, total_seconds, peak_memory()
        )

    def to_json(self) -> dict[str, Any]:
        """The object that `gtr index --json` prints."""
        read = self.read
        return {
            "index": str(self.index),
            "tables": self.n_tables,
            "rows": read.rows,
            "rows_kept": read.rows_kept,
            "tables_cut": read.tables_cut,
            "left_out": dict(self.left_out),
            **failures_to_json(read),
            "notes": self.notes,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "total_seconds": round(self.total_seconds, 3),
            "peak_memory_bytes": self.peak_memory,
        }


def put_summary(summary: BuildSummary) -> None:
    """Prints the summary for a person."""
    for label, text in _facts(summary):
        put(f"{label:<12} {text}")
    put_failures(summary.read)


def _facts(summary: BuildSummary) -> Iterator[tuple[str, str]]:
    read = summary.read
    yield "index", visible(str(summary.index))
    yield "tables", f"{summary.n_tables:,} from {counted(read.files, 'file')}"
    yield "rows", f"{read.rows_kept:,} kept" + (f" of {read.rows:,}" if read.rows > read.rows_kept else "")
    for text in left_out_texts(summary.left_out):
        yield "left out", text
    for text in summary.notes:
        yield "note", visible(text)
    stages = ", ".join(f"{name} {duration(value)}" for name, value in summary.seconds.items())
    yield "time", duration(summary.total_seconds) + (f" ({stages})" if stages else "")
    if summary.peak_memory is not None:
        yield "memory", f"{summary.peak_memory / 1e9:.2f} GB at most"


def left_out_texts(counts: Mapping[str, int]) -> Iterator[str]:
    """What a build or an addition did not read, or only in part, in words; nothing where it read all.

    Args:
        counts: By the names of `gtr_gpu.building.Omissions`.
    """
    kinds = (
        ("rows_beyond_limit", "row", "tables_beyond_limit", "row_limit or cell_limit, counted only"),
        ("rows_beyond_window", "row", "tables_beyond_window", "the encoder's window, read only as words"),
        ("names_beyond_window", "column name", "headers_beyond_window", "the encoder's window, read only as words"),
    )
    for parts, noun, tables, limit in kinds:
        if counts.get(parts, 0):
            yield f"{counted(counts[parts], noun)} of {counted(counts.get(tables, 0), 'table')} beyond {limit}"
    if leads := counts.get("leads_beyond_window", 0):
        captions = counted(leads, "caption or description", "captions or descriptions")
        yield f"the end of {captions} beyond the encoder's window, read only as words"


def put_left_out(counts: Mapping[str, int]) -> None:
    """Prints what was not read, or only in part."""
    for text in left_out_texts(counts):
        put(f"{'left out':<12} {text}")


def failures_to_json(read: ReadReport) -> dict[str, Any]:
    """What the readers could not read, for a program."""
    return {
        "failed": [{"source": place, "reason": reason} for place, reason in read.failed],
        "lines_failed": read.lines_failed,
        "line_failures": [{"source": place, "reason": reason} for place, reason in read.line_failures],
        "skipped": dict(read.skipped),
        "skipped_examples": list(read.skipped_examples),
        "layout_tables": read.layout_tables,
    }


def put_failures(read: ReadReport) -> None:
    """Prints what the readers could not read, each with its reason."""
    failures = [*read.failed, *read.line_failures]
    for place, reason in failures[:_FAILURES_SHOWN]:
        put(f"{'unread':<12} {visible(place)}: {visible(reason)}")
    more = len(read.failed) + read.lines_failed - min(len(failures), _FAILURES_SHOWN)
    if more:
        put(f"{'unread':<12} and {more:,} more; --json lists the files")
    if read.skipped:
        put(f"{'skipped':<12} {visible(read.skipped_text())}: {visible(_examples(read))}")
    if read.layout_tables:
        put(f"{'skipped':<12} {counted(read.layout_tables, 'HTML table')} that only lay out a page")


def _examples(read: ReadReport) -> str:
    first = read.skipped_examples[:_SKIPPED_SHOWN]
    more = read.skipped.total() - len(first)
    return ", ".join(first) + (f" and {more:,} more" if more else "")


def peak_memory() -> int | None:
    """The largest memory that this process has had, in bytes; None where the system doesn't say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
