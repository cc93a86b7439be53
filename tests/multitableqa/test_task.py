"""Tasks on disk: what is written is read, and what is wrong is told with its line."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.task import Question, Task, read_task, tasks_in, write_task
from gtr_gpu.tables import Table

TABLES = (
    Table("a1", "rivers", ["river", "length"], [["nile", "6650"], ["amazon", "6400"]]),
    Table("b2", "", ["peak", ""], [["k2", "8611"]]),
    Table("c3", "rivers", ["river", "length"], [["rhine", "1233"]]),
)
QUESTIONS = (
    Question("which is longest?", "77", ("nile",), "tune", ("a1",)),
    Question("are both long?", "77", ("yes", "no"), "tune", None, 2),
    Question("how high is k2?", "9", (), "report", ()),
)
TASK = Task("single_hop", "mixed", TABLES, ("77", "9", "77"), ("tune", "report", "tune"), QUESTIONS, QUESTIONS[:1])


def _released(folder: Path, tables: list[object], queries: list[object], name: str = "wtq") -> Path:
    folder.mkdir(exist_ok=True)
    for kind, lines in (("table", tables), ("query", queries)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}_{kind}.jsonl").write_text(text, encoding="utf-8")
    return folder


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _line(**changes: object) -> dict[str, object]:
    body = {"header": ["a"], "rows": [["1"]]}
    line = {
        "table_idx": 4,
        "source_table_idx": 2,
        "caption": "c",
        "table": body,
        "example_query": ["q"],
        "split": "train",
    }
    return line | changes


def test_what_is_written_is_read(tmp_path: Path):
    folder = tmp_path / "single_hop" / "mixed"
    sums = write_task(folder, TASK, {"77": ["asked once", "asked twice"]})
    assert read_task(folder) == TASK
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert set(sums) == {"tables.jsonl", "queries.jsonl", "raw.jsonl"}


def test_example_queries_reach_the_file_and_not_the_table(tmp_path: Path):
    write_task(tmp_path / "t", TASK, {"77": ["a telling question"]})
    text = (tmp_path / "t" / "tables.jsonl").read_text(encoding="utf-8")
    assert text.count("a telling question") == 2
    for table in read_task(tmp_path / "t").tables:
        assert "a telling question" not in repr(table) and not table.metadata and not table.source


def test_gold_is_every_table_of_the_source():
    assert TASK.gold(QUESTIONS[0]) == [0, 2]
    assert TASK.gold(QUESTIONS[2]) == [1]


def test_a_released_set_is_read(tmp_path: Path):
    queries = [
        {"query": "q1", "source_table_idx": 2, "label": ["x", 3]},
        {"query": "q2", "source_table_idx": 2, "label": "one"},
        {"query": "q3", "source_table_idx": 2, "label": 1},
    ]
    table = {"header": ["a", None], "rows": [["1", 2.0], ["only"]]}
    folder = _released(tmp_path / "WTQ", [_line(table=table), _line(table_idx=5, caption=None)], queries)
    task = read_task(folder)
    assert (task.name, task.protocol, task.sources, task.splits) == ("WTQ", "released", ("2", "2"), ("report",) * 2)
    assert task.tables[0] == Table("4", "c", ["a", ""], [["1", "2"], ["only", ""]])
    assert task.tables[1].caption == ""
    assert [question.label for question in task.questions] == [("x", "3"), ("one",), ("1",)]
    assert {(question.split, question.evidence, question.parts) for question in task.questions} == {("report", None, 1)}
    assert task.raw == ()


def test_ours_is_what_their_code_reads(tmp_path: Path):
    # What the release's scripts do with a line: the source is taken for a number, and found again by its text.
    write_task(tmp_path / "multi_hop" / "published", TASK, {})
    lines = _lines(tmp_path / "multi_hop" / "published" / "tables.jsonl")
    match: dict[int, set[str]] = {}
    for line in lines:
        match.setdefault(int(line["source_table_idx"]), set()).add(line["table_idx"])
        assert isinstance(line["table"]["header"], list) and isinstance(line["example_query"], list)
    keys = json.loads(json.dumps({key: sorted(value) for key, value in match.items()}))
    queries = _lines(tmp_path / "multi_hop" / "published" / "queries.jsonl")
    assert [keys[str(line["source_table_idx"])] for line in queries] == [["a1", "c3"], ["a1", "c3"], ["b2"]]


def test_one_answer_is_one_text_where_the_release_has_it_so(tmp_path: Path):
    for name, expected in (("tfv", "nile"), ("multi_hop", "nile"), ("single_hop", ["nile"]), ("tatqa", ["nile"])):
        task = Task(name, "whole", TABLES, TASK.sources, TASK.splits, QUESTIONS)
        write_task(tmp_path / name / "whole", task, {})
        first, second, _ = _lines(tmp_path / name / "whole" / "queries.jsonl")
        assert (first["label"], second["label"]) == (expected, ["yes", "no"])
        assert read_task(tmp_path / name / "whole") == task


def test_tasks_are_found_in_a_benchmark_and_by_themselves(tmp_path: Path):
    for protocol in ("published", "mixed"):
        write_task(tmp_path / "tfv" / protocol, TASK, {})
    _released(tmp_path / "theirs", [_line()], [])
    (tmp_path / "results").mkdir()
    expected = [tmp_path / "tfv" / "mixed", tmp_path / "tfv" / "published", tmp_path / "theirs"]
    assert tasks_in(tmp_path) == expected
    assert tasks_in(tmp_path / "tfv" / "mixed") == [tmp_path / "tfv" / "mixed"]
    assert tasks_in(tmp_path / "theirs") == [tmp_path / "theirs"]


@pytest.mark.parametrize(
    ("tables", "queries", "message"),
    [
        ([], [{"query": "q", "source_table_idx": 2}], "wtq_table.jsonl holds no table"),
        ([_line()], [], "wtq_query.jsonl holds no question"),
        (
            [_line(), _line()],
            [],
            "wtq_table.jsonl:2: the table_idx '4' stands on an earlier line already; give each table its own",
        ),
        (
            [_line(table_idx=None)],
            [],
            "wtq_table.jsonl:1: table_idx must be a text that is not empty, or a whole number",
        ),
        ([_line(source_table_idx="")], [], "wtq_table.jsonl:1: source_table_idx must be"),
        ([_line(table="| a |")], [], "wtq_table.jsonl:1: table must be an object with header and rows, got str"),
        ([_line(table={"header": "a", "rows": []})], [], "table.header must be a list of names, got str"),
        ([_line(table={"header": ["a"], "rows": ["1"]})], [], "table.rows must be a list of lists"),
        ([["no object"]], [], "wtq_table.jsonl:1: it is not a JSON object"),
        ([_line()], [{"query": "q", "source_table_idx": 3}], "wtq_query.jsonl:1: the question is on the table '3'"),
        ([_line()], [{"query": " ", "source_table_idx": 2}], "wtq_query.jsonl:1: query must be a text"),
        ([_line()], [{"query": "q", "source_table_idx": 2, "evidence": ["x"]}], "evidence must be a list of the"),
        ([_line()], [{"query": "q", "source_table_idx": 2, "parts": 0}], "parts must be a whole number from 1 on"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, tables: list[object], queries: list[object], message: str):
    with pytest.raises(GTRError) as error:
        read_task(_released(tmp_path / "x", tables, queries))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_files_that_are_missing_or_damaged_are_told(tmp_path: Path):
    with pytest.raises(GTRError, match="there is no folder"):
        tasks_in(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(GTRError, match="is a file; give the folder of a benchmark, or of a task"):
        tasks_in(tmp_path / "file")
    (tmp_path / "file").unlink()
    with pytest.raises(GTRError, match="holds no task"):
        tasks_in(tmp_path)
    with pytest.raises(GTRError, match="holds no task"):
        read_task(tmp_path)
    folder = _released(tmp_path / "x", [_line()], [])
    (folder / "wtq_table.jsonl").write_bytes(b'{"table_idx": \n')
    with pytest.raises(GTRError, match=r"wtq_table.jsonl:1: it is not valid JSON"):
        read_task(folder)
    (folder / "wtq_table.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(GTRError, match=r"wtq_table.jsonl:1: it is not valid UTF-8"):
        read_task(folder)
    (folder / "wtq_query.jsonl").unlink()
    _released(tmp_path / "y", [_line()], [])
    (tmp_path / "y" / "wtq_query.jsonl").unlink()
    with pytest.raises(GTRError, match=r"there is no file .*wtq_query.jsonl"):
        read_task(tmp_path / "y")
    _released(tmp_path / "y", [_line()], [], name="sqa")
    with pytest.raises(GTRError, match="holds 2 released sets"):
        read_task(tmp_path / "y")


def test_a_source_is_told_from_a_task(tmp_path: Path):
    table = {"table_id": "t", "caption": "", "header": ["a"], "rows": [["1"]]}
    (tmp_path / "tables.jsonl").write_text(json.dumps(table) + "\n")
    with pytest.raises(GTRError) as error:
        read_task(tmp_path)
    assert str(error.value) == (
        f"{str(tmp_path)!r} holds a data set, not a task of a benchmark; `gtr benchmark build --source NAME={tmp_path} "
        "--out BENCHMARK` makes a benchmark of it"
    )


_texts = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=8)


@given(
    cells=st.integers(1, 3).flatmap(
        lambda width: st.lists(st.lists(_texts, min_size=width, max_size=width), min_size=1)
    ),
    text=_texts.filter(bool),
    label=st.lists(_texts, max_size=3).map(tuple),
)
def test_any_text_survives_the_round_trip(tmp_path_factory: pytest.TempPathFactory, cells, text, label):
    tables = (Table("t", text, cells[0], cells[1:]),)
    task = Task("tfv", "withheld", tables, ("5",), ("tune",), (Question(text, "5", label, "tune", ("t",)),))
    folder = tmp_path_factory.mktemp("b") / "tfv" / "withheld"
    write_task(folder, task, {"5": [text]})
    assert read_task(folder) == task
