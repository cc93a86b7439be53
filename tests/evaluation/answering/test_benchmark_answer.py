"""`gtr benchmark answer`: from a folder to a report, and what is wrong in one sentence."""

import json

import pytest
from scoring_fakes import FakeModel, canaries, make_answer_task, oracle

from gtr_gpu import language_models
from gtr_gpu.cli import main
from gtr_gpu.language_models.model import ModelError
from gtr_gpu.multitableqa.task import write_task

pytestmark = pytest.mark.usefixtures("fake_encoder")


@pytest.fixture
def task(tmp_path):
    task = make_answer_task(canaries, name="multi_hop")
    write_task(tmp_path / "bench" / "multi_hop" / "published", task, {})
    return task


@pytest.fixture
def models(monkeypatch, task):
    """The models that were opened, each right for all questions, and the options that each was opened with."""
    opened = []

    def open_model(name, base_url, **options):
        opened.append((FakeModel(oracle(task)), {"model": name, "base_url": base_url, **options}))
        return opened[-1][0]

    monkeypatch.setattr(language_models, "open_model", open_model)
    return opened


@pytest.fixture
def gtr(capsys, tmp_path):
    def call(*words):
        status = main(
            ["benchmark", "answer", str(tmp_path / "bench"), "--out", str(tmp_path / "out"), *map(str, words)]
        )
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_answer_and_answer_again(gtr, models, tmp_path):
    options = ["--model", "any", "-k", "3,2", "--variants", "no-reasoning,full", "--split", "all"]
    status, out, err = gtr(*options, "--concurrency", "3")
    assert (status, out) == (0, f"4 runs scored: {tmp_path / 'out' / 'answers.md'}\n")
    line = "note: multi_hop/published, no-reasoning, k = 3: EM 100.0, F1 100.0, denotation 100.0 (18 questions)"
    assert line in err.splitlines() and "asking fake-1, full, k = 2: 18 in" in err
    assert models[0][1]["model"] == "any" and models[0][1]["concurrency"] == 3
    summary = json.loads((tmp_path / "out" / "answers.json").read_text())
    assert [(run["k"], run["variant"]) for run in summary[0]["runs"]] == [
        (k, variant) for k in (2, 3) for variant in ("full", "no-reasoning")
    ]
    assert gtr(*options, "--quiet") == (0, out, "")
    assert len(models[0][0].prompts) == 4 * 18 and models[1][0].prompts == []


def test_defaults_are_all_ablations(gtr, models, tmp_path):
    assert (
        gtr("--base-url", "http://localhost:1/v1", "--sample", "2", "--format", "csv", "--few-shot", "1", "-q")[0] == 0
    )
    (group,) = json.loads((tmp_path / "out" / "answers.json").read_text())
    assert [(run["k"], run["variant"]) for run in group["runs"]] == [
        (k, variant) for k in (10, 20, 50) for variant in ("full", "no-relations", "no-reasoning")
    ]
    assert group["settings"] | {"table_format": "csv", "examples": 1} == group["settings"]
    assert len(models[0][0].prompts) == 18 and group["runs"][0]["sampled"] is True


def test_results_are_here_by_default(models, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["benchmark", "answer", "bench", "--model", "any", "-k", "2", "--sample", "1", "--quiet"]) == 0
    assert capsys.readouterr().out == "3 runs scored: results/answers.md\n" and (tmp_path / "results").is_dir()


def test_what_failed_is_told(gtr, models, monkeypatch, task):
    busy = FakeModel(lambda question: ModelError("the server was busy; run it again"))
    monkeypatch.setattr(language_models, "open_model", lambda *_, **__: busy)
    status, out, err = gtr("--model", "any", "-k", "3", "--variants", "full", "--split", "all", "--quiet")
    assert status == 1 and out.startswith("1 run scored: ")
    assert (
        err == "gtr: 18 questions failed and count as wrong (the report tells why); the same command asks them again\n"
    )
    refused = FakeModel(lambda question: ModelError("the key was refused; set another", fatal=True))
    monkeypatch.setattr(language_models, "open_model", lambda *_, **__: refused)
    status, out, err = gtr("--model", "any", "-k", "3", "--variants", "full", "--split", "all", "--quiet")
    assert (status, out, err) == (2, "", "gtr: the key was refused; set another\n")


