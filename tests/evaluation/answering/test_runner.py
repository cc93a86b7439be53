"""Runs of answers: what is asked and what is not, what is kept, and what records say."""

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scoring_fakes import CANARY, FakeModel, canaries, make_answer_task, oracle, question_of
from task_fakes import POISON

from gtr_gpu.errors import GTRError
from gtr_gpu.evaluation.answering.plan import VARIANTS, AnswerPlan, kind_of
from gtr_gpu.evaluation.answering.runner import answer
from gtr_gpu.evaluation.answering.runs import Runs
from gtr_gpu.evaluation.bootstrap import confidence_intervals
from gtr_gpu.evaluation.corpus import ask, blind
from gtr_gpu.language_models.model import ModelError
from gtr_gpu.multitableqa.task import write_task
from gtr_gpu.prompts.settings import Example, PromptSettings

pytestmark = pytest.mark.usefixtures("fake_encoder")
TINY = AnswerPlan(cuts=(3,), variants=("full",), split="all")


@pytest.fixture
def task(tmp_path):
    task = make_answer_task(canaries)
    write_task(tmp_path / "made", task, {})
    return task


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Indexes of all tests here: most are of the same tables."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture
def run(tmp_path, work):
    def run(model, plan=TINY, folder="made", out="out"):
        if not (tmp_path / out).exists() and out == "out":
            (tmp_path / out).mkdir()
            (tmp_path / out / "work").symlink_to(work)
        return list(answer(tmp_path / folder, tmp_path / out, plan, model))

    return run


def test_what_is_scored_and_what_is_skipped(task, run, tmp_path):
    model = FakeModel(oracle(task, wrong=lambda number: number % 2 == 0))
    (record,) = run(model)
    public = [number for number in range(24) if number % 4 != 3]
    assert (record["asked_questions"], record["answerable_questions"], record["skipped_questions"]) == (18, 18, 6)
    assert sorted(map(question_of, model.prompts)) == sorted(task.questions[number].text for number in public)
    right = [number for number in public if number % 2]
    for metric in ("EM", "F1", "denotation"):
        assert record["metrics"][metric][0] == pytest.approx(len(right) / len(public))
    assert record["no_answer"] == pytest.approx(12 / 18) and record["answered"] == pytest.approx(6 / 18)
    assert (record["failed"], record["first_error"], record["sampled"]) == (0, None, False)
    assert (record["prompt_tokens"], record["completion_tokens"], record["seconds"]) == (700, 9, 0.5)
    (saved,) = Runs(tmp_path / "out").all()
    assert saved.record == record
    for one in saved.outcomes:
        assert one.gold == task.questions[one.number].label
        assert one.answer == ((one.gold[0],) if one.number in right else None)


def test_intervals_are_of_source_tables(task, run, tmp_path):
    (record,) = run(FakeModel(oracle(task, wrong=lambda number: number % 2 == 0)))
    sources = {}
    values, groups = [], []
    corpus = blind(task)
    for number in ask(task, corpus, "built", "all").numbers.tolist():
        groups.append(sources.setdefault(task.questions[number].source, len(sources)))
        values.append(float(number % 2))
    kept = [place for place, number in enumerate(ask(task, corpus, "built", "all").numbers) if number % 4 != 3]
    low, high = confidence_intervals(np.array(values)[kept, None], np.array(groups)[kept])[:, 0]
    assert record["metrics"]["EM"][1:] == pytest.approx([low, high])


def test_found_shown_and_cited_gold_tables(task, run, tmp_path):
    """Against the captions in the prompts: the tables of a source share theirs, and no other has it."""
    model = FakeModel(oracle(task))
    (record,) = run(model)
    by_text = {question.text: question for question in task.questions}
    first, all_three = 0, 0
    for prompt in model.prompts:
        shown = re.findall(r"<table\d+>Table \d+: (.*)", prompt)
        gold = task.tables[task.gold(by_text[question_of(prompt)])[0]].caption
        assert len(shown) == 3
        first += shown[0] == gold
        all_three += shown == [gold] * 3
    assert 0 < all_three <= first < 18
    assert record["acc_at_k"] == record["gold_in_prompt"] == all_three / 18 <= record["recall_at_k"] < 1
    assert record["cites_gold"] == first / 18, "the fake cites Table 1"
    assert record["unknown_citations"] == 0
    (saved,) = Runs(tmp_path / "out").all()
    assert sum(one.found for one in saved.outcomes) == all_three


