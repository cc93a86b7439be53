"""Which parts hold the evidence, and when the source does not tell."""

import pytest

from gtr_gpu.multitableqa.decompose import SubTable
from gtr_gpu.multitableqa.evidence import find_evidence, index_cells
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable

TABLE = SourceTable(
    "t",
    "",
    ["country", "city", "people"],
    [["Norway", "Oslo", "700"], ["Kenya", "Nairobi", "4397"], ["Norway", "Bergen", "12"], ["Peru", "Lima", "9751"]],
    "d",
)
ALL = (0, 1, 2)
BY_ROWS = [
    SubTable("rows", (0, 2), ALL, TABLE.header, [TABLE.rows[0], TABLE.rows[2]]),
    SubTable("rows", (1, 3), ALL, TABLE.header, [TABLE.rows[1], TABLE.rows[3]]),
]
BY_COLUMNS = [
    SubTable("columns", (0, 1, 2, 3), (0, 1), TABLE.header[:2], [row[:2] for row in TABLE.rows]),
    SubTable("columns", (0, 1, 2, 3), (0, 2), ["country", "people"], [[row[0], row[2]] for row in TABLE.rows]),
]


def _find(parts: list[SubTable], *answers: str, **fields: object) -> tuple[int, ...] | None:
    question = SourceQuestion("q", "what?", "t", answers, **fields)  # type: ignore[arg-type]
    return find_evidence(question, parts, index_cells(TABLE))


@pytest.mark.parametrize(
    ("answers", "by_rows", "by_columns"),
    [
        (("Oslo",), (0,), (0,)),
        ((" oslo ", "LIMA"), (0, 1), (0,)),
        (("4397",), (1,), (1,)),
        # In the key column, which every part has.
        (("Peru",), (1,), (0, 1)),
        # In two rows of one part, and in any case in the key column.
        (("Norway",), (0,), (0, 1)),
        # A count that is found by chance.
        (("12",), None, None),
        (("Oslo", "Berlin"), None, None),
        ((), None, None),
    ],
)
def test_answers_are_looked_for_in_cells(answers, by_rows, by_columns):
    assert _find(BY_ROWS, *answers) == by_rows
    assert _find(BY_COLUMNS, *answers) == by_columns


def test_an_answer_in_cells_of_several_parts_tells_nothing():
    parts = [
        SubTable("rows", (0, 1), ALL, TABLE.header, TABLE.rows[:2]),
        SubTable("rows", (2, 3), ALL, TABLE.header, TABLE.rows[2:]),
    ]
    assert _find(parts, "Norway") is None


def test_coordinates_are_taken_as_they_are():
    assert _find(BY_ROWS, "whatever", coordinates=((2, 2), (1, 0))) == (0, 1)
    assert _find(BY_COLUMNS, "12", coordinates=((2, 2),)) == (1,)
    assert _find(BY_ROWS, "Oslo", coordinates=((9, 9), (-1, 0))) is None


def test_statements_and_answers_in_the_text_tell_nothing():
    assert _find(BY_ROWS, "Oslo", kind="statement") is None
    assert _find(BY_ROWS, "Oslo", evidence_from="text") is None
    assert _find(BY_ROWS, "Oslo", evidence_from="table-text") == (0,)
