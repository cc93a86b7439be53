"""Tables cut into parts: every cell in exactly one, the key column in all, and all together the table again."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.decompose import SubTable, decompose, recompose, whole
from gtr_gpu.multitableqa.records import SourceTable

# Few different texts, so that equal cells, rows and columns are common.
_tables = st.tuples(st.integers(0, 12), st.integers(1, 9)).flatmap(
    lambda shape: st.builds(
        SourceTable,
        source_id=st.text("abc", min_size=1),
        caption=st.just("c"),
        header=st.lists(st.sampled_from(["", "x", "y"]), min_size=shape[1], max_size=shape[1]),
        rows=st.lists(
            st.lists(st.sampled_from(["", "1", "2"]), min_size=shape[1], max_size=shape[1]),
            min_size=shape[0],
            max_size=shape[0],
        ),
        dataset=st.just("d"),
    )
)


def _table(n_rows: int, n_columns: int, name: str = "t") -> SourceTable:
    rows = [[f"{row}.{column}" for column in range(n_columns)] for row in range(n_rows)]
    return SourceTable(name, "c", [f"h{column}" for column in range(n_columns)], rows, "d")


@given(table=_tables, seed=st.integers(0, 3), n_parts=st.integers(2, 4))
def test_parts_are_the_table_again(table: SourceTable, seed: int, n_parts: int):
    parts = decompose(table, seed, n_parts)
    header, rows = recompose(parts[::-1])
    assert rows == table.rows
    # A table without rows has nothing that could be cut, and its header is all that it is.
    assert header == table.header


@given(table=_tables, seed=st.integers(0, 3), n_parts=st.integers(2, 4))
def test_every_cell_is_in_one_part_and_the_key_column_in_all(table: SourceTable, seed: int, n_parts: int):
    parts = decompose(table, seed, n_parts)
    counts = Counter((row, column) for part in parts for row in part.row_ids for column in part.column_ids)
    along_columns = parts[0].kind == "columns"
    for row in range(len(table.rows)):
        for column in range(len(table.header)):
            assert counts[row, column] == (len(parts) if along_columns and column == 0 else 1)
    assert len({part.kind for part in parts}) == 1
    for part in parts:
        assert list(part.row_ids) == sorted(part.row_ids) and list(part.column_ids) == sorted(part.column_ids)
        if part.kind == "rows":
            assert part.header == table.header and len(part.rows) >= 2
        if part.kind == "columns":
            assert part.column_ids[0] == 0 and len(part.header) >= 2
    sizes = [len(part.row_ids) * len(part.column_ids) for part in parts]
    assert max(sizes) - min(sizes) <= max(len(table.rows), len(table.header))


@pytest.mark.parametrize(
    ("shape", "kinds", "count"),
    [
        ((9, 6), {"rows", "columns"}, 3),
        ((20, 3), {"rows"}, 3),
        ((3, 6), {"columns"}, 3),
        ((4, 2), {"rows"}, 2),
        ((4, 3), {"rows", "columns"}, 2),
        ((3, 2), {"whole"}, 1),
        ((1, 4), {"columns"}, 3),
        ((0, 4), {"whole"}, 1),
    ],
)
def test_small_tables_adapt(shape: tuple[int, int], kinds: set[str], count: int):
    cuts = [decompose(_table(*shape, name=f"t{number}"), 0) for number in range(40)]
    assert {parts[0].kind for parts in cuts} == kinds
    assert {len(parts) for parts in cuts} == {count}


def test_both_kinds_are_drawn_equally_and_rows_are_no_blocks():
    cuts = [decompose(_table(12, 7, name=f"t{number}"), 1) for number in range(400)]
    kinds = Counter(parts[0].kind for parts in cuts)
    assert abs(kinds["rows"] - 200) < 50
    blocks = [
        part.row_ids == tuple(range(part.row_ids[0], part.row_ids[0] + 4))
        for parts in cuts
        if parts[0].kind == "rows"
        for part in parts
    ]
    assert sum(blocks) < 0.1 * len(blocks)


def test_the_seed_decides_and_other_tables_do_not():
    tables = [_table(12, 7, name=f"t{number}") for number in range(30)]
    cut = [decompose(table, 5) for table in tables]
    assert [decompose(table, 5) for table in reversed(tables)] == cut[::-1]
    assert [decompose(table, 6) for table in tables] != cut


def test_what_does_not_belong_together_is_refused():
    parts = decompose(_table(9, 2), 0)
    with pytest.raises(GTRError, match="a part of the table is missing"):
        recompose([part for part in parts if 0 not in part.row_ids])
    wrong = SubTable("whole", (0,), (0, 1), ["h0", "h1"], [["other", "0.1"]])
    with pytest.raises(GTRError, match="the parts are not of one table: one has"):
        recompose([*parts, wrong])
    assert recompose([]) == ([], [])
    assert whole(_table(2, 2))[0].rows == [["0.0", "0.1"], ["1.0", "1.1"]]
