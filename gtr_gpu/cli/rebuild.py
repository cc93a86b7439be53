"""`gtr rebuild`: segments merged and clusters made anew, without encoding again."""

from __future__ import annotations

import time

from gtr_gpu.cli import common
from gtr_gpu.cli.common import put
from gtr_gpu.cli.progress import drawn, duration
from gtr_gpu.cli.text import counted


def run(folder: common.IndexDir, as_json: common.Json = False, quiet: common.Quiet = False) -> None:
    """Merge an index's segments and cluster it anew, without encoding again."""
    common.check_index(folder)

    from gtr_gpu.index import GTRIndex

    start = time.perf_counter()
    with GTRIndex.load(folder) as index:
        with drawn(quiet or as_json) as progress:
            index.rebuild(progress=progress)
        n_tables, notes = index.n_tables, list(index.notes)
    seconds = time.perf_counter() - start
    if as_json:
        common.put_json({"tables": n_tables, "total_seconds": round(seconds, 3), "notes": notes})
        return
    put(f"rebuilt the index of {counted(n_tables, 'table')} in {duration(seconds)}")
    for text in notes:
        common.note(text)
