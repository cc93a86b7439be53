"""The store of tables: round trips, random access, bounded batches, and files that are not stores."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError, IndexFormatError
from gtr_gpu.tables.store import SCHEMA, TableStore, TableWriter
from gtr_gpu.tables.table import Table

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def tables(draw):
    width = draw(st.integers(0, 4))
    row = st.lists(TEXT, min_size=width, max_size=width)
    return Table(
        table_id=draw(TEXT),
        caption=draw(TEXT),
        description=draw(TEXT),
        header=draw(row),
        rows=draw(st.lists(row, max_size=4)),
        source=draw(TEXT),
        n_rows=draw(st.integers(-1, 2**40)),
        metadata=draw(st.dictionaries(TEXT, st.one_of(st.none(), st.integers(), TEXT, st.lists(TEXT)), max_size=2)),
    )


def write(path, corpus, **limits):
    with TableWriter(path, **limits) as writer:
        for table in corpus:
            writer.append(table)
    return TableStore.open(path)


@settings(deadline=None)
@given(corpus=st.lists(tables(), max_size=7), batch=st.integers(1, 3), data=st.data())
def test_round_trip(tmp_path_factory, corpus, batch, data):
    store = write(tmp_path_factory.mktemp("store") / "t.arrow", corpus, batch_tables=batch)
    assert list(store) == corpus
    assert len(store) == len(corpus)
    assert store.ids().to_pylist() == [t.table_id for t in corpus]
    assert store.captions().to_pylist() == [t.caption for t in corpus]
    if corpus:
        rows = data.draw(st.lists(st.integers(-len(corpus), len(corpus) - 1), max_size=5))
        assert [store[row] for row in rows] == [corpus[row] for row in rows]


@pytest.mark.parametrize(("header", "rows"), [([], []), ([], [[], []]), (["a"], []), ([""], [[""]])])
def test_tables_without_columns_or_rows(tmp_path, header, rows):
    table = Table("t", "", header, rows, n_rows=9)
    assert write(tmp_path / "t.arrow", [table, table])[1] == table


def test_batches_are_bounded_by_tables_and_by_characters(tmp_path):
    corpus = [Table(str(i), "", ["a"], [["x" * 100]]) for i in range(10)]

    def batches(**limits):
        write(tmp_path / "t.arrow", corpus, **limits)
        with pa.memory_map(str(tmp_path / "t.arrow")) as file:
            return pa.ipc.open_file(file).num_record_batches

    assert batches() == 1
    assert batches(batch_tables=4) == 3
    assert batches(batch_characters=250) == 4


def test_out_of_range(tmp_path):
    store = write(tmp_path / "t.arrow", [Table("t", "", [], [])])
    for index in (1, -2):
        with pytest.raises(IndexError):
            store[index]


def test_an_unwritten_store_leaves_no_file(tmp_path):
    with pytest.raises(RuntimeError), TableWriter(tmp_path / "t.arrow") as writer:
        writer.append(Table("t", "", [], []))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("table", "message"),
    [(Table("odd", "", ["a", "b"], [["1"]]), "'odd' must have 2 cells"), (Table("t", "\ud800", [], []), "surrogate")],
)
def test_what_cannot_be_stored_is_one_sentence(tmp_path, table, message):
    with pytest.raises(GTRError, match=message), TableWriter(tmp_path / "t.arrow") as writer:
        writer.append(table)
    assert not (tmp_path / "t.arrow").exists()


def foreign(path: Path) -> None:
    with pa.ipc.new_file(str(path), pa.schema([("id", pa.string())])):
        pass


def newer(path: Path) -> None:
    with pa.ipc.new_file(str(path), SCHEMA.with_metadata({"gtr_tables": "999"})):
        pass


def truncated(path: Path) -> None:
    write(path, [Table(str(i), "caption", ["a"], [["1"]]) for i in range(50)]).close()
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (foreign, "not a store of tables"),
        (newer, "format 999.*update gtr-gpu"),
        (truncated, "truncated"),
        (lambda path: path.write_text("hello"), "truncated or not a store"),
        (lambda path: path.write_bytes(b""), "truncated or not a store"),
        (lambda path: path.mkdir(), "t.arrow"),
        (lambda path: None, "missing"),
    ],
)
def test_broken_stores_are_one_sentence(tmp_path, make, message):
    path = tmp_path / "t.arrow"
    make(path)
    with pytest.raises(IndexFormatError, match=message) as caught:
        TableStore.open(path)
    assert "\n" not in str(caught.value)
