"""Cells, names and captions, and the runs of words in a question that are equal to them."""

from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.config import Config
from gtr_gpu.features.phrases import MAX_PHRASE, question_phrases, table_phrases
from gtr_gpu.features.stems import stem_of
from gtr_gpu.linearize import phrase_texts
from gtr_gpu.tables import Table

WORDS = st.lists(st.sampled_from(["new", "york", "city", "of", "the", "7", "1,250"]), max_size=12)


def shared(question, cell, stem=list):
    (asked,) = question_phrases([question], stem).to_lists()
    (held,) = table_phrases([[cell]], stem).to_lists()
    return len(set(asked) & set(held))


def test_a_cell_that_is_said_as_it_is():
    question = "What is the population of New York City, in 1,250 places?"
    for cell in ("New York City", "new york", "York", " NEW-YORK ", "1250", "places"):
        assert shared(question, cell) == 1, cell
    for cell in ("New City", "York New", "New York State", "12", "", "?"):
        assert shared(question, cell) == 0, cell


def test_stems_are_compared():
    stem = stem_of("auto", "auto")
    assert shared("which cities of the coast", "City of the coasts", stem) == 1
    assert shared("which cities of the coast", "City of the coasts") == 0


def test_long_cells_are_texts_and_no_phrases():
    words = [f"word{n}" for n in range(MAX_PHRASE + 1)]
    assert shared(" ".join(words), " ".join(words[:-1])) == 1
    assert shared(" ".join(words), " ".join(words)) == 0


def test_the_cells_of_a_table_are_a_set():
    found = table_phrases([["a", "b", "b", "A", "", "c d"], [], ["b"]])
    assert [len(row) for row in found.to_lists()] == [3, 0, 1]
    assert set(found.to_lists()[2]) < set(found.to_lists()[0])
    assert len(table_phrases([])) == len(question_phrases([])) == 0


def test_what_of_a_table_is_a_phrase():
    table = Table("id", "Big Cities", ["City", "Size"], [["Ayr", "9"]], description="never read", source="nor this")
    assert list(phrase_texts(table, Config())) == ["Big Cities", "City", "Size", "Ayr", "9"]
    assert list(phrase_texts(table, Config.preset("paper"))) == ["Big Cities", "City", "Size"]


@given(WORDS)
def test_the_runs_of_a_question_are_all_there_are(words):
    (found,) = question_phrases([" ".join(words)]).to_lists()
    runs = {tuple(words[i:j]) for i in range(len(words)) for j in range(i + 1, min(i + MAX_PHRASE, len(words)) + 1)}
    assert len(found) == len(runs)
    assert found == sorted(found)
