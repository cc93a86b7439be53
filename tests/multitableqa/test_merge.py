"""Wording of merged questions, and which are merged."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.multitableqa.merge import Part, independent_groups, merged, sequence_groups
from gtr_gpu.multitableqa.wording import continued, sentence, tidy


class Always(random.Random):
    """Draws the same number each time."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self._value = value

    def random(self) -> float:
        return self._value


def alone(*texts: str) -> list[Part]:
    return [Part(text, text) for text in texts]


def test_and_joins_two_questions() -> None:
    parts = alone("what was the last year?", "In what city did Piotr's last finish occur ?")
    text = merged(parts, statement=False, sequential=False, chance=Always(0.0))
    assert text == "What was the last year, AND in what city did Piotr's last finish occur?"


def test_furthermore_begins_a_sentence() -> None:
    parts = alone("what was the last year", "USC lost when?", "who won?")
    text = merged(parts, statement=False, sequential=False, chance=Always(0.9))
    assert text == "What was the last year? Furthermore, USC lost when? In addition, who won?"


def test_an_order_and_a_question_stay_two_sentences() -> None:
    parts = alone("name the only stage that kelly won", "how many riders finished?")
    text = merged(parts, statement=False, sequential=False, chance=Always(0.0))
    assert text == "Name the only stage that kelly won. Furthermore, how many riders finished?"


def test_statements_are_stated() -> None:
    parts = alone("the attack occurred in the u.s .", "there were two drivers .")
    text = merged(parts, statement=True, sequential=False, chance=Always(0.0))
    assert text == "The attack occurred in the u.s., AND there were two drivers."


def test_a_sequence_builds_on_its_answers() -> None:
    parts = [
        Part("which clubs played?", "which clubs played?"),
        Part("based on the answer to ...", "what were their points?", refers_back=True),
        Part("based on the answers to ...", "of these, which is lowest?", refers_back=True),
    ]
    text = merged(parts, statement=False, sequential=True, chance=Always(0.0))
    assert text == "Which clubs played? Based on the answer, what were their points? Of these, which is lowest?"


def test_what_does_not_refer_back_is_joined_like_an_independent_one() -> None:
    parts = [
        Part("which clubs played?", "which clubs played?"),
        Part("what about rugby?", "what about rugby?", refers_back=True),
        Part("of all games, which was last?", "of all games, which was last?"),
        Part("who won it?", "who won it?"),
    ]
    text = merged(parts, statement=False, sequential=True, chance=Always(0.9))
    assert text == (
        "Which clubs played? What about rugby? Furthermore, of all games, which was last? In addition, who won it?"
    )


@given(st.integers(0, 60), st.floats(0, 1), st.integers(2, 5), st.integers())
def test_every_question_is_in_one_group(count: int, share: float, max_parts: int, seed: int) -> None:
    texts = [f"which {row} {row * row} {row * 7}" for row in range(count)]
    groups = independent_groups(texts, share, max_parts, 0.6, random.Random(seed))
    assert sorted(row for group in groups for row in group) == list(range(count))
    assert all(len(group) <= max_parts and group == sorted(group) for group in groups)
    assert groups == independent_groups(texts, share, max_parts, 0.6, random.Random(seed))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_the_share_of_merged_questions_is_that_asked_for(share: float) -> None:
    groups = independent_groups([""] * 20_000, share, 3, 2.0, random.Random(1))
    assert sum(len(group) for group in groups if len(group) > 1) / 20_000 == pytest.approx(share, abs=0.01)


def test_a_statement_and_its_counterfeit_stay_apart() -> None:
    texts = [
        "Estonia won its highest number of medals",
        "Estonia won its lowest number of medals",
        "two drivers retired",
    ]
    drawn = {str(independent_groups(texts, 1.0, 2, 0.6, random.Random(seed))) for seed in range(40)}
    assert drawn == {"[[0, 2], [1]]", "[[0], [1, 2]]"}


@given(st.sets(st.integers(0, 12)), st.integers(2, 4), st.integers())
def test_runs_of_a_sequence_have_no_gaps(places: set[int], max_parts: int, seed: int) -> None:
    positions = sorted(places)
    runs = sequence_groups(positions, max_parts, random.Random(seed))
    assert [row for run in runs for row in run] == list(range(len(positions)))
    for run in runs:
        own = [positions[row] for row in run]
        assert own == list(range(own[0], own[0] + len(own)))
        assert len(own) <= max_parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Li Xuerui 's  opponent ( 2015 ) , who ?", "Li Xuerui's opponent (2015), who?"),
        ("instant messaging is `` no '' , always", "instant messaging is “no”, always"),
        ("Warner Bros ' studio", "Warner Bros' studio"),
        ("which section is longest??", "which section is longest?"),
        ("497 ft square ( 46.2 m )", "497 ft square (46.2 m)"),
    ],
)
def test_what_tokenisers_left_goes(text: str, expected: str) -> None:
    assert tidy(text) == expected


@pytest.mark.parametrize(
    ("text", "statement", "expected"),
    [
        ("who won", False, "Who won?"),
        ("tell me who won?", False, "Tell me who won."),
        (
            "this first representative lives in devil's tower.",
            False,
            "This first representative lives in devil's tower.",
        ),
        ("what was the color of it.", False, "What was the color of it?"),
        ("total seasons by marcuzzi:", False, "Total seasons by marcuzzi?"),
        ("iPhone sales rose", True, "iPhone sales rose."),
        ("the rank is 4 .", True, "The rank is 4."),
    ],
)
def test_sentences_begin_and_end(text: str, statement: bool, expected: str) -> None:
    assert sentence(text, statement) == expected


def test_names_keep_their_capital_within_a_sentence() -> None:
    assert continued("Which team") == "which team"
    assert continued("Manchester United only played") == "Manchester United only played"
