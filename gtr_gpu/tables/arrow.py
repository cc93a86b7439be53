"""Parquet, Arrow IPC and Feather files: the first rows are read, the others only counted."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gtr_gpu.errors import UnreadableSourceError
from gtr_gpu.tables.naming import readable_name
from gtr_gpu.tables.normalize import make_table
from gtr_gpu.tables.report import Reading
from gtr_gpu.tables.streams import file_head, kind_by_magic
from gtr_gpu.tables.table import Table

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def read_arrow(path: Path, name: str, reading: Reading) -> Iterator[Table]:
    """Reads the one table of a file.

    Nested values become JSON text, unnamed pandas indices are left out, and the schema's metadata `title` and
    `description` are the caption and the description where they are given.

    Args:
        path: The file.
        name: Its name, for the id and the caption.
        reading: Limits and report.

    Raises:
        UnreadableSourceError: The file is truncated, damaged, of another kind, or the tables of an index.
    """
    import pyarrow as pa

    from gtr_gpu.tables.store import is_store

    kind = kind_by_magic(file_head(path))
    read = {"parquet": _read_parquet, "arrow": _read_file, "arrow stream": _read_stream}.get(kind)
    if read is None:
        raise UnreadableSourceError(f"it is {kind or 'neither Parquet nor Arrow IPC'}, whatever its extension says")
    try:
        schema, batches, n_rows = read(path, reading)
        if is_store(schema):
            raise UnreadableSourceError("it belongs to an index; give the sources that the index was made of")
        rows = _texts(schema, batches)
    except (pa.ArrowException, ValueError) as error:
        raise UnreadableSourceError(f"it is truncated or damaged ({str(error).splitlines()[0]})") from None
    extra = {key.decode("utf-8", "replace").lower(): value for key, value in (schema.metadata or {}).items()}
    yield make_table(
        name,
        [field.name for field in schema if not _PANDAS_INDEX.fullmatch(field.name)],
        rows,
        reading.limits,
        caption=extra.get("title", b"") or readable_name(name),
        description=extra.get("description", b""),
        source=reading.place(name),
        n_rows=n_rows,
    )


def _read_parquet(path: Path, reading: Reading) -> tuple[Any, list[Any], int]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, memory_map=True) as file:
        keep = reading.limits.rows(len(file.schema_arrow))
        ends = list(itertools.accumulate(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)))
        groups = [i for i, end in enumerate(ends) if i == 0 or ends[i - 1] < keep]
        batches = _first(file.iter_batches(batch_size=keep, row_groups=groups), keep) if groups else []
        return file.schema_arrow, batches, file.metadata.num_rows


def _read_file(path: Path, reading: Reading) -> tuple[Any, list[Any], int]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        keep = reading.limits.rows(len(reader.schema))
        numbers = range(reader.num_record_batches)
        batches = _first((reader.get_batch(i) for i in numbers), keep)
        # One column is enough to count, and spares unpacking the others.
        options = pa.ipc.IpcReadOptions(included_fields=[0] if len(reader.schema) else [])
        counter = pa.ipc.open_file(source, options=options)
        return reader.schema, batches, sum(counter.get_batch(i).num_rows for i in numbers)


def _read_stream(path: Path, reading: Reading) -> tuple[Any, list[Any], int]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        keep = reading.limits.rows(len(reader.schema))
        batches, n_rows = [], 0
        for batch in reader:
            if n_rows < keep:
                batches.append(batch.slice(0, keep - n_rows))
            n_rows += batch.num_rows
        return reader.schema, batches, n_rows


def _first(batches: Iterable[Any], n_rows: int) -> list[Any]:
    """So many rows from the first batches."""
    kept = []
    for batch in batches:
        kept.append(batch.slice(0, n_rows))
        n_rows -= batch.num_rows
        if n_rows <= 0:
            break
    return kept


def _texts(schema: Any, batches: list[Any]) -> list[tuple[object, ...]]:  # noqa: ANN401 (a type of an optional package)
    for batch in batches:
        # Damaged offsets would be followed out of the file otherwise.
        batch.validate(full=True)
    columns = [i for i, field in enumerate(schema) if not _PANDAS_INDEX.fullmatch(field.name)]
    if not columns:
        return [()] * sum(batch.num_rows for batch in batches)
    return [row for batch in batches for row in zip(*(_values(batch.column(i)) for i in columns), strict=True)]


def _values(column: Any) -> list[object]:  # noqa: ANN401 (a type of an optional package)
    import pyarrow as pa

    if pa.types.is_float16(column.type) or pa.types.is_float32(column.type):
        # A Python float would show digits that a shorter number does not have.
        numbers = column.to_numpy(zero_copy_only=False)
        return ["" if number != number else float(str(number)) for number in numbers]
    try:
        values: list[object] = column.to_pylist()
    except (ValueError, OverflowError):
        values = column.cast(pa.string()).to_pylist()
    return values
