"""`gtr add`: more tables for an index."""

from __future__ import annotations

from typing import Any

from gtr_gpu.cli import common
from gtr_gpu.cli.common import put
from gtr_gpu.cli.progress import drawn
from gtr_gpu.cli.summary import failures_to_json, put_failures, put_left_out
from gtr_gpu.cli.text import counted


def run(
    folder: common.IndexDir,
    sources: common.Sources,
    strict: common.Strict = False,
    as_json: common.Json = False,
    quiet: common.Quiet = False,
) -> None:
    """Add tables to an index; a table whose id is known is replaced."""
    common.check_index(folder)
    paths = common.check_sources(sources)

    from gtr_gpu.index import GTRIndex
    from gtr_gpu.tables import ReadReport, read_sources

    report = ReadReport()
    with GTRIndex.load(folder) as index:
        with drawn(quiet or as_json) as progress:
            tables = read_sources(paths, config=index.config, report=report, strict=strict)
            with common.reasons_of(report):
                change = index.add(tables, progress=progress)
        n_tables = index.n_tables
    if as_json:
        counts: dict[str, Any] = {"added": change.added, "replaced": change.replaced, "tables": n_tables}
        more = {"left_out": dict(change.left_out), "notes": list(change.notes)}
        common.put_json(counts | more | failures_to_json(report))
        return
    put(f"added {change.added:,}, replaced {change.replaced:,}; the index holds {counted(n_tables, 'table')}")
    put_left_out(change.left_out)
    put_failures(report)
    for text in change.notes:
        common.note(text)