def test_an_interrupt_says_what_is_kept(gtr, models, monkeypatch, task):
    stopped = FakeModel(oracle(task), breaks_after=5)
    monkeypatch.setattr(language_models, "open_model", lambda *_, **__: stopped)
    options = ["--model", "any", "-k", "3", "--variants", "full", "--split", "all", "--quiet"]
    status, out, err = gtr(*options)
    assert (status, out) == (130, "")
    assert err == "gtr: interrupted; what the model said is kept, and the same command goes on from there\n"
    second = FakeModel(oracle(task))
    monkeypatch.setattr(language_models, "open_model", lambda *_, **__: second)
    assert gtr(*options)[0] == 0 and len(second.prompts) == 13


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", " "], "gtr: --model is empty"),
        (
            ["--model", "m", "-k", "10,x"],
            "gtr: -k must be whole numbers separated by commas, such as 10,20,50, got '10,x'",
        ),
        (["--model", "m", "-k", ""], "gtr: -k must be whole numbers"),
        (["--model", "m", "-k", "0"], "gtr: k must be from 1 to 1000 tables, got 0"),
        (
            ["--model", "m", "--variants", "half"],
            "gtr: there is no variant 'half'; --variants takes all, or some of full,",
        ),
        (["--model", "m", "--variants", ","], "gtr: --variants is empty"),
        (["--model", "m", "--sample", "0"], "gtr: sample must be at least 1 question, got 0"),
        (["--model", "m", "--prompt-tokens", "0"], "gtr: prompt_tokens must be at least 1, got 0"),
        (["--model", "m", "--max-new-tokens", "0"], "gtr: --max-new-tokens must be at least 1, got 0"),
        (["--model", "m", "--few-shot", "7"], "gtr: few_shot must be from 0 to 2 packaged examples, got 7"),
        (["--model", "m", "--encoder", " "], "gtr: --encoder is empty"),
        (["--model", "m", "--seed", "-1"], "gtr: --seed must be a whole number from 0 to 2^32 - 1, got -1"),
        (["--model", "m", "--format", "pdf"], "gtr: Invalid value for '--format'"),
        (["--model", "m", "--split", "tune", "--questions", "raw"], None),
    ],
)
def test_mistakes(gtr, models, tmp_path, options, words):
    status, out, err = gtr("--quiet", *options)
    if words is None:
        assert status == 0
        return
    assert (status, out) == (2, "") and err.startswith(words) and err.count("\n") == 1
    assert not models and not (tmp_path / "out").exists(), "nothing is loaded or left of what could not begin"


def test_wrong_folders(gtr, models, tmp_path, capsys):
    for place in ("missing", "bench/multi_hop/published/queries.jsonl"):
        status = main(
            ["benchmark", "answer", str(tmp_path / place), "--out", str(tmp_path / "out"), "--model", "m", "-q"]
        )
        err = capsys.readouterr().err
        assert status == 2 and err.count("\n") == 1 and not models
    (tmp_path / "out").write_text("")
    assert gtr("--model", "m", "-q") == (2, "", f"gtr: {tmp_path / 'out'} is a file; give a folder for the results\n")
    (tmp_path / "out").unlink()
    status, _, err = gtr("--model", "m", "-q", "--out", tmp_path / "bench" / "out")
    assert status == 2 and "lies in the benchmark" in err and err.count("\n") == 1


def test_without_scipy(gtr, models, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "scipy" else found(name, *rest)
    )
    status, _, err = gtr("--model", "m")
    assert status == 2 and err == 'gtr: the harness needs scipy; `pip install "gtr-gpu[bench]"` brings it\n'
