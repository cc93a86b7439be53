import pytest

from gtr_gpu.config import Config
from gtr_gpu.linearize import (
    CHARACTERS_PER_TOKEN,
    STRUCTURAL_DESCRIPTION,
    heuristic_fields,
    structural_text,
    table_text,
)
from gtr_gpu.tables.table import Table

TABLE = Table(
    "secret-id",
    "Medal\n table",
    ["Nation ", "", "Gold"],
    [["Norway", "x\ny", "16"], ["", "", ""], ["Chad", "", "0"]],
    description="All games.",
    source="secret-source",
    metadata={"page": "secret-page"},
)


def encoder_text(table, config):
    return table_text(table, config).joined()


def test_each_style_is_laid_out_as_documented():
    assert encoder_text(TABLE, Config()) == "Medal table. All games. Nation, Gold. Norway, x y, 16; Chad, 0;"
    assert encoder_text(TABLE, Config(text_style="tagged")) == (
        "[Table] [Caption] Medal table. All games. [Header] Nation [Header] Gold [Row] Norway, x y, 16 [Row] Chad, 0"
    )
    assert encoder_text(TABLE, Config.preset("paper")) == "Caption: Medal table; Headers: [Nation, , Gold]"


def test_without_rows_the_encoder_reads_caption_and_names():
    text = table_text(TABLE, Config(encode_rows=False))
    assert (text.lead, text.header, text.rows, text.n_rows) == ("Medal table. All games.", ["Nation,", "Gold."], [], 0)


def test_each_modality_reads_its_parts():
    assert structural_text(TABLE, Config()) == "Medal table. All games. Nation, Gold."
    schema, cells = heuristic_fields(TABLE, Config())
    assert schema.split("\n") == ["Medal table", "All games.", "Nation", "Gold"]
    assert cells.split() == ["Norway", "x", "y", "16", "Chad", "0"]
    paper = Config.preset("paper")
    assert structural_text(TABLE, paper) == "Caption: Medal table; Headers: [Nation, , Gold]"
    assert heuristic_fields(TABLE, paper) == ("Caption: Medal table; Headers: [Nation, , Gold]", "")


@pytest.mark.parametrize("style", ["plain", "tagged", "paper"])
def test_ids_sources_and_metadata_are_never_read(style):
    config = Config(text_style=style)
    texts = [encoder_text(TABLE, config), structural_text(TABLE, config), *heuristic_fields(TABLE, config)]
    assert not any("secret" in text for text in texts)


@pytest.mark.parametrize("style", ["plain", "tagged", "paper"])
@pytest.mark.parametrize("rows", [[], [["", ""]]])
def test_a_table_without_words_has_a_text(style, rows):
    text = encoder_text(Table("t", "", ["", ""], rows), Config(text_style=style))
    assert text.strip()
    if style == "plain":
        assert text == f"Table of {len(rows)} rows and 2 columns."


def test_nothing_is_counted_of_a_table_without_words():
    table = Table("t", " ", ["", " "], [["", ""]])
    assert structural_text(table, Config()) == ""
    assert heuristic_fields(table, Config()) == ("", "")


def test_numbers_alone_are_read():
    assert encoder_text(Table("t", "", [""], [["1"], ["2.5"]]), Config()) == "1; 2.5;"
    assert table_text(Table("t", "", [""], [["1"]]), Config(encode_rows=False)).lead == "Table of 1 rows and 1 columns."


def test_other_scripts_end_their_sentences_once():
    table = Table("t", "中文表格。", ["الاسم"], [["值"]])
    assert encoder_text(table, Config()) == "中文表格。 الاسم. 值;"


def test_rows_beyond_what_could_fit_are_counted_but_not_joined():
    table = Table("t", "c", ["a"], [["word " * 20]] * 1000)
    text = table_text(table, Config(max_tokens=16))
    assert text.n_rows == 1000
    assert 1 <= len(text.rows) <= CHARACTERS_PER_TOKEN * 16 // 100 + 1


def test_a_long_description_is_bounded_where_it_is_only_counted():
    table = Table("t", "c", ["a"], [], description="word " * 10_000)
    assert len(structural_text(table, Config())) < STRUCTURAL_DESCRIPTION + 20
    assert len(table_text(table, Config()).lead) > 40_000
