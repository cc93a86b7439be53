"""Runs: nothing is done twice, nothing finished is lost, samples and wrong input are told."""

import json
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
import torch
from task_fakes import make_task

from gtr_gpu.errors import GTRError
from gtr_gpu.evaluation import runner
from gtr_gpu.evaluation.bootstrap import confidence_intervals
from gtr_gpu.evaluation.comparison import groups_of
from gtr_gpu.evaluation.corpus import ask, blind
from gtr_gpu.evaluation.methods.gtr import GTR
from gtr_gpu.evaluation.methods.lexical import BM25
from gtr_gpu.evaluation.methods.method import Ranking
from gtr_gpu.evaluation.results import RECORDS_NAME, Results
from gtr_gpu.evaluation.runner import Plan, check_ranking, run
from gtr_gpu.multitableqa.manifest import Manifest
from gtr_gpu.multitableqa.task import write_task

pytestmark = pytest.mark.usefixtures("fake_encoder")


@pytest.fixture
def folder(tmp_path):
    for protocol in ("published", "withheld"):
        write_task(tmp_path / "bench" / "tfv" / protocol, make_task(name="tfv", protocol=protocol), {})
    return tmp_path / "bench"


def ran(*arguments):
    return [(record["task"], record["protocol"], record["method"], known) for record, known in run(*arguments)]


def test_a_run_is_done_once(folder, tmp_path):
    plan = Plan(["bm25-all", "gtr-default"], "all")
    first = ran(folder, tmp_path / "out", plan)
    assert first == [
        ("tfv", protocol, method, False) for protocol in ("published", "withheld") for method in plan.methods
    ]
    before = (tmp_path / "out" / RECORDS_NAME).read_bytes()
    assert ran(folder, tmp_path / "out", plan) == [(*one[:3], True) for one in first]
    assert (tmp_path / "out" / RECORDS_NAME).read_bytes() == before
    # Another split is another run; its index is the same.
    records = [record for record, _ in run(folder, tmp_path / "out", Plan(["gtr-default"], "tune"))]
    assert all(record["index"]["index_reused"] for record in records)
    assert len(list((tmp_path / "out" / "work" / "indexes").iterdir())) == 1, "both protocols hold the same tables here"


def test_what_a_record_says(folder, tmp_path):
    (record, _), *_ = run(folder / "tfv" / "published", tmp_path / "out", Plan(["gtr-default"], "report"))
    task = make_task(name="tfv")
    n_report = sum(question.split == "report" for question in task.questions)
    assert (record["tables"], record["asked_questions"], record["all_questions"]) == (60, n_report, n_report)
    assert record["sampled"] is False and record["label_used"] is False
    assert set(record["seconds"]) == {"index", "encode_tables", "rank", "encode_questions"}
    assert record["seconds"]["encode_tables"] > 0 and record["seconds"]["index"] > 0
    assert record["peak_bytes"] > 50_000_000 and record["queries_per_second"] > 0
    own = [one for one in record["coverage"] if one["own"]]
    assert len(own) == 1 and own[0]["knob"] == "n_seeds=200"
    assert own[0]["all_gold"] == 1 and own[0]["kept"] == 1, "200 seeds are all 60 tables"
    fewer = next(one for one in record["coverage"] if one["knob"] == "n_seeds=50")
    assert 50 <= fewer["candidates"] < 60 and fewer["all_gold"] <= fewer["recall"] <= 1
    ranked = Results(tmp_path / "out").ranked(record)
    acc = []
    for row, number in enumerate(ranked.numbers.tolist()):
        gold = task.gold(task.questions[number])
        assert sorted(ranked.gold[row].tolist()) == gold
        acc.append(float(set(gold) <= set(ranked.ids[row, :10].tolist())))
    mean, low, high = record["metrics"]["Acc@10"]
    assert mean == pytest.approx(np.mean(acc))
    assert [low, high] == pytest.approx(
        confidence_intervals(np.array(acc)[:, None], ranked.groups)[:, 0].tolist(), abs=1e-6
    )
    assert record["metrics"].keys() >= {"Acc@10", "Acc@20", "Acc@50", "Recall@10", "nDCG@50", "MRR"}


