"""Parquet, Arrow IPC and Feather: values, limits, metadata, damaged files."""

import datetime
import decimal

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from gtr_gpu.errors import GTRError

TABLE = pa.table(
    {
        "int": pa.array([1, None], pa.int64()),
        "float": pa.array([0.5, float("nan")]),
        "single": pa.array([0.1, None], pa.float32()),
        "date": pa.array([datetime.date(2020, 1, 2), None]),
        "time": pa.array([datetime.datetime(2020, 1, 2, 3, 4), None], pa.timestamp("ns")),
        "decimal": pa.array([decimal.Decimal("1.50"), None]),
        "word": pa.array(["a\u200bb", "中"]).dictionary_encode(),
        "list": pa.array([[1, 2], None]),
        "struct": pa.array([{"k": "v", "n": None}, None]),
        "bytes": pa.array([b"\xff\x00", b"ok"]),
    }
)
ROWS = [
    ["1", "0.5", "0.1", "2020-01-02", "2020-01-02 03:04:00", "1.50", "ab", "[1,2]", '{"k":"v","n":null}', "(2 bytes)"],
    ["", "", "", "", "", "", "中", "", "", "ok"],
]


def write_file(table, path):
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_stream(table, path):
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


WRITERS = {
    "t.parquet": lambda table, path: pq.write_table(table, path, row_group_size=2),
    "t.arrow": write_file,
    "t.arrows": write_stream,
    "t.feather": lambda table, path: pyarrow.feather.write_feather(table, str(path), compression="zstd", chunksize=2),
}


@pytest.mark.parametrize("name", WRITERS)
def test_values(files, name):
    WRITERS[name](TABLE, files.folder / name)
    table = files.read_one(name)
    assert (table.table_id, table.caption, table.header) == (name, "t", TABLE.column_names)
    assert table.rows == ROWS


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("limit", [1, 3, 4, 5, 7, 100])
def test_only_the_first_rows_are_kept(files, name, limit):
    WRITERS[name](pa.table({"a": list(range(7)), "b": list("abcdefg")}), files.folder / name)
    table = files.read_one(name, row_limit=limit)
    assert table.n_rows == 7
    assert table.rows == [[str(i), "abcdefg"[i]] for i in range(min(limit, 7))]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("columns", [{}, {"a": pa.array([], pa.string())}])
def test_no_rows_or_columns(files, name, columns):
    WRITERS[name](pa.table(columns), files.folder / name)
    table = files.read_one(name)
    assert (table.header, table.rows, table.n_rows) == (list(columns), [], 0)


def test_title_and_description_of_the_schema(files):
    table = pa.table({"a": [1]}).replace_schema_metadata({"Title": "The title", "description": "Ä text"})
    WRITERS["t.parquet"](table, files.folder / "t.parquet")
    read = files.read_one("t.parquet")
    assert (read.caption, read.description) == ("The title", "Ä text")


def test_pandas_index(files):
    frame = pd.DataFrame({"a": [1, 2]}, index=[5, 9])
    frame.to_parquet(files.folder / "t.parquet")
    assert files.read_one("t.parquet").header == ["a"]
    frame.rename_axis("year").to_parquet(files.folder / "t.parquet")
    assert files.read_one("t.parquet").header == ["a", "year"]


def test_duplicate_names_and_very_many_columns(files):
    WRITERS["t.arrow"](pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), files.folder / "t.arrow")
    assert files.read_one("t.arrow").rows == [["1", "2"]]
    wide = pa.table({f"c{i}": list(range(20)) for i in range(6831)})
    pq.write_table(wide, files.folder / "t.parquet")
    table = files.read_one("t.parquet")
    assert (len(table.header), len(table.rows), table.n_rows) == (6831, 14, 20)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.feather"])
@pytest.mark.parametrize("spoil", [lambda data: data[:-10], lambda data: data[:40], lambda data: b"hello " * 9])
def test_damaged_files(files, name, spoil):
    WRITERS[name](TABLE, files.folder / name)
    path = files.folder / name
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(GTRError, match=rf"{name}: it is (truncated or damaged|neither)") as caught:
        files.read()
    assert "\n" not in str(caught.value)


def test_a_year_beyond_python(files):
    WRITERS["t.arrow"](pa.table({"a": pa.array([568971820800], pa.timestamp("s"))}), files.folder / "t.arrow")
    assert files.read_one("t.arrow").rows[0][0].startswith("20000-01-01")


def test_damaged_offsets_are_not_followed(files):
    path = files.folder / "t.arrow"
    WRITERS["t.arrow"](pa.table({"a": ["abcdefgh", "ij"]}), path)
    offsets = b"".join(n.to_bytes(4, "little") for n in (0, 8, 10))
    spoilt = b"".join(n.to_bytes(4, "little") for n in (0, 2**30, 2**30 + 5))
    assert path.read_bytes().count(offsets) == 1
    path.write_bytes(path.read_bytes().replace(offsets, spoilt))
    with pytest.raises(GTRError, match="truncated or damaged"):
        files.read()
