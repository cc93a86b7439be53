"""`gtr benchmark run`: from a folder to a report, and what is wrong in one sentence."""

import json

import multitableqa_layouts as layouts
import pytest
from task_fakes import make_task

from gtr_gpu.cli import main
from gtr_gpu.evaluation.methods.gtr import GTR
from gtr_gpu.evaluation.methods.registry import METHODS
from gtr_gpu.multitableqa.task import write_task

pytestmark = pytest.mark.usefixtures("fake_encoder")


@pytest.fixture
def bench(tmp_path):
    write_task(tmp_path / "bench" / "tfv" / "published", make_task(name="tfv"), {})
    return tmp_path / "bench"


@pytest.fixture
def gtr(capsys):
    def call(*words):
        status = main(["benchmark", "run", *map(str, words)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_run_and_run_again(gtr, bench, tmp_path):
    options = [bench, "--out", tmp_path / "out", "--methods", "bm25-all,gtr-default", "--questions", "both"]
    status, out, err = gtr(*options, "--split", "all", "--k", "1,10")
    assert status == 0
    assert out == f"4 runs done, 0 were there already: {tmp_path / 'out' / 'report.md'}\n"
    assert "tfv/published, raw: gtr-default: Acc@1 " in err and "Ranking, gtr-default" in err
    records = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert {(record["method"], record["questions"], record["split"]) for record in records} == {
        (method, questions, "all") for method in ("bm25-all", "gtr-default") for questions in ("built", "raw")
    }
    assert "| Acc@1 | Acc@10 |" in (tmp_path / "out" / "report.md").read_text()
    assert gtr(*options, "--split", "all", "--quiet") == (
        0,
        f"0 runs done, 4 were there already: {tmp_path / 'out' / 'report.md'}\n",
        "",
    )


def test_the_report_is_of_what_was_asked_for(gtr, bench, tmp_path):
    out = ["--out", tmp_path / "out", "--methods", "bm25-all", "--quiet"]
    other = tmp_path / "other" / "tfv" / "published"
    write_task(other, make_task(n_tables=57, name="tfv"), {})
    for folder, n_tables in ((bench, 60), (other, 57), (bench, 60)):
        assert gtr(folder, *out)[0] == 0
        assert f"\n{n_tables} tables, " in (tmp_path / "out" / "report.md").read_text()


def test_list(gtr, tmp_path):
    status, out, _ = gtr(tmp_path, "--out", tmp_path / "out", "--methods", "list")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == list(METHODS)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--methods", "bm52-all"], "gtr: there is no method 'bm52-all'; did you mean bm25-all?"),
        (["--k", "10,x"], "gtr: --k must be whole numbers separated by commas, such as 10,20,50, got '10,x'"),
        (["--k", "500"], "gtr: cuts must be numbers from 1 to 100, got 500"),
        (["--sample", "10"], "gtr: sample must be at least 600 questions, got 10"),
        (["--encoder", " "], "gtr: --encoder is empty"),
        (["--seed", "-1"], "gtr: --seed must be a whole number from 0 to 2^32 - 1, got -1"),
        (["--questions", "raw", "--split", "tune", "--methods", "bm25-all"], None),
    ],
)
def test_mistakes(gtr, bench, tmp_path, options, words):
    status, out, err = gtr(bench, "--out", tmp_path / "out", "--quiet", *options)
    if words is None:
        assert status == 0
        return
    assert (status, out) == (2, "") and err.startswith(words) and err.count("\n") == 1


def test_wrong_folders(gtr, bench, tmp_path):
    out = ["--out", tmp_path / "out", "--quiet", "--methods", "bm25-all"]
    status, _, err = gtr(tmp_path / "missing", *out)
    assert status == 2 and err.startswith("gtr: there is no folder") and err.count("\n") == 1
    (tmp_path / "empty").mkdir()
    status, _, err = gtr(tmp_path / "empty", *out)
    assert status == 2 and "holds no task" in err and err.count("\n") == 1
    queries = bench / "tfv" / "published" / "queries.jsonl"
    queries.write_text(queries.read_text() + '{"query": "who", "source_table_idx": "none"}\n')
    status, _, err = gtr(bench, *out)
    assert status == 2 and "queries.jsonl:25" in err and "'none'" in err and err.count("\n") == 1
    (tmp_path / "file").write_text("")
    status, _, err = gtr(bench, "--out", tmp_path / "file", "--quiet")
    assert status == 2 and err == f"gtr: {tmp_path / 'file'} is a file; give a folder for the results\n"
    status, _, err = gtr(bench, *out, "--encodings", tmp_path / "file")
    assert status == 2 and err == f"gtr: {tmp_path / 'file'} is a file; give a folder for the encodings\n"
    status, _, err = gtr(tmp_path / "file", *out)
    assert status == 2 and "is a file; give the folder of a benchmark" in err and err.count("\n") == 1
    table = {"table_id": "t", "caption": "", "header": ["a"], "rows": [["1"]]}
    query = {"query_id": "q", "query": "what?", "table_id": "t", "answer": []}
    source = layouts.one_shape(tmp_path / "source", [table], [query], "")
    status, _, err = gtr(source, *out)
    assert status == 2 and f"`gtr benchmark build --source NAME={source} --out BENCHMARK`" in err
    assert err.count("\n") == 1 and "table_idx" not in err
    assert not (tmp_path / "out").exists(), "nothing is left of what could not begin"


def test_an_interrupt_says_what_is_kept(gtr, bench, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(GTR, "rank", interrupted)
    options = [bench, "--out", tmp_path / "out", "--methods", "bm25-all,gtr-default", "--quiet"]
    status, out, err = gtr(*options)
    assert (status, out) == (130, "")
    assert err == (
        "gtr: interrupted; finished runs and the encodings on disk are kept, and the same command goes on from there\n"
    )
    monkeypatch.undo()
    assert gtr(*options, "--encodings", tmp_path / "shared")[:2] == (
        0,
        f"1 runs done, 1 were there already: {tmp_path / 'out' / 'report.md'}\n",
    )
    assert any((tmp_path / "shared").iterdir())


def test_missing_libraries(gtr, bench, tmp_path, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "bm25s" else found(name, *rest)
    )
    status, _, err = gtr(bench, "--out", tmp_path / "out")
    assert status == 2 and err == 'gtr: the harness needs bm25s; `pip install "gtr-gpu[bench]"` brings it\n'
