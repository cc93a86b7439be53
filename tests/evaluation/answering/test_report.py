"""The report of answers: its figures worked out anew from what was answered, and what it marks."""

import json
import re

import numpy as np
import pytest
from scoring_fakes import FakeModel, canaries, make_answer_task, oracle

from gtr_gpu.evaluation.answering.comparison import groups_of
from gtr_gpu.evaluation.answering.plan import VARIANTS, AnswerPlan
from gtr_gpu.evaluation.answering.report import markdown, write_report
from gtr_gpu.evaluation.answering.runner import answer
from gtr_gpu.evaluation.answering.runs import Runs
from gtr_gpu.evaluation.bootstrap import compare, confidence_intervals
from gtr_gpu.language_models.model import ModelError
from gtr_gpu.multitableqa.task import write_task

METRICS = ["EM", "F1", "denotation"]


class Uneven(FakeModel):
    """Right for fewer questions without the reasoning steps, and for still fewer without relations."""

    def __init__(self, task):
        super().__init__(None)
        self.right = oracle(task)
        self.numbers = {question.text: number for number, question in enumerate(task.questions)}

    def _completion(self, prompt):
        every = 2 if "<reasoning>" not in prompt else 3 if '"relationship"' not in prompt else 5
        self.answer = lambda question: "something else" if self.numbers[question] % every == 0 else self.right(question)
        return super()._completion(prompt)


@pytest.fixture(scope="module")
def task():
    return make_answer_task(canaries, name="multi_hop")


@pytest.fixture(scope="module")
def results(tmp_path_factory, fake_encoder, task):
    folder = tmp_path_factory.mktemp("report")
    write_task(folder / "multi_hop" / "published", task, {})
    list(answer(folder / "multi_hop", folder / "out", AnswerPlan(cuts=(3, 5), split="all"), Uneven(task)))
    return folder / "out"


def rows_of(text, number):
    """A table of the report, its cells by variant and k."""
    tables = re.findall(r"((?:^\|.*\n?)+)", text, re.MULTILINE)
    lines = [[cell.strip() for cell in line.strip("| \n").split(" | ")] for line in tables[number].splitlines()]
    return lines[0], {(line[0], int(line[1])): line[2:] for line in lines[2:]}


def by_hand(task, variant):
    """Which questions are answered rightly, and their source tables, in order of their numbers."""
    every = {"full": 5, "no-relations": 3, "no-reasoning": 2}[variant]
    numbers = [number for number in range(24) if number % 4 != 3]
    sources = [task.questions[number].source for number in numbers]
    right = np.array([number % every != 0 for number in numbers], dtype=float)
    return right[:, None], np.array([sources.index(source) for source in sources])


def test_figures_by_hand(results, task):
    (group,) = groups_of(Runs(results).all())
    assert [(row.k, row.variant) for row in group.rows] == [(k, name) for k in (3, 5) for name in VARIANTS]
    _, rows = rows_of(markdown([group]), 0)
    for row in group.rows:
        right, _ = by_hand(task, row.variant)
        cells = rows[row.variant, row.k]
        for place, metric in enumerate(METRICS[::2]):
            assert row.figures[metric].mean == pytest.approx(right.mean())
            assert cells[2 * place].startswith(f"{100 * right.mean():.1f} [")
        assert row.figures["F1"].mean == pytest.approx(right.mean()), "wrong answers share no word with the label"
        assert cells[3:] == ["18", "0", "0.0"]


def test_intervals_and_differences_by_hand(results, task):
    (group,) = groups_of(Runs(results).all())
    heads, rows = rows_of(markdown([group]), 1)
    assert heads == ["variant", "k", *METRICS] and set(rows) == {(name, k) for k in (3, 5) for name in VARIANTS[1:]}
    full, _ = by_hand(task, "full")
    for row in group.rows:
        right, groups = by_hand(task, row.variant)
        saved = next(run for run in Runs(results).all() if run.record["key"] == row.record["key"])
        groups = np.array([one.group for one in sorted(saved.outcomes, key=lambda one: one.number)])
        low, high = confidence_intervals(right, groups)[:, 0]
        assert (row.figures["EM"].low, row.figures["EM"].high) == pytest.approx((low, high))
        if row.variant == "full":
            assert row.versus_full == {}
            continue
        (expected,) = compare(right, full, groups)
        assert row.versus_full["EM"] == pytest.approx(expected)
        cell = rows[row.variant, row.k][0]
        assert cell.startswith(f"{100 * (right.mean() - full.mean()):+.1f} [") and " p = " in cell


