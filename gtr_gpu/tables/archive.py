"""Zip archives: what would unpack to very much is refused, members are unpacked one at a time."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gtr_gpu.errors import UnreadableSource

MAX_UNPACKED = 8 << 30
MAX_RATIO = 200
# Small things may be packed however well.
_HARMLESS = 64 << 20


def check_archive(path: Path) -> list[zipfile.ZipInfo]:
    """The members of an archive, by name.

    Raises:
        UnreadableSource: It is damaged, or unpacks to more than 8 GB or to more than 64 MB and 200 times its size.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise UnreadableSource(f"it is truncated or not a zip archive ({str(error).lower()})") from None
    unpacked = sum(member.file_size for member in members)
    if unpacked > min(MAX_UNPACKED, max(_HARMLESS, MAX_RATIO * path.stat().st_size)):
        raise UnreadableSource(
            f"it would unpack to {unpacked / 1e6:,.0f} MB, too much for its {path.stat().st_size / 1e6:,.3f} MB; "
            "unpack it yourself if you trust it"
        )
    return sorted(members, key=lambda member: member.filename)


@contextmanager
def unpacked(path: Path, member: zipfile.ZipInfo) -> Iterator[Path]:
    """A temporary file with the contents of one member, which is there inside the block only.

    Raises:
        UnreadableSource: The member is encrypted or damaged.
    """
    if member.flag_bits & 1:
        raise UnreadableSource("it is encrypted")
    with tempfile.TemporaryDirectory(prefix="gtr-") as folder:
        target = Path(folder) / "member"
        try:
            # `zipfile` never reads more of a member than the size that was checked.
            with zipfile.ZipFile(path) as archive, archive.open(member) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
            raise UnreadableSource(f"it is damaged in the archive ({error})") from None
        yield target
