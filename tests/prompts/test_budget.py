"""What goes first where room is short, rows that match, and tables that are very large."""

import random
import time

import pytest
from prompts_words import Words

from gtr_gpu.errors import GTRError
from gtr_gpu.prompts import PromptRelation, PromptSettings, build_prompt
from gtr_gpu.prompts.row_match import Matcher
from gtr_gpu.prompts.settings import TABLE_FORMATS
from gtr_gpu.prompts.tokens import EstimatedCounter
from gtr_gpu.tables.table import Table


def table(name, n_rows, words=8, description=""):
    rows = [[f"{name} {row}", " ".join(f"w{row}x{word}" for word in range(words))] for row in range(n_rows)]
    return Table(name, f"about {name}", ["name", "words"], rows, description=description)


def build(tables, budget, relations=(), counter=None, question="What is it?", **options):
    settings = PromptSettings(prompt_tokens=budget, **options)
    return build_prompt(question, tables, relations, settings, counter or Words())


def test_relations_take_a_tenth_at_most_and_the_weakest_go_first():
    tables = [table(f"t{number}", 20) for number in range(5)]
    pairs = [(a, b) for a in range(1, 6) for b in range(a + 1, 6)]
    relations = [PromptRelation(a, b, "similarity", 1 - 0.05 * n) for n, (a, b) in enumerate(pairs)]
    built = build(tables, 1500, relations)
    assert 0 < len(built.relations) < len(relations)
    assert list(built.relations) == relations[: len(built.relations)]
    section = built.text.partition("## Graph-Related Information:")[2].partition("\n1. ")[0]
    assert Words().count([section])[0] <= 150
    everything = build(tables, 100_000, relations)
    assert list(everything.relations) == relations
    assert len(build(tables, 100_000, relations, max_relations=3).relations) == 3


def test_more_room_never_shows_fewer_tables_of_equal_ones():
    tables = [table(f"t{number}", 30) for number in range(8)]
    shown = [len(build(tables, budget).tables) for budget in range(300, 3000, 300)]
    assert shown == sorted(shown)
    assert shown[0] < 8 == shown[-1]


def test_the_best_table_is_there_with_a_row_at_every_budget_that_is_enough():
    tables = [table("gold", 40, 60), *(table(f"t{number}", 40, 3) for number in range(9))]
    enough = False
    for budget in range(200, 900, 23):
        try:
            built = build(tables, budget)
        except GTRError:
            assert not enough
            continue
        enough = True
        assert built.tables[0].table.table_id == "gold" and built.tables[0].rows
        assert built.n_tokens <= budget
    assert enough


def test_descriptions_go_before_rows_do():
    long = "a longer text about the table " * 20
    tables = [table(f"t{number}", 10, description=long) for number in range(6)]
    tight, wide = build(tables, 900), build(tables, 9000)
    assert tight.text.count("a longer text") < wide.text.count("a longer text")
    assert wide.text.count("Table 6: about t5 - a longer text") == 1
    assert "…" in wide.text and wide.text.count("a longer text about") < 6 * 10


def test_a_long_row_does_not_hide_the_later_tables():
    tables = [table("t0", 5), Table("t1", "", ["a"], [["long " * 2000]]), table("t2", 5)]
    built = build(tables, 1200)
    assert [len(shown.rows) for shown in built.tables] == [5, 1, 5]
    assert [shown.cut_cells for shown in built.tables] == [0, 1, 0]


def test_names_of_later_tables_are_cut_to_what_can_be_read_and_whole_where_there_is_room():
    named = Table("t1", "the second table", [f"rather a long name of column {n} " * 3 for n in range(5)], [["1"] * 5])
    tight, wide = build([table("t0", 40), named], 500), build([table("t0", 2), named], 500)
    assert [shown.cut_cells for shown in tight.tables] == [0, 5]
    assert "Table 2: the second table\n| rather a lo… |" in tight.text
    assert [shown.cut_cells for shown in wide.tables] == [0, 0]


def test_rows_that_say_what_another_says_go_last():
    rows = [["gold", "Norway"]] * 60
    rows[40] = ["silver", "Norway"]
    repeated = Table("t", "", ["medal", "nation"], rows)
    built = build([repeated, table("t1", 10)], 500, question="Did Norway win gold?")
    assert {0, 40} < set(built.tables[0].rows) and len(built.tables[0].rows) < 60
    assert len(built.tables[1].rows) == 10


def test_a_table_without_rows_or_columns():
    for empty in (Table("e", "empty", ["a", "b"], []), Table("e", "empty", [], []), Table("e", "", [], [[], []])):
        for table_format in TABLE_FORMATS:
            built = build([empty, table("t", 2)], 600, table_format=table_format)
            assert [len(shown.rows) for shown in built.tables] == [len(empty.rows), 2]
    assert "(no table was found)" in build([], 600).text


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_budgets_are_kept_by_a_real_tokenizer(chat, table_format):
    draw = random.Random(7)
    characters = "abc 0123,.–é東|<>\"'\\…😀"
    for trial in range(12):
        tables = [
            Table("t", "", ["a", "b"], [["".join(draw.choices(characters, k=30)) for _ in "ab"] for _ in range(20)])
            for _ in range(4)
        ]
        budget = 400 + 97 * trial
        built = build(tables, budget, counter=chat, table_format=table_format)
        assert built.n_tokens == chat.prompt_tokens(built.text) <= budget
        assert built.n_tokens > 0.8 * budget or built.left_out_tables == 0


def test_a_table_of_very_many_rows_takes_no_time():
    words = ["red", "green", "blue", "grey"]
    rows = [[str(row), words[row % 4], f"value {row * 7919 % 100_003}"] for row in range(200_000)]
    rows[150_000][1] = "Mario Kart Advance"
    large = Table("large", "numbers", ["n", "colour", "value"], rows)
    start = time.process_time()
    built = build([large], 2000, question="When was Mario Kart Advance released?", counter=EstimatedCounter())
    assert time.process_time() - start < 5
    assert 150_000 in built.tables[0].rows and 0 in built.tables[0].rows


def match(question, rows):
    table = Table("t", "", ["a", "b"], rows)
    matcher = Matcher(question)
    return matcher.matches([table], [matcher.rows_to_read(table)])[0]


def test_rare_words_stems_numbers_and_whole_cells_weigh_more():
    rows = [["Norway", "cities"], ["Norway", "1,234"], ["Norway", "lakes"], ["Oslo city", "x"], ["Denmark", "y"]]
    found = match("Which city of Norway has 1234 people?", rows)
    assert found[1] > found[0] > found[2] > found[4] == 0  # the number is one cell, and so is the plural of "city"
    assert found[0] > found[3] > 0  # "city" is only a part of a cell


def test_stop_words_count_a_little_and_alone_when_there_is_nothing_else():
    rows = [["the first", "x"], ["Oslo", "y"], ["none", "z"]]
    first, oslo, none = match("What was the first thing in Oslo?", rows)
    assert oslo > first > none == 0
    assert match("Who is it?", [["it", "x"], ["a", "b"]])[0] > 0
