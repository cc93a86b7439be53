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
HARMLESS = 64 << 20

# A cell as the programs write it, and one that says its place in another way.
_PLAIN = re.compile(rb'<c r="([A-Z]{1,3})(\d{1,7})"[ />]')
_ODD = re.compile(rb"""<(?:[^\s<>/"'=]+:c|c(?! r="[A-Z]{1,3}\d{1,7}"[ />]))(?=[\s/>])""")
# A row or a cell with its attributes, in all ways that the workbooks' reader takes, and whether it is closed at once.
_TAG = re.compile(rb"""<(?:[^\s<>/"'=]+:)?(row|c)(?=[\s/>])((?:[^<>"']|"[^"]*"|'[^']*')*)>(?:(</)|(?=[^<]|<[^/]))""")
_ATTRIBUTE = re.compile(rb"""([^\s=>"'/]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_PLACE = re.compile(rb"([A-Za-z]*)0*(\d{1,10})")
_MAX_TAG = 1 << 16


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
    if unpacked > min(MAX_UNPACKED, max(HARMLESS, MAX_RATIO * path.stat().st_size)):
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
            with archive.open(member) as sheet:
                if _is_small(sheet):
                    continue
            with archive.open(member) as sheet:
                n_rows, n_columns = _extent(sheet)
            if n_rows * n_columns > MAX_CELLS:
                raise UnreadableSourceError(
                    f"{member.filename} in it spans {n_rows:,} rows and {n_columns:,} columns, more than "
                    f"{MAX_CELLS:,} cells; delete stray cells far away, or save it as CSV"
                )


def _is_small(sheet: IO[bytes]) -> bool:
    """Whether all cells say their places plainly and lie, empty ones too, in a grid of a safe size: a quick look."""
    columns: set[bytes] = set()
    rows: set[int] = set()
    for chunk in _chunks(sheet):
        if _ODD.search(chunk):
            return False
        if found := _PLAIN.findall(chunk):
            letters, digits = zip(*found, strict=True)
            columns.update(letters)
            rows.update(map(int, digits))
    return not rows or (max(rows) - min(rows) + 1) * max(map(_column, columns)) <= MAX_CELLS


def _extent(sheet: IO[bytes]) -> tuple[int, int]:
    """The rows and columns of a sheet's XML, from the first used cell to the last, and rather too many than too few.

    A cell or a row that does not say its place comes after the one before. Empty cells that are only formatted take no
    place.
    """
    rows: set[int] = set()
    columns: set[int] = set()
    row = column = 0
    for chunk in _chunks(sheet):
        for tag, attributes, closed in _TAG.findall(chunk):
            place = _place(attributes)
            if tag == b"row":
                row, column = place[0] if place else row + 1, 0
                continue
            row, column = place or (row, column + 1)
            if not closed and not attributes.endswith(b"/"):
                rows.add(row)
                columns.add(column)
        if rows:
            rows = {min(rows), max(rows)}
    return (max(rows) - min(rows) + 1, max(columns) - min(columns) + 1) if rows else (0, 0)


def _place(attributes: bytes) -> tuple[int, int] | None:
    """Row and column, from 1, that the attribute `r` of a row or a cell gives; a row's column is 0."""
    if attributes.startswith(b' r="'):
        value = attributes[4 : attributes.find(b'"', 4)]
    else:
        found = (one or other for name, one, other in _ATTRIBUTE.findall(attributes) if name == b"r")
        value = next(found, b"")
    place = _PLACE.match(value)
    if place is None:
        return None
    return int(place.group(2)), _column(place.group(1))


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters.upper()[:9]:
        number = 26 * number + letter - 64
    return number


def _chunks(sheet: IO[bytes]) -> Iterator[bytes]:
    """Pieces of XML; each begins with the last two tags of the one before, which may have been cut."""
    rest = b""
    while chunk := sheet.read(1 << 20):
        chunk = rest + chunk
        yield chunk
        rest = chunk[max(chunk.rfind(b"<", 0, max(chunk.rfind(b"<"), 0)), 0) :]
        if len(rest) > _MAX_TAG:
            if b">" not in rest[rest.rfind(b"<") :]:
                raise UnreadableSourceError("it is damaged inside the archive (a tag without an end)")
            rest = b""


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
