"""Zip archives: what would unpack to very much is refused, members are unpacked one at a time."""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gtr_gpu.errors import UnreadableSourceError

MAX_UNPACKED = 8 << 30
MAX_RATIO = 200
MAX_CELLS = 50_000_000
# Small things may be packed however well.
_HARMLESS = 64 << 20

# A column beyond Z; 26 columns of the most rows that a sheet can have are no danger.
_WIDE = re.compile(rb" r=.[A-Z]{2}")
# Cells with something in them; empty ones that are only formatted take no place.
_CELL = re.compile(rb"""<(?:\w+:)?c\s(?:[^>]*\s)?r=["']([A-Z]{1,3})(\d{1,9})["'](?:[^>]*[^/>])?>(?=[^<]|<[^/])""")


def check_archive(path: Path) -> list[zipfile.ZipInfo]:
    """The members of an archive, by name.

    Raises:
        UnreadableSourceError: It is damaged, or unpacks to more than 8 GB or to more than 64 MB and 200 times its size.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise UnreadableSourceError(f"it is truncated or not a zip archive ({str(error).lower()})") from None
    unpacked = sum(member.file_size for member in members)
    if unpacked > min(MAX_UNPACKED, max(_HARMLESS, MAX_RATIO * path.stat().st_size)):
        raise UnreadableSourceError(
            f"it would unpack to {unpacked / 1e6:,.0f} MB, too much for its {path.stat().st_size / 1e6:,.3f} MB; "
            "unpack it yourself if you trust it"
        )
    return sorted(members, key=lambda member: member.filename)


def check_extent(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuses a workbook whose sheets have cells so far apart that a grid of them would fill the memory.

    Args:
        path: An .xlsx file.
        members: Its members.

    Raises:
        UnreadableSourceError: It is damaged, or a sheet spans more than 50 million cells.
    """
    with _damage(), zipfile.ZipFile(path) as archive:
        for member in members:
            if not member.filename.endswith(".xml"):
                continue
            with archive.open(member) as sheet:
                if not any(_WIDE.search(chunk) for chunk in _chunks(sheet)):
                    continue
            with archive.open(member) as sheet:
                n_rows, n_columns = _extent(sheet)
            if n_rows * n_columns > MAX_CELLS:
                raise UnreadableSourceError(
                    f"{member.filename} in it spans {n_rows:,} rows and {n_columns:,} columns, more than "
                    f"{MAX_CELLS:,} cells; delete stray cells far away, or save it as CSV"
                )


def _extent(sheet: IO[bytes]) -> tuple[int, int]:
    """The rows and columns of a sheet's XML, from the first used cell to the last."""
    columns: set[bytes] = set()
    first, last = 1 << 30, 0
    for chunk in _chunks(sheet):
        for column, row in _CELL.findall(chunk):
            columns.add(column)
            first, last = min(first, int(row)), max(last, int(row))
    numbers = [sum((letter - 64) * 26**place for place, letter in enumerate(reversed(column))) for column in columns]
    return (last - first + 1, max(numbers) - min(numbers) + 1) if numbers else (0, 0)


def _chunks(sheet: IO[bytes]) -> Iterator[bytes]:
    """Pieces of XML; each begins with the last tag of the one before, which may have been cut."""
    rest = b""
    while chunk := sheet.read(1 << 20):
        chunk = rest + chunk
        yield chunk
        rest = chunk[chunk.rfind(b"<") :][-1024:]


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError) as error:
        raise UnreadableSourceError(f"it is damaged inside the archive ({error})") from None


@contextmanager
def unpacked(path: Path, member: zipfile.ZipInfo) -> Iterator[Path]:
    """A temporary file with the contents of one member, which is there inside the block only.

    Raises:
        UnreadableSourceError: The member is encrypted or damaged.
    """
    if member.flag_bits & 1:
        raise UnreadableSourceError("it is encrypted")
    with tempfile.TemporaryDirectory(prefix="gtr-") as folder:
        target = Path(folder) / "member"
        # `zipfile` never reads more of a member than the size that was checked.
        with (
            _damage(),
            zipfile.ZipFile(path) as archive,
            archive.open(member) as source,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(source, file, 1 << 20)
        yield target