def test_an_interrupted_run_loses_nothing_that_was_finished(folder, tmp_path, monkeypatch):
    def broken(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(GTR, "rank", broken)
        with pytest.raises(KeyboardInterrupt):
            ran(folder, tmp_path / "out", Plan(["bm25-all", "gtr-default"], "all"))
    # A line that was cut off by a crash, and rankings without a line.
    with (tmp_path / "out" / RECORDS_NAME).open("ab") as file:
        file.write(b'{"key": "half a li')
    (tmp_path / "out" / "rankings" / "left.npz.tmp").write_bytes(b"half")
    again = ran(folder / "tfv" / "published", tmp_path / "out", Plan(["bm25-all", "gtr-default"], "all"))
    assert [(method, known) for _, _, method, known in again] == [("bm25-all", True), ("gtr-default", False)]
    assert len(Results(tmp_path / "out").records()) == 2


def test_a_damaged_line_is_told(folder, tmp_path, caplog):
    ran(folder, tmp_path / "out", Plan(["bm25-all"], "all"))
    path = tmp_path / "out" / RECORDS_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0][:50] + b"\n" + lines[1])
    assert len(Results(tmp_path / "out").records()) == 1
    assert "results.jsonl:1 is left out" in caplog.text
    Results(tmp_path / "out").ranking_path(json.loads(lines[1])["key"]).unlink()
    assert Results(tmp_path / "out").records() == []
    assert "its rankings are missing" in caplog.text
    damaged = Results(tmp_path / "out").ranking_path("damaged")
    damaged.write_bytes(b"no archive")
    with pytest.raises(GTRError, match="are damaged; delete the file"):
        Results(tmp_path / "out").ranked({"key": "damaged"})


def test_other_settings_and_other_tables_are_other_runs(tmp_path, monkeypatch):
    folder, out = tmp_path / "made", tmp_path / "out"
    write_task(folder, make_task(), {})
    plan = Plan(["bm25-all"], "all")
    assert [known for *_, known in ran(folder, out, plan)] == [False]
    write_task(folder, make_task(n_tables=57), {})
    assert [known for *_, known in ran(folder, out, plan)] == [False]
    monkeypatch.setattr(BM25, "settings", {"k1": 9})
    assert [known for *_, known in ran(folder, out, plan)] == [False]
    (group,) = groups_of(Results(out), None)
    assert len(group.rows) == 1 and group.superseded == 2
    assert group.rows[0].record["settings"]["k1"] == 9 and group.rows[0].record["tables"] == 57


@pytest.mark.parametrize("method", ["bm25-all", "gtr-default"])
def test_other_code_of_the_harness_or_another_encoder_is_another_run(tmp_path, monkeypatch, method):
    write_task(tmp_path / "made", make_task(), {})
    plan = Plan([method], "all")
    assert [known for _ in range(2) for *_, known in ran(tmp_path / "made", tmp_path / "out", plan)] == [False, True]
    with monkeypatch.context() as patch:
        patch.setattr(runner, "code_fingerprint", lambda of: f"other code of the {of}")
        ((record, known),) = run(tmp_path / "made", tmp_path / "out", plan)
    assert not known and record["settings"]["harness"] == "other code of the harness"
    assert ran(tmp_path / "made", tmp_path / "out", plan, "other") == [("made", "released", method, False)]
    assert [record["encoder"] == "other" for record in Results(tmp_path / "out").records()] == [False, False, True]


def test_one_report_never_mixes_sets_of_questions(tmp_path):
    """A set with the same tables, of which all methods or the slow ones alone would be asked the same questions."""
    folder, out = tmp_path / "made", tmp_path / "out"
    task = make_task()
    write_task(folder, task, {})
    assert ran(folder, out, Plan(["bm25-all", "bm25-schema"], "all"))
    for questions in (task.questions[1:], task.questions[::-1]):
        write_task(folder, replace(task, questions=questions), {})
        ((record, known),) = run(folder, out, Plan(["bm25-all"], "all"))
        assert not known
        (group,) = groups_of(Results(out), None)
        assert [row.record["key"] for row in group.rows] == [record["key"]]
    assert group.superseded == 3


