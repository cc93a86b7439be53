"""Each benchmark runs on a tiny corpus and writes its results; nothing is said about its figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

ROOT = Path(__file__).parents[1]
CITIES = ("Paris", "Rome", "Lima", "Oslo", "Bern", "Kyiv", "Cairo", "Quito")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one set of 24 tables and 8 questions, in the form of the real ones."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "wtq").mkdir()
    topics = ("teams", "rivers", "mayors")
    tables = [
        {
            "table_id": f"t{number}",
            "caption": f"{topics[number % 3]} of {city}" if number % 5 else "",
            "header": ["name", topics[number % 3], "year"],
            "rows": [[f"{city} {row}", f"{topics[(number + row) % 3]} word{row}", str(1990 + row)] for row in range(4)],
        }
        for number, city in enumerate(CITIES * 3)
    ]
    questions = [{"query_id": f"q{n}", "query": f"which teams of {city} won ?"} for n, city in enumerate(CITIES)]
    for name, lines in (("tables", tables), ("queries", questions)):
        with zstandard.open(folder / "wtq" / f"{name}.jsonl.zst", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


def run(script: str, tiny: Path, *options: str) -> tuple[dict, str]:
    """Runs a benchmark on the tiny set; returns its JSON and its Markdown."""
    run_script(script, tiny, *options)
    (figures,) = (tiny / "results").glob(f"{script}-*.json")
    text = figures.with_suffix(".md").read_text(encoding="utf-8")
    assert str(tiny) not in text + figures.read_text(encoding="utf-8")
    assert str(ROOT) not in text + figures.read_text(encoding="utf-8")
    return json.loads(figures.read_text(encoding="utf-8")), text


def run_script(script: str, tiny: Path, *options: str) -> None:
    """Runs a benchmark on the tiny set."""
    results = tiny / "results"
    command = [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), "--data", str(tiny), "--sets", "wtq"]
    command += ["--indexes", str(tiny / "indexes"), "--results", str(results), *options]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_build(tiny: Path) -> None:
    facts, text = run("build", tiny)
    (one,) = facts["sets"]
    assert one["tables"] == 24
    assert 0 < one["outside_encoder_share"] < 1
    assert sum(one["stage_seconds"].values()) < one["process_seconds"]
    assert one["peak_memory_bytes"] > 100e6
    assert "| wtq | 24 |" in text


@pytest.mark.slow
def test_all_questions(tiny: Path) -> None:
    facts, _ = run("all_questions", tiny)
    (one,) = facts["sets"]
    assert one["questions"] == one["answers"] == len(CITIES)
    assert one["faults"] == {}


@pytest.mark.slow
def test_search(tiny: Path) -> None:
    pytest.importorskip("bm25s")
    pytest.importorskip("faiss")
    facts, text = run("search", tiny, "--batch", "8", "--rounds", "1")
    (one,) = facts["sets"]
    tasks = {task["task"]: task for task in one["tasks"]}
    assert {"default", "bm25s", "faiss", "encoding"} <= set(tasks)
    assert tasks["default"]["relative_to_default"] == 1
    assert "24 tables" in text


@pytest.mark.slow
def test_parity(tiny: Path) -> None:
    pytest.importorskip("bm25s")
    pytest.importorskip("faiss")
    facts, text = run("parity", tiny, "--limit", "20")
    (one,) = facts["sets"]
    assert one["tables"] == 20
    assert len(one["stages"]) > 30
    assert "DIFFERS" not in text


@pytest.mark.slow
def test_scale(tiny: Path) -> None:
    facts, _ = run("scale", tiny, "--sizes", "30", "60", "--rounds", "1")
    assert [one["tables"] for one in facts["sizes"]] == [30, 60]
    small, large = facts["sizes"]
    assert large["terms"] > small["terms"]
    assert large["equal_share"] > 0


@pytest.mark.slow
def test_kernels(tiny: Path) -> None:
    for peer in ("bm25s", "faiss", "igraph", "networkx", "numba", "sknetwork", "sparse_dot_topn"):
        pytest.importorskip(peer)
    facts, text = run("kernels", tiny, "--limit", "24", "--rounds", "1")
    assert all(row["same"]["same"] for row in facts["rows"]), text
    asked = {(row["peer"], row["at_least"]) for row in facts["rows"]}
    assert {("NetworkX", 100), ("FAISS Kmeans", 1.2), ("sparse_dot_topn", 1), ("bm25s alone", 0.5)} <= asked
    assert all(row["ratio"] > 0 for row in facts["rows"])


@pytest.mark.slow
def test_ops(tiny: Path) -> None:
    pytest.importorskip("pytest_benchmark")
    results = tiny / "results"
    run_script("ops", tiny, "--limit", "24", "--rounds", "1", "--only", "graph", "segments")
    (figures,) = results.glob("ops-*.json")
    names = {one["name"] for one in json.loads(figures.read_text(encoding="utf-8"))["benchmarks"]}
    assert {"test_work[graph: pagerank 3]", "test_work[segments: ours]"} <= names


def test_all_questions_finds_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from all_questions import faults_of  # type: ignore[import-not-found]

    asked = {"query_id": "q", "query": "which?"}
    tables = [
        {"table_id": name, "score": score, "rank": rank}
        for rank, (name, score) in enumerate([("a", 0.6), ("b", 0.4)], 1)
    ]
    sound = {**asked, "tables": tables, "edges": [{"source": "a", "target": "b"}], "candidates": 2}
    assert faults_of(sound, asked, 2) == []
    assert faults_of(sound, asked, 3) == ["not 3 tables"]
    assert faults_of({**sound, "candidates": 1}, asked, 2) == ["fewer candidates than tables"]
    assert faults_of({**sound, "edges": [{"source": "a", "target": "c"}]}, asked, 2) == ["an edge to a table outside"]
    rising = [{**tables[0], "score": 0.1}, tables[1]]
    assert faults_of({**sound, "tables": rising}, asked, 2) == ["scores that rise"]
    broken = [tables[0], {**tables[1], "score": float("nan")}]
    assert faults_of({**sound, "tables": broken}, asked, 2) == ["a score that is no number"]
    twice = [tables[0], {**tables[1], "table_id": "a"}]
    assert faults_of({**sound, "tables": twice, "edges": []}, asked, 2) == ["a table twice"]
    assert faults_of(sound, {"query_id": "p", "query": "which?"}, 2) == ["another query_id"]
