"""A benchmark takes the place of an earlier one, and whatever breaks that off, the next build goes on with it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gtr_gpu.multitableqa.manifest import NAME, REPLACEMENT, Manifest

UNFINISHED = ".unfinished-"


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A folder whose content becomes that of `out` if all goes well, and is gone otherwise.

    Of a benchmark that is there already, what its manifest names goes, and whatever else somebody put there stays.
    """
    new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    for left in out.glob(f"{UNFINISHED}*/"):
        shutil.rmtree(left)
    # Inside, since `out` may be a disk of its own.
    folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=out))
    try:
        yield folder
        folder.rename(out / REPLACEMENT)
        finish_replacement(out)
        new = False
    finally:
        # What goes wrong here would hide what went wrong before.
        shutil.rmtree(folder, ignore_errors=True)
        if new:
            with suppress(OSError):
                out.rmdir()


def finish_replacement(out: Path) -> None:
    """Puts a complete benchmark that waits inside `out` into its place; does nothing where none waits.

    The old files go first and the old manifest after them; then the new files come, and the new manifest last. Each
    step tells by the two manifests whether it is due, and can be done twice, so that a call that was broken off, even
    by a kill, is gone on with by the next one.
    """
    folder = out / REPLACEMENT
    if not folder.is_dir():
        return
    if (folder / NAME).is_file():
        if (out / NAME).is_file():
            _remove(out, Manifest.read(out).files)
        for path in sorted(folder.rglob("*"), key=lambda path: (path == folder / NAME, path)):
            target = out / path.relative_to(folder)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                path.replace(target)
    shutil.rmtree(folder)


def _remove(out: Path, names: Iterable[str]) -> None:
    """Removes the files of a benchmark, the folders that are empty then, and its manifest."""
    paths = [out / name for name in names]
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in sorted({parent for path in paths for parent in path.relative_to(out).parents}, reverse=True):
        with suppress(OSError):
            (out / folder).rmdir()
    (out / NAME).unlink()
