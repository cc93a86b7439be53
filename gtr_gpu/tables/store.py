"""A corpus of tables kept in one Arrow IPC file: written as a stream, opened by memory mapping."""

from __future__ import annotations

import bisect
import json
import os
from collections.abc import Iterator
from itertools import accumulate, chain, pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pyarrow as pa

from gtr_gpu.errors import GTRError, IndexFormatError
from gtr_gpu.tables.table import Table

FORMAT_VERSION = 1
_VERSION_KEY = b"gtr_tables"

# Large offsets throughout: one table may hold more than 2 GB of text.
_TEXT = pa.large_string()
_TEXTS = pa.large_list(_TEXT)
SCHEMA = pa.schema(
    [
        ("id", _TEXT),
        ("caption", _TEXT),
        ("description", _TEXT),
        ("header", _TEXTS),
        ("cells", _TEXTS),
        ("n_columns", pa.int32()),
        ("n_kept", pa.int32()),
        ("n_rows", pa.int64()),
        ("source", _TEXT),
        ("metadata", _TEXT),
    ],
    metadata={_VERSION_KEY: str(FORMAT_VERSION).encode()},
)


class TableWriter:
    """Writes tables one by one into an Arrow IPC file, in batches bounded by number and by size.

    Used as a context manager. An error inside the block removes the unfinished file.

    Args:
        path: The file to write; an existing one is overwritten.
        batch_tables: Tables of one record batch at most.
        batch_characters: Characters of one record batch, after which it is written.
    """

    def __init__(self, path: str | Path, batch_tables: int = 4096, batch_characters: int = 16_000_000) -> None:
        self._path = Path(path)
        self._batch_tables = batch_tables
        self._batch_characters = batch_characters
        self._pending: list[Table] = []
        self._characters = 0
        self._count = 0
        self._file: IO[bytes] = self._path.open("wb")
        self._writer = pa.ipc.new_file(self._file, SCHEMA)

    def __len__(self) -> int:
        """The tables appended so far."""
        return self._count

    def append(self, table: Table) -> None:
        """Adds one table.

        Raises:
            GTRError: A row is not as long as the header.
        """
        n_columns = len(table.header)
        if any(len(row) != n_columns for row in table.rows):
            raise GTRError(
                f"table {table.table_id!r} must have {n_columns} cells in each row, as many as its header; "
                "`gtr_gpu.tables.normalize.make_table` pads ragged rows"
            )
        self._pending.append(table)
        self._count += 1
        self._characters += len(table.caption) + len(table.description) + sum(map(len, table.header))
        self._characters += sum(len(cell) for row in table.rows for cell in row)
        if len(self._pending) >= self._batch_tables or self._characters >= self._batch_characters:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        try:
            self._writer.write_batch(_to_batch(self._pending))
        except UnicodeEncodeError as error:
            raise GTRError(
                f"tables must hold valid Unicode, got the lone surrogate {error.object[error.start : error.end]!a}; "
                "`gtr_gpu.tables.normalize.make_table` replaces those"
            ) from None
        self._pending = []
        self._characters = 0

    def close(self) -> None:
        """Writes what is pending and the footer, and waits until all is on the disk."""
        self._flush()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self.close()
            except BaseException:
                self._discard()
                raise
        else:
            self._discard()

    def _discard(self) -> None:
        self._pending = []
        self._file.close()
        self._path.unlink(missing_ok=True)


