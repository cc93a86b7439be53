"""Which tables stay: copies and duplicates go with their questions kept, and so do tables that are too simple."""

import pytest

from gtr_gpu.multitableqa import filter as filters
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.multitableqa.settings import Settings

ROWS = [["1", "a"], ["2", "b"], ["3", "c"], ["4", "d"]]


def _table(name: str, rows: list[list[str]] = ROWS, caption: str = "", same_as: str | None = None) -> SourceTable:
    return SourceTable(name, caption, ["x", "y"], rows, "d", same_as)


def _question(name: str, table: str) -> SourceQuestion:
    return SourceQuestion(name, "what?", table, ("a",), coordinates=((0, 1),))


def test_questions_move_to_the_original_with_their_cells_where_it_has_the_same_shape():
    tables = [
        _table("copy", same_as="original"),
        _table("original", [[*row] for row in ROWS[:4]]),
        _table("short", ROWS[:2], same_as="original"),
        _table("of another set", same_as="unknown"),
    ]
    moved = filters.find_copies(tables)
    assert moved == {"copy": "original", "short": "original"}
    questions = [_question("1", "copy"), _question("2", "short"), _question("3", "of another set")]
    kept, questions = filters.remove(tables, questions, moved)
    assert [table.source_id for table in kept] == ["original", "of another set"]
    assert [(one.table_id, one.coordinates) for one in questions] == [
        ("original", ((0, 1),)),
        ("original", None),
        ("of another set", ((0, 1),)),
    ]


def test_duplicates_are_told_by_content_and_the_one_with_a_caption_stays():
    tables = [_table("1"), _table("2", caption="c"), _table("3", caption="d"), _table("4", ROWS[::-1])]
    assert filters.find_duplicates(tables) == {"1": "2", "3": "2"}
    assert filters.find_duplicates(tables[:1] * 1 + [_table("5")]) == {"5": "1"}
    # The same cells in another arrangement are another table.
    flat = SourceTable("6", "", ["x", "y", "1", "a"], [], "d")
    assert filters.find_duplicates([flat, SourceTable("7", "", ["x", "y"], [["1", "a"]], "d")]) == {}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (_table("t"), None),
        (_table("t", ROWS[:2]), "rows"),
        (SourceTable("t", "", ["x"], [[str(number)] for number in range(9)], "d"), "columns"),
        (_table("t", [["1", "2"], ["3", "4"], ["5", "6"], ["7", "7"]]), "distinct"),
        (_table("t", [["1", "2"], ["3", "4"], ["5", "6"], ["7", "8"], *([["", " "]] * 4)]), None),
        (_table("t", [["1", "2"], ["3", "4"], ["5", "6"], ["7", "8"], *([["", " "]] * 5)]), "empty"),
        (_table("t", []), "rows"),
    ],
)
def test_too_simple_tables_say_why(table: SourceTable, reason: str | None):
    assert filters.too_simple(table, Settings()) == reason


def test_thresholds_can_be_switched_off():
    lenient = Settings(min_rows=0, min_columns=0, min_distinct=0, max_empty=1.0)
    assert filters.too_simple(_table("t", [["", ""]]), lenient) is None
    assert filters.too_simple(SourceTable("t", "", [], [], "d"), lenient) is None
