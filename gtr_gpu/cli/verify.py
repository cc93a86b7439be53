"""`gtr verify`: every file of an index against its checksum."""

from __future__ import annotations

import typer

from gtr_gpu.cli import common
from gtr_gpu.cli.common import put
from gtr_gpu.cli.progress import drawn


def run(folder: common.IndexDir, as_json: common.Json = False, quiet: common.Quiet = False) -> None:
    """Compare every file of an index with its checksum; status 1 where one differs."""
    common.check_index(folder)

    from gtr_gpu.storage import IndexFolder

    with drawn(quiet or as_json) as progress:
        problems = IndexFolder(folder).verify(progress)
    if as_json:
        common.put_json({"index": str(folder), "sound": not problems, "problems": problems})
    elif not problems:
        put("the index is sound: every file has its size and checksum")
    else:
        for problem in problems:
            common.say(problem)
    if problems:
        raise typer.Exit(1)
