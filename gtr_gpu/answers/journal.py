"""The file of a batch's answers: JSON lines, each on the disk before the next question is over, and taken up again."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from gtr_gpu.errors import GTRError

_BEGIN = b'{"query_id": '
_MOST_DIFFERENCES = 5
_LONGEST_VALUE = 60


class Journal:
    """The answers of one batch in one file, which a later run of the same settings goes on with.

    Each line is an object with `query_id`, `query` and `settings`, besides whatever else is recorded. One process
    writes at a time. A last line that is torn, as by a process that was killed while it wrote, is cut off.

    Attributes:
        path: The file.

    Args:
        path: The file; a new one is made where there is none.
        settings: All that answers depend on besides their questions, as plain values.
        overwrite: Whether answers of other settings may be replaced. They are once the first answer has come.

    Raises:
        GTRError: The file holds answers of other settings, or something else; another process writes to it; or it
            can't be made.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._settings: dict[str, Any] = json.loads(json.dumps(settings))
        self._replaces = False
        self._records: dict[str, dict[str, Any]] = {}
        self._descriptor, self._is_new = _open_locked(self.path)
        try:
            self._end = self._read(overwrite)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._records)

    def get(self, query_id: str | int, query: str) -> dict[str, Any] | None:
        """What was recorded for a question; None where nothing was.

        Raises:
            GTRError: Another question was recorded under this name.
        """
        record = self._records.get(str(query_id))
        if record is not None and record["query"] != query:
            raise GTRError(
                f"{self.path} holds the answer to another question of the query_id {query_id!r}; give another file, or "
                "overwrite it"
            )
        return record

    def add(self, record: Mapping[str, Any]) -> None:
        """Records an answer; it is on the disk when this returns.

        Args:
            record: Plain values, `query_id` and `query` among them.

        Raises:
            OSError: The disk is full, or fails; what was there before stays whole.
        """
        whole = {"query_id": record["query_id"], **record, "settings": self._settings}
        line = json.dumps(whole).encode() + b"\n"
        if self._replaces:
            self._end, self._replaces = 0, False
        os.ftruncate(self._descriptor, self._end)
        try:
            _write(self._descriptor, line, self._end)
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, self._end)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._end += len(line)
        self._records[str(record["query_id"])] = whole

    def close(self) -> None:
        """Lets other processes write; a new file that nothing came into is taken away."""
        if self._descriptor < 0:
            return
        if self._is_new and not os.fstat(self._descriptor).st_size:
            # Of a link that led nowhere the link stays.
            Path(os.path.realpath(self.path)).unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, overwrite: bool) -> int:
        """Takes up what is there; where the next line goes."""
        data = _content(self._descriptor)
        end = data.rfind(b"\n") + 1
        whole, torn = data[:end], data[end:]
        if _parsed(torn) is not None:
            # Whole but for the end of its line, as editors leave it.
            whole, torn = data + b"\n", b""
        if torn.strip(b"\0") and not (torn.startswith(_BEGIN) or _BEGIN.startswith(torn)):
            raise self._foreign(whole.count(b"\n") + 1)
        for number, line in enumerate(whole.split(b"\n")[:-1], 1):
            if not line.strip():
                continue
            record = _parsed(line)
            if record is None:
                raise self._foreign(number)
            if record["settings"] != self._settings:
                if not overwrite:
                    raise GTRError(self._differing(record["settings"]))
                self._replaces = True
            self._records.setdefault(str(record["query_id"]), record)
        if overwrite:
            self._replaces = self._replaces or bool(self._records)
            self._records.clear()
        elif whole and len(whole) > len(data):
            _write(self._descriptor, b"\n", len(data))
        return len(whole)

    def _foreign(self, line: int) -> GTRError:
        return GTRError(
            f"{self.path} holds something else than answers of gtr (line {line}), and was left as it is; give another "
            "file"
        )

    def _differing(self, there: Mapping[str, Any]) -> str:
        old, new = dict(_flat(there)), dict(_flat(self._settings))
        names = [name for name in dict.fromkeys((*new, *old)) if old.get(name) != new.get(name)]
        shown = "; ".join(
            f"{name}: {_brief(old.get(name))} there, {_brief(new.get(name))} now" for name in names[:_MOST_DIFFERENCES]
        )
        more = f"; and {len(names) - _MOST_DIFFERENCES} more" if len(names) > _MOST_DIFFERENCES else ""
        return f"{self.path} holds answers of other settings ({shown}{more}); give another file, or overwrite it"


def _open_locked(path: Path) -> tuple[int, bool]:
    """Opens and locks the file; whether it is a new one."""
    while True:
        is_new = not path.exists()
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        except OSError as error:
            raise GTRError(f"answers can't be written to {path}: {error.strerror}; give another file") from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise GTRError(f"answers can't be written to {path}: it is no file; give another one")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever gave up a new file has deleted it: a lock on a file without a name guards nothing.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor, is_new
        except BlockingIOError:
            os.close(descriptor)
            raise GTRError(
                f"another process writes answers to {path}; wait until it is done, or give another file"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _content(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    parts = bytearray()
    while len(parts) < size and (part := os.pread(descriptor, size - len(parts), len(parts))):
        parts += part
    return bytes(parts)


def _write(descriptor: int, data: bytes, place: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], place + done)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The record of a line; None where it is none of ours."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    ours = (
        isinstance(value, dict)
        and isinstance(value.get("query_id"), str | int)
        and isinstance(value.get("query"), str)
        and isinstance(value.get("settings"), dict)
    )
    return value if ours else None


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _brief(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