def test_a_sample_of_another_set_is_another_run(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "LEAST_SAMPLE", 6)
    folder, out, plan = tmp_path / "made", tmp_path / "out", Plan(["bm25-all"], "all", sample=6)
    task = make_task()
    write_task(folder, task, {})
    ((first, _),) = run(folder, out, plan)
    asked = set(Results(out).ranked(first).numbers.tolist())
    dropped = next(number for number in range(24) if number not in asked)
    write_task(folder, replace(task, questions=task.questions[:dropped] + task.questions[dropped + 1 :]), {})
    ((second, known),) = run(folder, out, plan)
    assert not known and second["metrics"] == first["metrics"] and second["asked"] != first["asked"]


def test_a_sample_beyond_the_questions_is_noted_once(tmp_path, caplog):
    write_task(tmp_path / "made", make_task(), {})
    records = list(run(tmp_path / "made", tmp_path / "out", Plan(["bm25-all", "bm25-schema"], "all", sample=700)))
    assert [record["sampled"] for record, _ in records] == [False, False]
    assert [one.getMessage() for one in caplog.records if one.name.startswith("gtr_gpu")] == [
        "made/released has 24 built questions of split all, fewer than the sample of 700: all of them are asked"
    ]


def test_what_was_built_is_checked_first(folder, tmp_path):
    path = folder / "tfv" / "published"
    files = {f"tfv/published/{file.name}": sha256(file.read_bytes()).hexdigest() for file in path.iterdir()}
    Manifest("1", {}, {}, {}, files).write(folder)
    plan = Plan(["bm25-all"], "all")
    assert ran(path, tmp_path / "out", plan) == [("tfv", "published", "bm25-all", False)]
    with pytest.raises(GTRError, match=r"tfv/withheld is no part of what .*manifest\.json says was built; move it"):
        ran(folder, tmp_path / "all", plan)
    (path / "raw.jsonl").write_text("")
    for one in (folder, path):
        with pytest.raises(GTRError, match="is not what was built: its checksum differs; build the benchmark anew"):
            ran(one, tmp_path / "all", plan)
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize("given", ["", "tfv/published"])
@pytest.mark.parametrize("place", ["", "results", "tfv/published/results"])
def test_nothing_is_written_into_a_benchmark(folder, tmp_path, given, place):
    files = {
        path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest() for path in folder.glob("*/*/*")
    }
    Manifest("1", {}, {}, {}, files).write(folder)
    before = sorted(folder.rglob("*"))
    for what, places in (("results", (folder / place,)), ("encodings", (tmp_path / "out", folder / place))):
        out, *encodings = places
        with pytest.raises(GTRError, match=f"lies in the benchmark .*; give a folder elsewhere for the {what}"):
            list(run(folder / given, out, Plan(["bm25-all"], "all"), None, "auto", None, *encodings))
    assert sorted(folder.rglob("*")) == before and not (tmp_path / "out").exists()


def test_folders_of_results_may_share_encodings(folder, tmp_path):
    shared = tmp_path / "encodings"
    shards = []
    for name in ("one", "two"):
        list(run(folder / "tfv" / "published", tmp_path / name, Plan(["dense-all"]), encodings=shared))
        shards.append(set(shared.iterdir()))
        assert not (tmp_path / name / "work").exists()
    assert shards[0] and shards[0] == shards[1], "nothing was encoded again"


def test_sets_of_questions(tmp_path):
    write_task(tmp_path / "made", make_task(), {})
    write_task(tmp_path / "bare", make_task(raw=False), {})
    both = Plan(["bm25-all"], "all", "both")
    records = [record for record, _ in run(tmp_path / "made", tmp_path / "out", both)]
    assert [record["questions"] for record in records] == ["built", "raw"]
    assert records[0]["metrics"] != records[1]["metrics"]
    assert [r["questions"] for r, _ in run(tmp_path / "bare", tmp_path / "out", both)] == ["built"]
    with pytest.raises(GTRError, match=r"bare/released has no raw questions of split all \(it has: none at all\)"):
        ran(tmp_path / "bare", tmp_path / "out", Plan(["bm25-all"], "all", "raw"))


