"""Which tables and cells an answer rests on."""

import time

import pytest
from answer_fakes import CITIES, GAMES, make_prompt

from gtr_gpu.answers.citations import MOST_CELLS, ShownCells, cited_tables, normalized
from gtr_gpu.answers.parse import parse_answer
from gtr_gpu.tables import Table


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("From Table 1, we see", (1,)),
        ("TABLE 2 and table 1", (2, 1)),
        ("Tables 1 and 3", (1, 3)),
        ("Tables 1, 2, and 4 agree", (1, 2, 4)),
        ("tables 1 & 2", (1, 2)),
        ("Table 1-3", (1, 2, 3)),
        ("Tables 2 to 4", (2, 3, 4)),
        ("Tables 2 – 4", (2, 3, 4)),
        ("Table 1 and Table 3", (1, 3)),
        ("Table 1/Table 3", (1, 3)),
        ("Table 1/3", (1, 3)),
        ("Tables 1 or 3", (1, 3)),
        ("Tables 1 through 3", (1, 2, 3)),
        ("Table 1—3", (1, 2, 3)),
        ("Table 1 - Table 3", (1, 2, 3)),
        ("Tables 1 and 2.5", (1,)),
        ("Tables 1 and 2345678901", (1,)),
        ("Table nr. 2, table num 3", (2, 3)),
        ("<table2>", (2,)),
        ("<table2>Table 2: Games</table2>", (2,)),
        ("table #2", (2,)),
        ("Table no. 2", (2,)),
        ("Table number 2", (2,)),
        ("[Table 4]", (4,)),
        ("**Table 4**", (4,)),
        ("**Table** 4", (4,)),
        ("Table_4 and table-3", (4, 3)),
        ("Table (2)", (2,)),
        ("Table 2: row 3, column 1", (2,)),
        ("Table 1, 3 players", (1,)),
        ("Table 2.", (2,)),
        ("Table 2, Table 2 and Table 2", (2,)),
        ('{"source_node": "Table 1", "target_node": "Table 2"}', (1, 2)),
        ("Table 1-2011", (1,)),
        ("the timetable 2", ()),
        ("a vegetable 2", ()),
        ("Table 1.5", ()),
        ("in the table, 3 rows", ()),
        ("Table 2011 and Table 12345678901", ()),
        ("Table\n2", (2,)),
        ("The most relevant tables:\n- 2. Determine the tables:\n- 3. Determine", ()),
    ],
)
def test_tables_that_are_cited(text, known):
    assert cited_tables(text, 4) == (known, ())


def test_tables_that_were_not_in_the_prompt():
    assert cited_tables("Table 1, Table 7 and Table 0, Tables 3 and 9", 4) == ((1, 3), (7, 0, 9))
    assert cited_tables("Table 2011", 3000) == ((2011,), ())
    known, unknown = cited_tables("Table 1-999999 Tables 3 to 900", 4)
    assert (known, len(unknown) <= 200) == ((1, 3), True)


def cells(reasoning, value, tables=(GAMES, CITIES), kind="short", **options):
    raw = f"<reasoning>{reasoning}</reasoning><answer>{value}</answer>"
    return parse_answer(raw, make_prompt(tables, **options), kind).cells


def places(found):
    return [(cell.table, cell.row, cell.column) for cell in found]


def test_the_answers_cells_come_first():
    assert places(cells("In Table 1 the row of Mario Kart 7 has it.", "december 4, 2011.")) == [(1, 2, 1), (1, 2, 0)]


def test_only_the_cited_tables_are_looked_at_and_all_where_none_is():
    assert places(cells("See Table 1.", "Oslo")) == []
    assert places(cells("See above.", "Oslo")) == [(2, 0, 0)]
    assert places(cells("See Table 9.", "Oslo")) == [(2, 0, 0)]


@pytest.mark.parametrize("quoted", ['"1"', "“1”", "'1'", "«1»", "`1`", "**1**", "「1」"])
def test_quotes_of_any_kind(quoted):
    assert places(cells(f"Table 1 has {quoted} there.", "NA")) == [(1, 0, 2), (1, 2, 2)]