def test_no_label_reaches_a_prompt(task, run):
    model = FakeModel(oracle(task))
    run(model, AnswerPlan(cuts=(1, 3), split="all", few_shot=2))
    assert len(model.prompts) == 18 * 2 * 3
    assert not any(CANARY in prompt or POISON in prompt for prompt in model.prompts)
    ids = {table.table_id for table in task.tables}
    assert not any(name in prompt for prompt in model.prompts for name in ids)


def test_how_many_items_a_label_has_changes_no_prompt(task, run, tmp_path):
    model = FakeModel(lambda question: "NA")
    run(model)
    other = make_answer_task(lambda number: canaries(number) * 3)
    write_task(tmp_path / "other", other, {})
    again = FakeModel(lambda question: "NA")
    run(again, folder="other", out="other-out")
    assert again.prompts == model.prompts


def test_ablations_change_the_prompts(task, run):
    model = FakeModel(oracle(task))
    records = run(model, AnswerPlan(cuts=(2, 3), split="all"))
    assert [(record["k"], record["variant"]) for record in records] == [(k, name) for k in (2, 3) for name in VARIANTS]
    full, bare, silent = (model.prompts[start : start + 18] for start in (0, 18, 36))
    for one, two, three in zip(full, bare, silent, strict=True):
        assert "## Graph-Related Information" in one and "## Graph-Related Information" not in two
        assert '"relationship"' in one and '"relationship"' not in two
        assert "<reasoning>" in one and "<reasoning>" in two and "<reasoning>" not in three
        assert "Elucidate" in one and "Elucidate" not in three and "## Graph-Related Information" in three
        tables = [part.split("</table2>")[0].split("<table1>")[1] for part in (one, two, three)]
        assert tables[0] == tables[1] == tables[2], "the searches are the same"
    assert all("<table2>" in prompt and "<table3>" not in prompt for prompt in model.prompts[:54])
    assert all("<table3>" in prompt for prompt in model.prompts[54:])


def test_searches_are_shared_by_variants(task, run, monkeypatch):
    from gtr_gpu.index import GTRIndex

    asked = []
    search = GTRIndex.search
    monkeypatch.setattr(
        GTRIndex, "search", lambda self, queries, k, **rest: asked.append(k) or search(self, queries, k, **rest)
    )
    run(FakeModel(oracle(task)), AnswerPlan(cuts=(2, 3), split="all"))
    assert asked == [2, 3]


def test_a_killed_run_asks_only_what_is_missing(task, run, tmp_path):
    killed = FakeModel(oracle(task), breaks_after=25)
    plan = AnswerPlan(cuts=(3,), split="all")
    with pytest.raises(KeyboardInterrupt):
        run(killed, plan)
    journals = list((tmp_path / "out" / "answers" / "journals").glob("*.jsonl"))
    assert sum(len(path.read_text().splitlines()) for path in journals) == 25
    with journals[0].open("a") as file:
        file.write('{"query_id": "1')
    second = FakeModel(oracle(task))
    records = run(second, plan)
    assert len(second.prompts) == 3 * 18 - 25
    assert set(Counter(killed.prompts + second.prompts).values()) == {1}, "nothing is asked twice"
    assert [record["metrics"]["EM"][0] for record in records] == [1, 1, 1]
    third = FakeModel(oracle(task))
    run(third, plan)
    assert third.prompts == []