def test_groups_are_source_tables(results, task):
    for run in Runs(results).all():
        _, groups = by_hand(task, "full")
        found = [one.group for one in sorted(run.outcomes, key=lambda one: one.number)]
        pairs = set(zip(groups.tolist(), found, strict=True))
        assert len(pairs) == len(set(found)) == len(set(groups.tolist()))


def test_what_was_asked_is_told(results):
    report, summary = write_report(results)
    text = report.read_text()
    assert "## multi_hop, published: built questions, split all: fake-1" in text
    assert (
        "**Only 18 questions: no result, a trial.** 18 of 18 questions with a public answer were asked; 6 without"
        in text
    )
    assert "prompts of at most 4,096 tokens by estimate, tables as markdown, 0 examples" in text
    heads, rows = rows_of(text, 2)
    found = dict(zip(heads[2:], rows["full", 3], strict=True))
    (group, *_) = json.loads(summary.read_text())
    assert [(run["k"], run["variant"]) for run in group["runs"]] == [(k, name) for k in (3, 5) for name in VARIANTS]
    record = group["runs"][0]
    assert found["gold found (Acc@k)"] == f"{100 * record['acc_at_k']:.1f}"
    assert (found["answered"], found["prompt tokens"], found["tokens written"]) == ("100.0", "700", "9")
    assert found["latency, s"] == "0.50" and found["cut short"] == "0.0"
    assert set(group["runs"][1]["versus_full"]["EM"]) == {"difference", "low", "high", "p_value"}
    assert dict(zip(heads[2:], rows["no-reasoning", 3], strict=True))["cites a gold table"] == "0.0"


def test_samples_failures_and_older_runs(tmp_path, task, results, fake_encoder):
    write_task(tmp_path / "multi_hop" / "published", task, {})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "work").symlink_to(results / "work")
    bad = ModelError("the server said <b>no</b> | to\nall")
    for sample, model in ((None, FakeModel(oracle(task))), (7, FakeModel(lambda question: bad))):
        model.name = "a|b"
        plan = AnswerPlan(cuts=(3,), variants=("full", "no-relations"), split="all", sample=sample)
        list(answer(tmp_path / "multi_hop", tmp_path / "out", plan, model))
    list(
        answer(tmp_path / "multi_hop", tmp_path / "out", AnswerPlan((3,), ("no-reasoning",), split="all"), Uneven(task))
    )
    text = write_report(tmp_path / "out")[0].read_text()
    assert "a\\|b" in text and "2 older run(s)" in text
    assert "| full ~7 | 3 |" in text and "7 of 18 questions with a public answer were asked" in text
    # What was said of them when all were asked is kept, so nothing fails.
    assert "the first error" not in text
    _, rows = rows_of(text.split(": fake-1")[1], 0)
    assert list(rows) == [("no-reasoning", 3)] and "Beside the full prompt" not in text.split(": fake-1")[1]
    model = FakeModel(lambda question: bad)
    list(answer(tmp_path / "multi_hop", tmp_path / "out", AnswerPlan((3,), ("full",), split="all"), model))
    text = write_report(tmp_path / "out")[0].read_text()
    assert "full, k = 3: the first error: the server said &lt;b>no&lt;/b> \\| to all" in text
    _, rows = rows_of(text.split(": fake-1")[1], 0)
    assert rows["full", 3] == ["0.0 [0.0, 0.0]"] * 3 + ["18", "18", "0.0"]


def test_nothing_was_run(tmp_path):
    report, summary = write_report(tmp_path / "out")
    assert report.read_text().startswith("# Answers") and json.loads(summary.read_text()) == []