def test_whole_tables_are_cut_earlier(tmp_path):
    write_task(tmp_path / "tfv" / "whole", make_task(name="tfv", protocol="whole"), {})
    ((record, _),) = run(tmp_path / "tfv" / "whole", tmp_path / "out", Plan(["bm25-all"], "all"))
    assert [name for name in record["metrics"] if name.startswith("Acc")] == ["Acc@1", "Acc@5", "Acc@10"]


def test_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "LEAST_SAMPLE", 6)
    write_task(tmp_path / "made", make_task(), {})
    plan = Plan(["bm25-all", "gtr-paper"], "all", sample=12, slow_sample=6)
    records = [record for record, _ in run(tmp_path / "made", tmp_path / "out", plan)]
    assert [(r["asked_questions"], r["all_questions"], r["sampled"]) for r in records] == [
        (12, 24, True),
        (6, 24, True),
    ]
    larger, smaller = (set(Results(tmp_path / "out").ranked(record).numbers.tolist()) for record in records)
    assert smaller < larger, "methods with samples of two sizes are compared on the smaller one"
    task = make_task()
    corpus = blind(task)
    assert ask(task, corpus, "built", "all", 6, seed=1).numbers.tolist() != sorted(smaller)


def test_slow_methods_are_left_out_of_large_corpora(tmp_path, caplog):
    write_task(tmp_path / "made", make_task(), {})
    plan = Plan(["bm25-all", "gtr-paper"], "all", slow_tables=59)
    assert [record["method"] for record, _ in run(tmp_path / "made", tmp_path / "out", plan)] == ["bm25-all"]
    assert "gtr-paper is slow, so it is left out of corpora of more than 59 tables" in caplog.text
    for most in (60, None):
        records = run(tmp_path / "made", tmp_path / "out", replace(plan, slow_tables=most))
        assert [record["method"] for record, _ in records] == ["bm25-all", "gtr-paper"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sample": 599}, "^sample must be at least 600 questions, got 599"),
        ({"slow_sample": 1}, "^slow_sample must be at least 600 questions, got 1"),
        ({"cuts": (10, 101)}, "^cuts must be numbers from 1 to 100, got 101"),
        ({"cuts": (0,)}, "^cuts must be numbers from 1 to 100, got 0"),
    ],
)
def test_what_a_plan_refuses(options, words):
    with pytest.raises(GTRError, match=words):
        Plan(["bm25-all"], **options)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([[0, 1]], "must rank 1 x 3 places"),
        ([[0, 1, 7]], "a table that is none of the 5"),
        ([[0, -2, -1]], "a table that is none of the 5"),
        ([[0, -1, 2]], "behind an empty place"),
        ([[3, 1, 3]], "a table twice"),
    ],
)
def test_what_is_no_ranking(ids, words):
    ids = torch.tensor(ids)
    with pytest.raises(ValueError, match=words):
        check_ranking("method", Ranking(ids, torch.zeros(ids.shape)), 1, 3, 5)


def test_a_ranking_may_be_short():
    check_ranking("method", Ranking(torch.tensor([[2, -1, -1]]), torch.zeros(1, 3)), 1, 3, 5)


def test_encoding_is_timed_apart_and_done_once(folder, tmp_path, fake_encoder):
    list(run(folder, tmp_path / "out", Plan(["dense-all"], "all")))
    encoded = fake_encoder.encoded
    records = [record for record, _ in run(folder, tmp_path / "out", Plan(["mix-all", "gtr-default"], "all"))]
    assert fake_encoder.encoded == encoded, "what dense-all encoded is read again"
    assert [record["method"] for record in records] == ["mix-all", "gtr-default"] * 2
    assert all(record["seconds"]["encode_tables"] > 0 for record in records if record["method"] == "mix-all")
