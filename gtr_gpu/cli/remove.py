"""`gtr remove`: tables out of an index."""

from __future__ import annotations

from typing import Annotated

import typer

from gtr_gpu.cli import common
from gtr_gpu.cli.common import put
from gtr_gpu.cli.text import counted
from gtr_gpu.errors import GTRError


def run(
    folder: common.IndexDir,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="The id of a table, as search prints it. Repeatable."),
    ] = None,
    as_json: common.Json = False,
) -> None:
    """Remove tables from an index; an unknown id removes nothing."""
    if not ids:
        raise GTRError("there is nothing to remove; name each table with --id ID")
    common.check_index(folder)

    from gtr_gpu.index import GTRIndex

    with GTRIndex.load(folder) as index:
        change = index.remove(ids)
        n_tables = index.n_tables
    if as_json:
        common.put_json({"removed": change.removed, "tables": n_tables, "notes": list(change.notes)})
        return
    put(f"removed {change.removed:,}; the index holds {counted(n_tables, 'table')}")
    for text in change.notes:
        common.note(text)
