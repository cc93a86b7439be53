"""Metrics of answers: forty cases worked by hand, and what others' code gives."""

import warnings
from itertools import permutations

import pytest
from answer_cases import LABEL_CASES, TEXT_CASES, TextCase
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.answers import parse_answer
from gtr_gpu.errors import GTRError
from gtr_gpu.evaluation.answering.denotation import denotation
from gtr_gpu.evaluation.answering.exact_match import exact_match
from gtr_gpu.evaluation.answering.label_accuracy import label_accuracy
from gtr_gpu.evaluation.answering.measures import metrics_for, score
from gtr_gpu.evaluation.answering.token_f1 import token_f1
from gtr_gpu.evaluation.answering.values import Date, normalized, value_of
from gtr_gpu.prompts import PromptSettings, build_prompt
from gtr_gpu.prompts.tokens import EstimatedCounter
from gtr_gpu.tables import Table

WORDS = [
    "the",
    "The",
    "a",
    "An",
    "cat",
    "Cat.",
    "sat",
    "St.",
    "3.5",
    "35",
    "$3",
    "(x)",
    "–",
    "’s",
    "ÉTÉ",
    "été",
    "\n",
    "!",
]
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
items = st.lists(texts, min_size=1, max_size=4).map(tuple)


@pytest.mark.parametrize("case", TEXT_CASES, ids=lambda case: f"{case.gold} {case.answer}")
def test_texts_as_worked_by_hand(case):
    assert exact_match(case.gold, case.answer) == case.exact_match
    assert token_f1(case.gold, case.answer) == pytest.approx(case.token_f1, abs=1e-12)
    assert denotation(case.gold, case.answer) == case.denotation


@pytest.mark.parametrize("case", LABEL_CASES, ids=lambda case: f"{case.gold} {case.answer}")
def test_labels_as_worked_by_hand(case):
    assert label_accuracy(case.gold, case.answer) == case.label_accuracy


def test_there_are_forty_cases():
    assert len(TEXT_CASES) + len(LABEL_CASES) == 40


@given(texts, texts)
def test_squad_as_torchmetrics_has_it(gold, answer):
    with warnings.catch_warnings():  # what that library says of itself when it is loaded
        warnings.simplefilter("ignore")
        from torchmetrics.functional.text import squad
    expected = squad(
        [{"prediction_text": answer, "id": "1"}], [{"answers": {"answer_start": [0], "text": [gold]}, "id": "1"}]
    )
    assert 100 * exact_match((gold,), answer) == float(expected["exact_match"])
    assert 100 * token_f1((gold,), answer) == pytest.approx(float(expected["f1"]), abs=1e-4)


@given(items, items)
def test_items_are_paired_so_that_f1_is_largest(gold, answer):
    """Against trying all ways to pair them."""
    if min(len(gold), len(answer)) < 2:
        expected = token_f1((", ".join(gold),), ", ".join(answer))
    else:
        few, many = sorted((gold, answer), key=len)
        ways = (
            sum(token_f1((one,), other) for one, other in zip(few, way, strict=True))
            for way in permutations(many, len(few))
        )
        expected = max(ways) / len(many)
    assert token_f1(gold, answer) == pytest.approx(expected)


@given(items, items)
def test_what_all_metrics_share(gold, answer):
    for metric in (exact_match, token_f1, denotation):
        assert metric(gold, None) == 0
        assert 0 <= metric(gold, answer) <= 1
        assert metric(gold, gold) == 1
    assert token_f1(gold, answer) == pytest.approx(token_f1(answer, gold))
    if exact_match(gold, answer):
        assert token_f1(gold, answer) == pytest.approx(1)
    for metric in (token_f1, denotation, *([exact_match] if len(gold) > 1 else [])):
        if len(answer) > 2 and len(gold) > 1:
            assert metric(gold, answer) == pytest.approx(metric(gold, answer[::-1])), "order is nothing"