def test_short_cells_need_quotes():
    assert cells("There are 1 and 2 in Table 1.", "NA") == ()
    assert cells("Oslo lies in Norway, says Table 2.", "NA") == cells('Oslo lies in "Norway", says Table 2.', "NA")
    assert cells("It's the players' choice, isn't it: Table 1.", "NA") == ()


def test_a_word_of_prose_is_no_quotation():
    table = Table("t", "", ["a", "b"], [["total", "Total"], ["table", "entry number"]])
    assert places(cells("The total of the table is an entry number.", "NA", (table,))) == [(1, 1, 1)]


def test_a_number_that_is_the_answer_is_told_by_its_row():
    found = cells("Table 1 says of Mario Kart 7 that one was sold.", "1")
    assert places(found) == [(1, 2, 2), (1, 2, 0)]
    assert len(cells("Somewhere.", "1")) == 2


def test_numbers_with_and_without_separators():
    assert places(cells("", "700000")) == [(2, 0, 2)]
    assert normalized(" “\uff21\uff22 \t c.” ") == "ab c"
    assert normalized("1,234,567") == "1234567"
    assert normalized("16, 2011") == "16, 2011"


def test_items_of_a_list_each_have_their_cells():
    found = parse_answer('<answer>["Oslo", "Mario Kart 7"]</answer>', make_prompt(), "list").cells
    assert sorted(places(found)) == [(1, 2, 0), (2, 0, 0)]


def test_parts_of_an_answer_that_is_no_cell():
    assert places(cells("", "Mario Kart 7 and, in Norway, Oslo")) == [(1, 2, 0), (2, 0, 0), (2, 0, 1)]
    table = Table("t", "", ["eruption", "wait"], [["3.6", "79"], ["1.8", "54"]])
    assert places(cells("", "3.6 minutes, and 79 minutes", (table,))) == [(1, 0, 0), (1, 0, 1)]
    assert places(cells("", "December 16, 2011")) == [(1, 1, 1)]


def test_a_verification_has_no_cells_of_its_label():
    table = Table("t", "", ["won"], [["True"], ["False"]])
    assert cells("As said.", "True", (table,), kind="verification") == ()


def test_only_rows_that_the_prompt_shows():
    assert places(cells("", "Mario Kart 7", rows=(0,), tables=(GAMES,))) == []


def test_the_number_of_cells_is_bounded():
    table = Table("t", "", ["a"], [[f"Name {number}"] for number in range(100)])
    assert len(cells(", ".join(f'"Name {number}"' for number in range(100)), "NA", (table,))) == MOST_CELLS
    same = Table("t", "", ["a"], [["Oslo"]] * 100)
    assert places(cells("", "Oslo", (same,))) == [(1, 0, 0), (1, 1, 0), (1, 2, 0)]


def test_a_prompt_of_32k_tokens_takes_a_moment():
    tables = [
        Table(f"t{n}", "", ["a", "b", "c"], [[f"Team {n} {row}", str(row), f"City of {row}"] for row in range(300)])
        for n in range(20)
    ]
    prompt = make_prompt(tables)
    reasoning = " ".join(f"Team 3 {row} plays in City of {row}." for row in range(300))
    start = time.perf_counter()
    found = parse_answer(f"<reasoning>{reasoning}</reasoning><answer>Team 3 7</answer>", prompt, "short").cells
    assert time.perf_counter() - start < 2, "a tenth of a second, on a machine that does nothing else"
    assert found[0].text == "Team 3 7"
    assert ShownCells(prompt).holds("city of 7")


def test_a_model_that_repeats_a_chain_for_ever_takes_a_moment():
    start = time.perf_counter()
    assert cited_tables("Table 1-" * 20_000, 2) == ((1,), ())
    assert cited_tables("Table 1 and Table 2, " * 10_000, 2) == ((1, 2), ())
    assert time.perf_counter() - start < 2