def test_larger_samples_and_other_splits_ask_only_for_more(task, run, tmp_path):
    def asked(**options):
        model = FakeModel(oracle(task))
        (record,) = run(model, AnswerPlan(cuts=(3,), variants=("full",), **options))
        return len(model.prompts), record["asked_questions"], record["sampled"]

    assert asked(split="all", sample=5) == (5, 5, True)
    assert asked(split="all", sample=8) == (3, 8, True)
    n_report = sum(one.split == "report" and bool(one.label) for one in task.questions)
    more, n, sampled = asked(split="report")
    assert n == n_report and more < n and not sampled
    # Another model, another k and another budget are other answers.
    other = FakeModel(oracle(task))
    other.name = "fake-2"
    run(other, AnswerPlan(cuts=(3,), variants=("full",), sample=5))
    assert len(other.prompts) == 5


def test_another_prompt_is_asked_anew(task, run):
    run(FakeModel(oracle(task)))
    model = FakeModel(oracle(task))
    example = Example("Who?", "1. Because.", "Him")
    run(model, AnswerPlan(cuts=(3,), variants=("full",), split="all", prompt=PromptSettings(examples=(example,))))
    assert len(model.prompts) == 18 and all("Him" in prompt for prompt in model.prompts)


def test_what_failed_counts_as_wrong_and_is_asked_again(task, run):
    texts = [question.text for question in task.questions]
    busy = ModelError("the server was busy; run it again")
    right = oracle(task)
    first = FakeModel(lambda question: busy if texts.index(question) % 3 == 0 else right(question))
    (record,) = run(first)
    failed = sum(number % 3 == 0 and number % 4 != 3 for number in range(24))
    assert record["failed"] == failed and record["first_error"] == str(busy)
    assert record["metrics"]["EM"][0] == pytest.approx(1 - failed / 18)
    assert record["no_answer"] == 0, "what failed isn't said to have no answer"
    second = FakeModel(right)
    (record,) = run(second)
    assert len(second.prompts) == failed and record["failed"] == 0 and record["metrics"]["EM"][0] == 1


def test_what_fails_for_every_question_ends_the_run(task, run):
    texts = [question.text for question in task.questions]
    fatal = ModelError("the key was refused", fatal=True)
    first = FakeModel(lambda question: fatal if texts.index(question) == 7 - 1 else "NA")
    with pytest.raises(ModelError, match="the key was refused"):
        run(first)
    second = FakeModel(lambda question: "NA")
    run(second)
    assert len(first.prompts) - 1 + len(second.prompts) == 18


def test_a_prompt_that_can_not_be_made_fails_alone(task, run):
    model = FakeModel(oracle(task))
    (record,) = run(
        model, AnswerPlan(cuts=(3,), variants=("full",), split="all", prompt=PromptSettings(prompt_tokens=5))
    )
    assert model.prompts == [] and record["failed"] == 18 and record["metrics"]["EM"][0] == 0
    assert record["first_error"] and record["seconds"] is None and record["completion_tokens"] is None


def test_prompts_leave_room_for_the_answer(task, run, caplog):
    model = FakeModel(oracle(task))
    model.window = 900
    (record,) = run(model, AnswerPlan(cuts=(3,), variants=("full",), split="all", max_new_tokens=300))
    assert record["settings"]["prompt_tokens"] == 600 and "prompts are kept to 600 tokens" in caplog.text
    assert all(model.tokens.prompt_tokens(prompt) <= 600 for prompt in model.prompts)


def test_statements(tmp_path, run):
    labels = [("1",), ("0",), ("1", "0"), ()]
    task = make_answer_task(lambda number: labels[number % 4], name="tfv")
    write_task(tmp_path / "tfv" / "published", task, {})
    model = FakeModel(lambda question: "True")
    (record,) = run(model, folder="tfv")
    assert record["kind"] == "verification" and list(record["metrics"]) == ["label accuracy"]
    assert record["metrics"]["label accuracy"][0] == pytest.approx(1 / 3)
    assert all("statement" in prompt for prompt in model.prompts)
    assert [kind_of(name) for name in ("tfv", "tfv_3000", "single_hop", "multi_hop_5523", "tatqa", "mine")] == [
        *(["verification"] * 2),
        *(["list"] * 4),
    ]