# Verdicts of AllenNLP's port of the official evaluator (allennlp 0.9.0, tools/wikitables_evaluator.py) on cases of ours
# in which nothing is written in a form that only we read.
RECORDED = [
    (["Ohio"], ["OHIO."], True),
    (["Ohio.."], ["ohio"], False),
    (["[note] Ohio"], ["Ohio"], False),
    (["[3]"], [""], True),
    (["Ohio[note]"], ["Ohio"], True),
    (["Ohio [3][4] (state)†"], ["ohio"], True),
    (["(Ohio)"], ["Ohio"], False),
    (["Ohio(state)"], ["Ohio"], False),
    (['"Ohio" (state)[1]'], ["Ohio"], True),
    (['"A" and "B"'], ['A" and "B'], False),
    (["C#"], ["C"], True),
    (["1e3"], ["1000"], True),
    (["1.0000001"], ["1"], True),
    (["1.000002"], ["1"], False),
    (["nan"], ["NaN"], True),
    (["xx-12-16"], ["2011-12-16"], False),
    (["xxxx-12-16"], ["XX-12-16"], True),
    (["2011-xx-xx"], ["2011.0"], True),
    (["2011-13-01"], ["2011-13-1"], False),
    (["2011-12-05"], ["2011-12-5"], True),
    (["0005-01-02"], ["5-1-2"], True),
    (["xx-xx-xx"], ["xx-xx-xx."], True),
    (["1", "1.0"], ["1"], True),
    (["1", "2"], ["2", "3"], False),
    (["a", "b"], ["B", "A", "a"], True),
    (["a", "b", "c"], ["a", "b", "b"], False),
    (["ﬁn"], ["fin"], True),
    (["\uff11\uff12"], ["12"], True),
    (["´x"], ["x"], True),  # noqa: RUF001
    (["x−y"], ["x-y"], True),  # noqa: RUF001
]


@pytest.mark.parametrize(("gold", "answer", "expected"), RECORDED)
def test_denotation_as_the_official_evaluator_judged(gold, answer, expected):
    assert denotation(tuple(gold), tuple(answer)) == expected


@pytest.mark.parametrize(
    ("text", "number", "date"),
    [
        ("1,234", 1234, None),
        ("1,234,567.5", 1234567.5, None),
        ("$1,234[3]", 1234, None),
        ("US$ 5", 5, None),
        ("5 %", 5, None),
        ("€.5", 0.5, None),
        ("−7", -7, None),  # noqa: RUF001
        ("-$7", -7, None),
        ("$-7", -7, None),
        ("($7.5)", -7.5, None),
        ("(-7)", None, None),
        ("(7", None, None),
        ("1,23", None, None),
        ("12,34,567", None, None),
        ("1_000", None, None),
        ("7 days", None, None),
        ("seven", None, None),
        ("1" * 400, None, None),
        ("December 16, 2011", None, Date(2011, 12, 16)),
        ("december 16th 2011", None, Date(2011, 12, 16)),
        ("April 10 , 1888", None, Date(1888, 4, 10)),
        ("16 Dec. 2011", None, Date(2011, 12, 16)),
        ("Sept 3, 2001 (EST)", None, Date(2001, 9, 3)),
        ("May 5", None, Date(None, 5, 5)),
        ("May 2011", None, Date(2011, 5, None)),
        ("May", None, None),
        ("May 32, 2011", None, None),
        ("2011", 2011, None),
        ("12/16/2011", None, None),
        ("2011-12", None, None),
    ],
)
def test_what_items_denote(text, number, date):
    value = value_of(text)
    assert (value.number, value.date) == (number, date)


@given(st.text(max_size=30))
def test_any_text_denotes_itself(text):
    assert denotation((text,), text) == 1
    assert normalized(text) == normalized(f" {text}\n")


def test_numbers_in_two_ways_are_one_item():
    assert denotation(("1,234", "1234"), "$1,234") == 1


def test_a_label_that_is_none():
    with pytest.raises(GTRError, match="the label of a statement must be 1 or 0, got 'maybe'"):
        label_accuracy(("1", "maybe"), "True")
    assert label_accuracy(("1",), ("True",)) == 0
    assert label_accuracy(("0",), " FALSE ") == 1


@pytest.mark.parametrize("case", [*TEXT_CASES, *LABEL_CASES], ids=lambda case: f"{case.gold} {case.answer}")
def test_outputs_of_models_as_worked_by_hand(case):
    """The forty cases once more, from what a model would write."""
    items = (case.answer,) if isinstance(case.answer, str) else case.answer or ("NA",)
    raw = "<reasoning>\n1. Table 1 has it.\n</reasoning>\n<answer>\n" + "\n".join(items) + "\n</answer>"
    kind = "list" if isinstance(case, TextCase) else "verification"
    expected = dict(zip(metrics_for(kind), case[3:], strict=True))
    prompt = build_prompt("what?", [Table("t", "T", ["a"], [["b"]])], [], PromptSettings(), EstimatedCounter())
    assert score(kind, case.gold, parse_answer(raw, prompt, kind).value) == pytest.approx(expected)
