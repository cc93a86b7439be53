"""Stems of words."""

import pytest

from gtr_gpu.features.heuristic import Vocabulary, count_queries, count_terms
from gtr_gpu.features.stems import stem_of


@pytest.mark.parametrize(
    ("model", "words", "stems"),
    [
        (
            "auto",
            ["cities", "city", "winning", "wins", "#int7", "2012"],
            ["citi", "citi", "win", "win", "#int7", "2012"],
        ),
        ("en_core_web_sm", ["teams"], ["team"]),
        ("blank:de", ["häuser", "haus"], ["haus", "haus"]),
        ("blank:ja", ["東京", "cities"], ["東京", "cities"]),  # no stemmer
        ("/models/mine", ["cities"], ["cities"]),
    ],
)
def test_stems_are_those_of_the_language(model, words, stems):
    assert stem_of("auto", model)(words) == stems


def test_no_stems():
    assert stem_of("none", "auto")(["cities"]) == ["cities"]


def test_a_question_finds_another_form_of_a_word():
    vocabulary, stem = Vocabulary(), stem_of("auto", "auto")
    counts = count_terms([("City", "the winning teams")], vocabulary, stem=stem)
    asked = count_queries(["Which cities won with their team?"], vocabulary, stop_words=frozenset({"their"}), stem=stem)
    found = [vocabulary.to_list()[term] for term in asked.columns.values.tolist()]
    assert sorted(found) == ["citi", "team"]
    assert counts.counts.weights.tolist() == [1, 1, 1, 1]


def test_stop_words_are_compared_before_stems_are_made():
    vocabulary, stem = Vocabulary(["do"]), stem_of("auto", "auto")
    asked = count_queries(["doing does"], vocabulary, stop_words=frozenset({"does"}), stem=stem)
    assert asked.weights.tolist() == [1]
