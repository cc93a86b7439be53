"""Files as streams: compressed ones opened, encodings found out, binary ones told by their first bytes."""

from __future__ import annotations

import codecs
import errno
import io
import itertools
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gtr_gpu.errors import UnreadableSourceError
from gtr_gpu.tables.compressed import open_gzip, open_zstd

_SAMPLE = 65_536
_CHUNK = 1 << 20
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What programs wrote before UTF-8; those of old Macs and of DOS are left out, since short samples are taken for them.
_OLD_ENCODINGS = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "koi8_r", "iso8859_2"),
    *("gb18030", "big5", "cp932", "shift_jis", "euc_jp", "iso2022_jp", "cp949", "euc_kr", "tis_620"),
]
_MAGIC = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow stream"),
    (b"SQLite format 3\0", "sqlite"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"%PDF-", "pdf"),
    (b"\x89PNG", "png"),
)
_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\r\x0b\x0c\x1b\x1a")


def file_head(path: Path, size: int = 64) -> bytes:
    """The first bytes of a file, as they are on disk."""
    with path.open("rb") as file:
        return file.read(size)


def kind_by_magic(head: bytes) -> str:
    """The kind of file that begins with these bytes, or the empty string."""
    if head[8:12] == b"DUCK":
        return "duckdb"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), "")


def open_binary(path: Path) -> IO[bytes]:
    """Opens a file for reading; gzip and zstandard are told by their first bytes and decompressed as a stream."""
    kind = kind_by_magic(file_head(path))
    if kind == "gzip":
        return open_gzip(path)
    if kind == "zstd":
        return open_zstd(path)
    return path.open("rb")


@contextmanager
def readable() -> Iterator[None]:
    """Turns what goes wrong while a file is opened or read into an `UnreadableSourceError` with a plain reason."""
    try:
        yield
    except EOFError:
        raise UnreadableSourceError("it is truncated, its compressed data end too early") from None
    except ModuleNotFoundError as error:
        raise UnreadableSourceError(
            f"reading it needs the package {error.name}; install it with `pip install 'gtr-gpu[readers]'`"
        ) from None
    except zlib.error as error:
        raise UnreadableSourceError(f"its compressed data are damaged ({error})") from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise UnreadableSourceError((error.strerror or str(error)).lower()) from None
    except Exception as error:
        if type(error).__name__ == "ZstdError":
            if "too much memory" in str(error):
                raise UnreadableSourceError(
                    "it was compressed with a window of more than 128 MB; compress it with `zstd --long=27` at most"
                ) from None
            raise UnreadableSourceError(f"its compressed data are damaged ({error})") from None
        raise


def open_text(path: Path) -> io.TextIOWrapper:
    """Opens a text file in whatever encoding it is, line ends untouched.

    A byte order mark decides, else UTF-8 if the whole file is that, else UTF-16 if every other byte is NUL, else what
    charset-normalizer finds. Bytes that do not fit become U+FFFD.

    Raises:
        UnreadableSourceError: The file is empty or is not text.
    """
    with open_binary(path) as stream:
        encoding = find_encoding(stream)
    return io.TextIOWrapper(open_binary(path), encoding=encoding, errors="replace", newline="")


def find_encoding(stream: IO[bytes]) -> str:
    """The encoding of a text, see `open_text`; reads the stream to its end.

    Raises:
        UnreadableSourceError: The stream is empty or is not text.
    """
    sample = stream.read(_SAMPLE)
    if not sample.strip():
        raise UnreadableSourceError("it is empty")
    for mark, encoding in _BOMS:
        if sample.startswith(mark):
            return encoding
    if utf16 := _utf16_without_mark(sample):
        return utf16
    if len(sample) - len(sample.translate(None, _CONTROL)) > max(len(sample) // 100, 3):
        kind = kind_by_magic(sample)
        raise UnreadableSourceError(f"it is a binary file{f' ({kind})' if kind else ''}, not text")
    decoder = codecs.getincrementaldecoder("utf-8")()
    chunk = sample
    while chunk:
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError as error:
            return _guess_encoding(bytes(error.object))
        chunk = stream.read(_CHUNK)
    return "utf-8"


def _utf16_without_mark(sample: bytes) -> str:
    """The byte order of UTF-16 text that is mostly Latin, whose every other byte is NUL."""
    pairs = len(sample) // 2
    for encoding, first in (("utf-16-le", 1), ("utf-16-be", 0)):
        if pairs and sample[first::2].count(0) > 0.7 * pairs and sample[1 - first :: 2].count(0) < 0.1 * pairs:
            return encoding
    return ""


def _guess_encoding(chunk: bytes) -> str:
    # Lines of ASCII say nothing, and would drown the few others.
    lines = [line for line in chunk.splitlines(keepends=True) if not line.isascii()]
    if len(lines) > 1 and not lines[-1].endswith((b"\n", b"\r")):
        # Half a character at the cut would rule out the right encoding.
        lines.pop()
    ends = itertools.accumulate(map(len, lines))
    sample = b"".join(line for line, end in zip(lines, ends, strict=True) if end <= _SAMPLE) or lines[0]
    text = sample.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    # A few damaged bytes among much good UTF-8 do not make it another encoding.
    if sum(ord(character) > 127 for character in text) - wrong > 10 * wrong:
        return "utf-8"
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=_OLD_ENCODINGS, threshold=0.5).best()
    return best.encoding if best else "cp1252"
