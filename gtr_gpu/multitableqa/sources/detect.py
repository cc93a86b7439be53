"""Which layout a folder is in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.sources import hybridqa, one_shape, sqa, tabfact, tatqa, wtq
from gtr_gpu.multitableqa.sources.source import Source


@dataclass(frozen=True)
class _Layout:
    found: Callable[[Path], bool]
    read: Callable[[Path, str], Source]
    looked_for: str


_ONE_SHAPE = _Layout(one_shape.found, one_shape.read, one_shape.LOOKED_FOR)
_RELEASES = {
    "tabfact": _Layout(tabfact.found, tabfact.read, tabfact.LOOKED_FOR),
    "wtq": _Layout(wtq.found, wtq.read, wtq.LOOKED_FOR),
    "sqa": _Layout(sqa.found, sqa.read, sqa.LOOKED_FOR),
    "hybridqa": _Layout(hybridqa.found, hybridqa.read, hybridqa.LOOKED_FOR),
    "tatqa": _Layout(tatqa.found, tatqa.read, tatqa.LOOKED_FOR),
}
KNOWN = tuple(_RELEASES)


def read_source(name: str, folder: Path) -> Source:
    """Reads a data set in the layout that its folder is in.

    Args:
        name: One of `KNOWN`, which are also read as they were released; or another name, for a data set in the one
            shape of JSON lines.
        folder: Where it is.

    Raises:
        GTRError: The folder is missing or in no layout that is read, or the data set is damaged or incomplete.
    """
    if not folder.is_dir():
        raise GTRError(f"the source {name} is not there: {str(folder)!r} is no folder; check the path")
    layouts = [_ONE_SHAPE] + ([_RELEASES[name]] if name in _RELEASES else [])
    for layout in layouts:
        if layout.found(folder):
            return layout.read(folder, name).check()
    wanted = ", nor ".join(layout.looked_for for layout in layouts)
    other = next((known for known, layout in _RELEASES.items() if known != name and layout.found(folder)), None)
    hint = f"; it looks like {other}: give it as --source {other}={folder}" if other else ""
    raise GTRError(f"the source {name} is not in {str(folder)!r}: it holds neither {wanted}{hint}")