def test_blank_items_are_no_answer(tmp_path, run):
    labels = [("", "x"), (" ",), ("x", "")]
    write_task(tmp_path / "made", make_answer_task(lambda number: labels[number % 3]), {})
    (record,) = run(FakeModel(lambda question: "x"))
    assert record["skipped_questions"] == 8 and record["metrics"]["EM"][0] == 1


def test_a_k_beyond_the_corpus_is_asked_once(tmp_path, run):
    write_task(tmp_path / "made", make_answer_task(canaries, n_tables=9, n_questions=6, raw=False), {})
    records = run(FakeModel(lambda question: "NA"), AnswerPlan(cuts=(3, 10, 50), variants=("full",), split="all"))
    assert [record["k"] for record in records] == [3, 9]


def test_wrong_tasks(tmp_path, run):
    write_task(tmp_path / "none", make_answer_task(lambda number: ()), {})
    with pytest.raises(GTRError, match="none/released: none of its 24 questions has a public answer"):
        run(FakeModel(None), folder="none")
    write_task(tmp_path / "tfv", make_answer_task(lambda number: ("maybe",), name="tfv"), {})
    with pytest.raises(
        GTRError, match=r"tfv/released, question \d+: the label of a statement must be 1 or 0, got 'may"
    ):
        run(FakeModel(None), folder="tfv")
    with pytest.raises(GTRError, match="lies in the benchmark"):
        run(FakeModel(None), folder="none", out="none/out")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cuts": (0,)}, "k must be from 1 to 1000 tables, got 0"),
        ({"variants": ("half",)}, "there is no variant 'half'; there are full, no-relations, no-reasoning"),
        ({"sample": 0}, "sample must be at least 1 question, got 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
        ({"few_shot": 9}, "few_shot must be from 0 to 2 packaged examples, got 9"),
        ({"few_shot": 1, "prompt": PromptSettings(examples=(Example("q", "", "a"),))}, "leave one out"),
    ],
)
def test_wrong_plans(options, words):
    with pytest.raises(GTRError, match=words):
        AnswerPlan(**options)


def test_damaged_files_are_told(task, run, tmp_path, caplog):
    run(FakeModel(oracle(task)))
    (path,) = (tmp_path / "out" / "answers").glob("*.json")
    whole = path.read_text()
    assert json.loads(whole)[0]["task"] == "made"
    path.write_text(whole[:100])
    assert Runs(tmp_path / "out").all() == [] and "the same command scores it anew" in caplog.text
    (record,) = run(FakeModel(oracle(task)))
    assert json.loads(path.read_text())[0] == record


def test_indexes_are_those_of_benchmark_run(task, tmp_path):
    from gtr_gpu.evaluation.runner import Plan
    from gtr_gpu.evaluation.runner import run as run_plan

    list(run_plan(tmp_path / "made", tmp_path / "out", Plan(["gtr-default"], "all")))
    folder = tmp_path / "out" / "work" / "indexes"
    (index,) = folder.iterdir()
    before = (index / "manifest.json").stat().st_mtime_ns
    list(answer(tmp_path / "made", tmp_path / "out", TINY, FakeModel(oracle(task))))
    assert list(folder.iterdir()) == [index] and (index / "manifest.json").stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_killed_process_loses_nothing_and_asks_nothing_twice(task, tmp_path):
    """Killed at three moments; what was told just before a kill may be asked once more, and no other question."""
    command = [sys.executable, Path(__file__).parents[2] / "scoring_process.py", tmp_path]
    asked = tmp_path / "asked"
    for least in (4, 15, 27):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 60
            while (len(asked.read_text().splitlines()) if asked.exists() else 0) < least:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["full 18 1.0", "no-relations 18 1.0"]
    counts = Counter(asked.read_text().splitlines())
    assert len(counts) == 36 and sum(counts.values()) <= 36 + 3
