"""Short and empty questions, near-duplicates and texts that are asked of several tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import jaccard_score

from gtr_gpu.features.heuristic import stop_words_of
from gtr_gpu.multitableqa.near_duplicates import ambiguous, first_of_each, pieces, similarity
from gtr_gpu.multitableqa.question_filter import objection, stop_share, words

STOP_WORDS = stop_words_of("auto")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("largest victory", "too_short"),
        ("which was completed last?", "too_short"),
        ("", "too_short"),
        ("who won the last one?", "stop_words"),
        ("What does the table show?", "stop_words"),
        ("how many italians finished in the top ten?", None),
        ("which show aired in 2005?", None),
    ],
)
def test_what_asks_for_nothing_is_dropped(text: str, reason: str | None) -> None:
    assert objection(text, STOP_WORDS, min_words=5, max_stop_share=0.8) == reason


def test_the_share_of_stop_words_is_counted_by_hand() -> None:
    assert stop_share("who won the last one", {"who", "the", "last", "one"}) == pytest.approx(0.8)
    assert stop_share("didn't Egypt win", {"didn"}) == pytest.approx(1 / 3)
    assert stop_share("?!", set()) == 1.0
    assert words("Piotr’s 1st-place finish") == ["piotr's", "1st", "place", "finish"]


def test_thresholds_of_nothing_keep_everything() -> None:
    assert objection("who", STOP_WORDS, min_words=0, max_stop_share=1.1) is None


@given(st.text("abc d", max_size=30), st.text("abc d", max_size=30))
def test_similarity_agrees_with_scikit_learn(first: str, second: str) -> None:
    ours = similarity(pieces(first), pieces(second))
    joined = [f" {' '.join(text.split())} " for text in (first, second)]
    if any(len(text) < 3 for text in joined):
        return
    seen = CountVectorizer(analyzer="char", ngram_range=(3, 3), binary=True).fit_transform(joined).toarray()
    assert ours == pytest.approx(jaccard_score(seen[0], seen[1]))


def test_the_first_of_near_duplicates_stays() -> None:
    texts = [
        "what are the tallest buildings in kanpur?",
        "which building is the oldest?",
        "What are the tallest buildings in Kanpur",
        "what are the tallest building in kanpur?",
    ]
    assert first_of_each(texts, ["a", "b", "a", "a"], 0.85) == [0, 1]
    assert first_of_each(texts, ["a", "b", "a", "a"], 1.0) == [0, 1, 3]
    assert first_of_each(texts, ["a", "b", "a", "a"], 1.1) == [0, 1, 2, 3]


def test_other_numbers_or_answers_make_other_questions() -> None:
    years = ["what was the revenue from apple in 2018?", "what was the revenue from apple in 2019?"]
    assert first_of_each(years, ["", ""], 0.5) == [0, 1]
    teams = ["there were two teams with losses in the season", "there were four teams with losses in the season"]
    assert first_of_each(teams, [None, None], 0.5) == [0, 1]
    statements = ["Estonia won its highest number of medals", "Estonia won its lowest number of medals"]
    assert first_of_each(statements, ["1", "0"], 0.5) == [0, 1]
    assert first_of_each(statements, ["1", "1"], 0.5) == [0]


def test_the_same_words_are_one_question_however_answered() -> None:
    assert first_of_each(["the rank is 4 .", "The rank is 4"], ["1", "0"], 1.0) == [0]


def test_a_text_on_several_tables_is_ambiguous() -> None:
    texts = ["Who won?", "who won", "who lost?", "who lost?", "who drew?"]
    assert ambiguous(texts, ["a", "b", "a", "a", "b"]) == {0, 1}
    assert ambiguous([], []) == set()
