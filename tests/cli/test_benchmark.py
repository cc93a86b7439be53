"""`gtr benchmark build` and `gtr benchmark stats`, on data sets written by hand."""

import json
from pathlib import Path

import multitableqa_layouts as layouts
import pytest

from gtr_gpu.cli import benchmark
from gtr_gpu.multitableqa.sources import KNOWN


@pytest.fixture
def source(tmp_path: Path) -> str:
    rows = [[f"{row}{column}" for column in "abcd"] for row in range(6)]
    tables = [
        {"table_id": name, "caption": name, "header": list("wxyz"), "rows": [[name, *row[1:]] for row in rows]}
        for name in ("Lakes", "Rivers")
    ]
    query = {"query_id": "q", "query": "which of all the lakes has an x of 3b?", "table_id": "Lakes", "answer": ["3b"]}
    return f"lakes={layouts.one_shape(tmp_path / 'data', tables, [query])}"


def test_build_says_what_it_did(gtr, source, tmp_path):
    status, text, err = gtr("benchmark", "build", "--source", source, "--out", tmp_path / "out")
    assert status == 0, err
    lines = text.splitlines()
    assert lines[0] == (
        "lakes: 2 tables and 1 question read; without 0 copies, 0 duplicates, 0 tables too simple to be cut"
    )
    assert lines[2].split()[:4] == ["task", "protocol", "sources", "unasked"]
    assert [line.split()[1] for line in lines[3:6]] == ["published", "withheld", "mixed"]
    assert lines[3].split()[:5] == ["lakes", "published", "2", "1", "6"]
    assert lines[-1].endswith("manifest.json has all counts and checksums.")
    assert "read: 1 in" in err, "progress as plain lines, since stderr is no terminal"
    assert gtr("benchmark", "stats", tmp_path / "out")[1].splitlines() == lines[2:6]


def test_options_reach_the_settings(gtr, source, tmp_path):
    options = ["--no-decompose", "--seed", 7, "--parts", 2, "--min-rows", 1, "--min-columns", 3, "--sample", "lakes=1"]
    more = ["--min-distinct", 4, "--max-empty", 0.25, "--question", "merge_share=0", "--json"]
    status, text, err = gtr("benchmark", "build", "--source", source, "--out", tmp_path / "out", *options, *more)
    assert (status, err) == (0, "")
    built = json.loads(text)
    assert built["tasks"]["lakes"]["whole"]["tables"] == 2
    config = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))["config"]
    expected = {
        "protocols": ["whole"],
        "seed": 7,
        "n_parts": 2,
        "min_rows": 1,
        "min_columns": 3,
        "min_distinct": 4,
        "max_empty": 0.25,
        "samples": {"lakes": 1},
    }
    assert {name: config[name] for name in expected} == expected
    assert config["questions"]["merge_share"] == 0 and config["questions"]["seed"] == 7


def test_stats_as_json_and_checked(gtr, source, tmp_path):
    out = tmp_path / "out"
    gtr("benchmark", "build", "--source", source, "--out", out, "--protocol", "mixed", "--quiet")
    status, text, _ = gtr("benchmark", "stats", out, "--json")
    assert status == 0
    (numbers,) = json.loads(text)
    assert (numbers["task"], numbers["protocol"], numbers["tables"]) == ("lakes", "mixed", 6)
    assert gtr("benchmark", "stats", out, "--check")[1].endswith("All files are as they were built.\n")
    assert gtr("benchmark", "stats", out / "lakes", "--check")[1].endswith("All files are as they were built.\n")
    (out / "lakes" / "mixed" / "tables.jsonl").write_text("")
    for folder in (out, out / "lakes" / "mixed"):
        status, _, err = gtr("benchmark", "stats", folder, "--check")
        assert status == 2 and "its checksum differs" in err


def test_an_interrupt_says_what_is_kept(gtr, source, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    words = ["benchmark", "build", "--source", source, "--out", tmp_path / "out", "--quiet"]
    assert gtr(*words)[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    monkeypatch.setattr("gtr_gpu.multitableqa.builder.write_task", interrupted)
    status, _, err = gtr(*words, "--overwrite", "--seed", 1)
    kept = "an earlier benchmark stays until the new one is complete, and the same command starts anew"
    assert (status, err) == (130, f"gtr: interrupted; {kept}\n")
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


def test_stats_reads_a_released_set(gtr, tmp_path):
    table = {"table_idx": 1, "source_table_idx": 0, "caption": "c", "table": {"header": ["a"], "rows": [["1"]]}}
    layouts.write_lines(tmp_path / "sqa" / "sqa_table.jsonl", [table])
    layouts.write_lines(tmp_path / "sqa" / "sqa_query.jsonl", [{"query": "q", "source_table_idx": 0, "label": ["1"]}])
    status, text, _ = gtr("benchmark", "stats", tmp_path / "sqa")
    assert status == 0
    assert text.splitlines()[1].split()[:5] == ["sqa", "released", "1", "0", "1"]
    status, text, err = gtr("benchmark", "stats", tmp_path / "sqa", "--check")
    assert (status, text) == (2, "") and err.count("\n") == 1
    assert f"no manifest.json tells what '{tmp_path / 'sqa'}' should hold; give a benchmark that" in err
    status, _, err = gtr("benchmark", "stats", tmp_path / "sqa" / "sqa_table.jsonl", "--check")
    assert status == 2 and "is a file; give the folder of a benchmark" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--source", "lakes"], "--source must be NAME=DIR, as in tabfact=data/tabfact, got 'lakes'"),
        (["--source", "lakes=nowhere"], "the source lakes is not there: 'nowhere' is no folder; check the path"),
        (["--source", "a=x", "--source", "a=y"], "--source names 'a' twice"),
        (["--source", "a=x", "--protocol", "open"], "protocols must be some of"),
        (["--source", "a=x", "--sample", "multi_hop"], "--sample must be TASK=N"),
        (["--source", "a=x", "--sample", "b=1", "--sample", "b=2"], "--sample names the task 'b' twice"),
        (["--source", "a=x", "--question", "seed=3"], "--question must be NAME=VALUE with one of min_words"),
        (["--source", "a=x", "--question", "text_only=yes"], "--question text_only must be true or false, got 'yes'"),
        (["--source", "a=x", "--question", "max_parts=2.5"], "--question max_parts must be a whole number"),
        (["--source", "a=x", "--question", "merge_share=2"], "merge_share of the questions must be between 0 and 1"),
        (["--source", "a=x", "--no-decompose", "--protocol", "mixed"], "--no-decompose keeps tables whole"),
    ],
)
def test_mistakes_are_one_sentence(gtr, tmp_path, words, message):
    status, text, err = gtr("benchmark", "build", *words, "--out", tmp_path / "out")
    assert (status, text) == (2, "")
    assert message in err and err.startswith("gtr: ") and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_every_known_source_is_told():
    assert tuple(benchmark._KNOWN.split(", ")) == KNOWN


def test_the_group_alone_shows_its_commands(gtr):
    status, text, _ = gtr("benchmark")
    assert status == 2
    assert "build" in text and "stats" in text