class TableStore:
    """A sequence of tables in an Arrow IPC file, read from a memory map as they are asked for."""

    def __init__(self, batches: list[pa.RecordBatch], map_: pa.MemoryMappedFile, path: Path) -> None:
        self._path = path
        self._batches = batches
        self._map = map_
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._starts: list[int] = [0, *accumulate(batch.num_rows for batch in batches)]

    @classmethod
    def open(cls, path: str | Path) -> TableStore:
        """Opens a file that `TableWriter` wrote.

        Raises:
            IndexFormatError: The file is missing, truncated, foreign or of a newer version.
            PermissionError: It must not be read.
        """
        try:
            Path(path).open("rb").close()  # Arrow's error of a missing right is long, and has no kind of its own
            map_ = pa.memory_map(str(path))
            reader = pa.ipc.open_file(map_)
            _check_schema(reader.schema, path)
            batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
            for batch in batches:
                batch.validate()
        except FileNotFoundError:
            raise IndexFormatError(f"{path} is missing; restore it or build the index anew") from None
        except PermissionError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise IndexFormatError(
                f"{path} is truncated or not a store of tables ({reason}); restore it or build the index anew"
            ) from None
        return cls(batches, map_, Path(path))

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> Table:
        if not -len(self) <= index < len(self):
            raise IndexError(f"table {index} of a store of {len(self)}")
        index %= len(self)
        number = bisect.bisect_right(self._starts, index) - 1
        start = index - self._starts[number]
        return next(self._tables(self._batches[number].slice(start, 1)))

    def __iter__(self) -> Iterator[Table]:
        """The tables in order; a few of them at a time are Python objects."""
        for batch in self._batches:
            for start in range(0, batch.num_rows, 64):
                yield from self._tables(batch.slice(start, 64))

    def ids(self) -> pa.ChunkedArray:
        """The tables' ids `[N]`, large_string, without a copy."""
        return self._column("id")

    def captions(self) -> pa.ChunkedArray:
        """The tables' captions `[N]`, large_string, without a copy."""
        return self._column("caption")

    def _column(self, name: str) -> pa.ChunkedArray:
        if name not in self._columns:
            column = pa.chunked_array([batch.column(name) for batch in self._batches], SCHEMA.field(name).type)
            try:
                column.validate(full=True)
            except pa.ArrowException:
                raise self._damaged() from None
            self._columns[name] = column
        return self._columns[name]

    def _tables(self, batch: pa.RecordBatch) -> Iterator[Table]:
        try:
            yield from _tables_of(batch)
        except (pa.ArrowException, ValueError, IndexError):
            # What Arrow says of bytes that are no text is those bytes.
            raise self._damaged() from None

    def _damaged(self) -> IndexFormatError:
        return IndexFormatError(
            f"{self._path} is damaged: it holds tables that can't be read; `gtr verify` lists all damage; restore the "
            "file, or build the index anew from its sources"
        )

    def close(self) -> None:
        """Lets go of the file; Arrow arrays that were handed out keep their memory alive."""
        self._batches = []
        self._columns = {}
        self._starts = [0]
        self._map.close()

    def __enter__(self) -> TableStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def is_store(schema: pa.Schema) -> bool:
    """Whether an Arrow file with this schema was written by a `TableWriter`, of whatever version."""
    return _VERSION_KEY in (schema.metadata or {})


def _check_schema(schema: pa.Schema, path: str | Path) -> None:
    version = (schema.metadata or {}).get(_VERSION_KEY, b"")
    if version.isdigit() and int(version) > FORMAT_VERSION:
        raise IndexFormatError(
            f"{path} was written in format {int(version)}, this version reads up to {FORMAT_VERSION}; update gtr-gpu"
        )
    if not version.isdigit() or not schema.equals(SCHEMA):
        raise IndexFormatError(f"{path} is not a store of tables; build the index anew")


def _to_batch(tables: list[Table]) -> pa.RecordBatch:
    columns: list[Any] = [
        pa.array([t.table_id for t in tables], _TEXT),
        pa.array([t.caption for t in tables], _TEXT),
        pa.array([t.description for t in tables], _TEXT),
        _list_array([t.header for t in tables]),
        _list_array([list(chain.from_iterable(t.rows)) for t in tables]),
        pa.array([len(t.header) for t in tables], pa.int32()),
        pa.array([len(t.rows) for t in tables], pa.int32()),
        pa.array([t.n_rows for t in tables], pa.int64()),
        pa.array([t.source for t in tables], _TEXT),
        # ASCII escapes, since a free field may hold anything, lone surrogates too.
        pa.array([json.dumps(t.metadata, default=str, separators=(",", ":")) for t in tables], _TEXT),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def _list_array(lists: list[list[str]]) -> pa.LargeListArray:
    offsets = pa.array([0, *accumulate(map(len, lists))], pa.int64())
    return pa.LargeListArray.from_arrays(offsets, pa.array(list(chain.from_iterable(lists)), _TEXT))


def _tables_of(batch: pa.RecordBatch) -> Iterator[Table]:
    """Tables of a slice of a batch. Through NumPy objects, which is ten times as fast as `to_pylist`."""
    ids, captions, descriptions, sources, metadata = (
        _texts(batch.column(name)) for name in ("id", "caption", "description", "source", "metadata")
    )
    headers, cells = (_split(batch.column(name)) for name in ("header", "cells"))
    kept, n_rows = (batch.column(name).to_pylist() for name in ("n_kept", "n_rows"))
    for i, header in enumerate(headers):
        width, flat = len(header), cells[i]
        yield Table(
            table_id=ids[i],
            caption=captions[i],
            description=descriptions[i],
            header=header,
            rows=[flat[row * width : (row + 1) * width] for row in range(kept[i])],
            source=sources[i],
            n_rows=n_rows[i],
            metadata=json.loads(metadata[i]),
        )


def _texts(array: pa.Array) -> list[str]:
    texts: list[str] = array.to_numpy(zero_copy_only=False).tolist()
    return texts


def _split(array: pa.LargeListArray) -> list[list[str]]:
    offsets = array.offsets.to_pylist()
    flat = _texts(array.values.slice(offsets[0], offsets[-1] - offsets[0]))
    return [flat[start - offsets[0] : stop - offsets[0]] for start, stop in pairwise(offsets)]
