"""From the paths that a user names to a stream of tables."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError, UnreadableSourceError
from gtr_gpu.tables.archive import check_archive, unpacked
from gtr_gpu.tables.arrow import read_arrow
from gtr_gpu.tables.database import read_database
from gtr_gpu.tables.delimited import read_delimited
from gtr_gpu.tables.html import read_html
from gtr_gpu.tables.jsonl import read_jsonl
from gtr_gpu.tables.naming import KINDS, kind_of
from gtr_gpu.tables.normalize import Limits
from gtr_gpu.tables.report import Reading, ReadReport
from gtr_gpu.tables.streams import file_head, readable
from gtr_gpu.tables.table import Table
from gtr_gpu.tables.xlsx import read_xlsx

Reader = Callable[[Path, str, Reading], Iterator[Table]]

READERS: dict[str, Reader] = {
    "jsonl": read_jsonl,
    "delimited": read_delimited,
    "xlsx": read_xlsx,
    "html": read_html,
    "arrow": read_arrow,
    "database": read_database,
}
EXTENSIONS = ", ".join(f".{extensions[0]}" for extensions in KINDS.values())

_logger = logging.getLogger("gtr_gpu.tables")


def read_sources(
    sources: Sequence[str | Path],
    *,
    config: Config | None = None,
    report: ReadReport | None = None,
    strict: bool = False,
    limit: int | None = None,
) -> Iterator[Table]:
    """Reads the tables of files and folders, one after the other.

    Folders are read with all that lies below them, in the order of names; hidden files, those of unknown kinds and
    the folders of indices are skipped and counted. A table's id is its file's path below the folder that was named (the
    file's name, where a file was named), with `#` and the sheet, the database table or the number on the page; a zip
    archive counts as a folder.
    Tables in JSON lines bring their ids.

    Args:
        sources: Files and folders.
        config: Gives the row and cell limits; the default preset's where it is left out.
        report: Filled in while the tables are read.
        strict: Whether the first file or line that cannot be read is an error.
        limit: How many tables are read at most.

    Returns:
        An iterator over the tables. It raises `GTRError` where a folder holds nothing of a known kind, at the end where
        there was no table at all, and at the first failure if `strict`. That ids differ is for an index to see to.

    Raises:
        GTRError: No source is named, one does not exist, or the limit is below 1.
    """
    if isinstance(sources, str | Path):
        sources = [sources]
    if not sources:
        raise GTRError("sources must name at least one file or folder, got none")
    if limit is not None and limit < 1:
        raise GTRError(f"limit must be at least 1, got {limit}")
    paths = [Path(source) for source in sources]
    for path in paths:
        if not os.path.lexists(path):
            raise GTRError(f"there is no file or folder {str(path)!r}; check the path")
    reading = Reading(Limits.from_config(config or Config()), report or ReadReport(), strict)
    return _read_all(paths, reading, limit)


def _read_all(paths: list[Path], reading: Reading, limit: int | None) -> Iterator[Table]:
    tables = itertools.chain.from_iterable(_read_source(path, reading) for path in paths)
    found = False
    for table in itertools.islice(tables, limit):
        found = True
        reading.report.count(table)
        yield table
    if not found:
        raise GTRError(_nothing_found(paths, reading.report))


def _read_source(path: Path, reading: Reading) -> Iterator[Table]:
    if not path.is_dir():
        reading.root = f"{path.parent}/" if path.parent != Path() else ""
        kind = kind_of(path.name)
        if kind:
            yield from _read_file(path, path.name, kind, reading)
        else:
            reading.failed(path.name, f"its kind is unknown, expected one of {EXTENSIONS}")
        return
    found, n_failed = 0, len(reading.report.failed)
    for file in _files(path, reading):
        found += 1
        reading.root = f"{path}/"
        name = file.relative_to(path).as_posix()
        yield from _read_file(file, name, kind_of(name), reading)
    if not found and len(reading.report.failed) == n_failed:
        skipped = f" ({_skipped(reading.report)})" if reading.report.skipped else ""
        raise GTRError(f"folder {str(path)!r} holds no file of a known kind{skipped}, expected one of {EXTENSIONS}")


def _files(folder: Path, reading: Reading) -> Iterator[Path]:
    """The files of known kinds below a folder, each folder once however links go."""
    seen: set[tuple[int, int]] = set()

    def report_error(error: OSError) -> None:
        reading.root = ""
        reading.failed(str(error.filename), (error.strerror or str(error)).lower())

    for root, folders, files in os.walk(folder, followlinks=True, onerror=report_error):
        status = Path(root).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        if _is_index(Path(root), files):
            # Its tables have been read before, and their ids and metadata must not come back as cells.
            reading.report.skip("index", root)
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for name in sorted(files):
            if _is_hidden(name):
                reading.report.skip("hidden", str(Path(root, name)))
            elif not kind_of(name):
                reading.report.skip(Path(name).suffix.lower() or "no extension", str(Path(root, name)))
            else:
                yield Path(root, name)


def _is_index(folder: Path, names: Sequence[str]) -> bool:
    """Whether a folder holds an index, or one that is being built."""
    if "writer.lock" in names:
        return True
    if "manifest.json" not in names:
        return False
    from gtr_gpu.storage.manifest import FORMAT_NAME

    try:
        return FORMAT_NAME.encode() in file_head(folder / "manifest.json", 256)
    except OSError:
        return False


def _is_hidden(name: str) -> bool:
    """Whether a file is hidden, or what macOS and Office leave beside files."""
    return name.startswith((".", "~$", "__MACOSX"))


def _read_file(path: Path, name: str, kind: str, reading: Reading) -> Iterator[Table]:
    try:
        with readable():
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableSourceError("it is not a regular file")
            if not status.st_size:
                raise UnreadableSourceError("it is empty")
            if kind == "zip":
                yield from _read_zip(path, name, reading)
            else:
                yield from _count_file(READERS[kind](path, name, reading), reading.report)
    except UnreadableSourceError as error:
        reading.failed(name, str(error))
    except (GTRError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        # A reader's library met something that its authors did not foresee: that is this file's failure alone.
        _logger.debug("reading %s failed", path, exc_info=True)
        reading.failed(name, f"it is damaged ({type(error).__name__}: {str(error)[:200]})")


def _count_file(tables: Iterator[Table], report: ReadReport) -> Iterator[Table]:
    """Counts a file at its first table, or when it turns out to have none, so that a limit does not lose it."""
    first = next(tables, None)
    report.files += 1
    if first is not None:
        yield first
        yield from tables


def _read_zip(path: Path, name: str, reading: Reading) -> Iterator[Table]:
    for member in check_archive(path):
        inner = f"{name}/{member.filename}"
        kind = kind_of(member.filename)
        if member.is_dir():
            continue
        if any(map(_is_hidden, member.filename.split("/"))):
            reading.report.skip("hidden", reading.place(inner))
        elif kind in ("", "zip"):
            reading.report.skip(Path(member.filename).suffix.lower() or "no extension", reading.place(inner))
        else:
            try:
                with unpacked(path, member) as file:
                    yield from _read_file(file, inner, kind, reading)
            except UnreadableSourceError as error:
                reading.failed(inner, str(error))


def _nothing_found(paths: list[Path], report: ReadReport) -> str:
    names = ", ".join(map(repr, map(str, paths[:3]))) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    reasons = [report.reasons(), _skipped(report)]
    if report.layout_tables:
        reasons.append(f"HTML tables that only lay out a page: {report.layout_tables:,}")
    told = "; ".join(reason for reason in reasons if reason) or "there is nothing in it"
    # A file of an unknown kind that was named is a failure, whose reason says the same.
    only_unknown = report.skipped and not (report.files or report.failed)
    remedy = f"name files of one of the kinds {EXTENSIONS}" if only_unknown else "mend that, or name other files"
    return f"no table could be read from {names} ({told}); {remedy}"


def _skipped(report: ReadReport) -> str:
    return f"skipped: {report.skipped_text()}" if report.skipped else ""
