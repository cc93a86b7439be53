"""Compressed files as streams that are read to their true end, and no further than is sensible."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gtr_gpu.errors import UnreadableSourceError
from gtr_gpu.tables.archive import HARMLESS, MAX_RATIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# A stream fills no memory, unlike an archive's members; the limit only keeps a build from reading for days.
MAX_STREAMED = 64 << 30
_CHUNK = 1 << 20
# What `zstd --long` asks for; a larger window would be memory that a small file can claim.
_MAX_WINDOW = 1 << 27
# Four bytes can stand for 128 KB, so that one piece gives 64 MB at worst.
_PIECE = 1 << 11


def open_gzip(path: Path) -> IO[bytes]:
    """Opens a gzip file: reading raises `EOFError` where it is truncated, `UnreadableSourceError` beyond the limits."""
    return io.BufferedReader(_Bounded(gzip.open(path, "rb"), path), _CHUNK)


def open_zstd(path: Path) -> IO[bytes]:
    """Opens a zstandard file of any number of frames; reading raises what `open_gzip` says."""
    return io.BufferedReader(_Bounded(_Frames(path), path), _CHUNK)


class _Frames(io.RawIOBase):
    """The contents of a zstandard file's frames.

    The package's own reader takes the end of the file for the end of the data, inside a frame as well.
    """

    def __init__(self, path: Path) -> None:
        import zstandard

        self._file = path.open("rb")
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        self._frame: Any = None
        self._unused = b""
        self._pending = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        target = memoryview(buffer).cast("B")
        while not self._pending:
            piece = self._unused or self._file.read(_PIECE)
            if not piece:
                if self._frame is not None:
                    raise EOFError("the file ends inside a frame")
                return 0
            if self._frame is None:
                self._frame = self._decompressor.decompressobj()
            self._pending = memoryview(self._frame.decompress(piece))
            self._unused = b""
            if self._frame.eof:
                self._unused, self._frame = self._frame.unused_data, None
        count = min(len(target), len(self._pending))
        target[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Bounded(io.RawIOBase):
    """A stream that refuses to go on when it has given much more than its file can honestly hold."""

    def __init__(self, source: Any, path: Path) -> None:  # noqa: ANN401 (anything with `readinto` and `close`)
        self._source = source
        self._size = path.stat().st_size
        self._limit = min(MAX_STREAMED, max(HARMLESS, MAX_RATIO * self._size))
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        count: int = self._source.readinto(buffer)
        self._count += count
        if self._count > self._limit:
            raise UnreadableSourceError(
                f"it unpacks to more than {self._limit / 1e6:,.0f} MB, the most that is read from "
                f"{self._size / 1e6:,.3f} MB; decompress it yourself if you trust it"
            )
        return count

    def close(self) -> None:
        self._source.close()
        super().close()
