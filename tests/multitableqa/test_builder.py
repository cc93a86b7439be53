"""The benchmark as a whole: its counts, its names, its captions, and the same bytes on a second run."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import multitableqa_layouts as layouts
import pytest

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.builder import build
from gtr_gpu.multitableqa.manifest import Manifest, verify_tasks
from gtr_gpu.multitableqa.question_settings import QuestionSettings
from gtr_gpu.multitableqa.settings import Settings, draw
from gtr_gpu.multitableqa.stats import numbers_of, task_numbers, verify
from gtr_gpu.multitableqa.task import Task, read_task, tasks_in, write_task

CITIES = ("Oslo", "Bergen", "Lima", "Nairobi", "Quito", "Perth", "Accra", "Turin", "Osaka")


def _rows(number: int) -> list[list[str]]:
    return [[city, *(f"{city} {number}.{column}" for column in range(5))] for city in CITIES]


def _table(number: int, **changes: object) -> dict:
    header = ["city", "mayor", "river", "bridge", "team", "dish"]
    return {"table_id": f"t{number}", "caption": f"Survey {number}", "header": header, "rows": _rows(number)} | changes


def _query(number: int, table: str, city: str = "Oslo") -> dict:
    return {
        "query_id": f"q{number}",
        "query": f"who was the mayor of the town {city} when the survey of {number} was made?",
        "table_id": table,
        "answer": [f"{city} {table.removeprefix('t')}.0"],
    }


@pytest.fixture
def wtq(tmp_path: Path) -> Path:
    """Thirty tables: two are equal, one is too simple, and ten are in no question."""
    tables = [_table(number) for number in range(30)]
    tables[28] = _table(28, rows=_rows(3), caption="A copy")
    tables[29] = _table(29, rows=[["a", "b", "c", "d", "e", "f"]])
    queries = [_query(number, f"t{number}", CITIES[number % 9]) for number in range(18)]
    queries += [_query(18, "t28") | {"answer": ["Oslo 3.0"]}, _query(19, "t29") | {"answer": ["b"]}]
    return layouts.one_shape(tmp_path / "data" / "wtq", tables, queries)


@pytest.fixture
def sqa(tmp_path: Path) -> Path:
    """Two tables: a copy of one that is there, and one of its own."""
    tables = [_table(100, rows=_rows(5), wtq_table_id="t5"), _table(101, wtq_table_id="t900")]
    queries = [
        {
            "query_id": f"s-{table}_{position}",
            "query": f"which river flows through the {city} of the survey {table}?",
            "table_id": f"t{table}",
            "answer": [f"{city} {table}.1"],
            "history": ["which towns are there?"] * position,
            "answer_coordinates": [[CITIES.index(city), 2]],
        }
        for table in (100, 101)
        for position, city in enumerate(("Lima", "Quito"))
    ]
    return layouts.one_shape(tmp_path / "data" / "sqa", tables, queries)


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _by_source(task: Task) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, source in enumerate(task.sources):
        rows.setdefault(source, []).append(row)
    return rows


def test_counts_of_every_step(wtq: Path, sqa: Path, tmp_path: Path):
    out = tmp_path / "out"
    manifest = build({"wtq": wtq, "sqa": sqa}, out, Settings(protocols=("published", "whole")))
    assert manifest == Manifest.read(out)
    assert manifest.sources["sqa"] == {"layout": "JSON lines", "tables": 2, "questions": 4}
    counts = manifest.tasks["single_hop"]
    assert counts["tables_read"] == 32 and counts["questions_released"] == 24
    assert counts["copies_removed"] == 1 and counts["duplicates_removed"] == 1
    assert counts["questions_moved"] == 3, "two of the copy, one of the duplicate"
    assert counts["too_simple"] == {"rows": 1}
    assert sum(counts["cut_along"].values()) == 29
    published, whole = counts["published"], counts["whole"]
    assert (published["tables"], published["source_tables"]) == (87, 29)
    assert (whole["tables"], whole["source_tables"]) == (30, 30), "what is too simple to be cut can still be found"
    assert published["raw_questions"] == 23 and whole["raw_questions"] == 24
    assert counts["tables_without_questions"] == published["distractors"] == 10
    assert published["equal_tables"] == 0
    manifest.verify(out)
    assert numbers_of(out) == [("single_hop", "published", published), ("single_hop", "whole", whole)]
    assert task_numbers(read_task(out / "single_hop" / "published")) == published


def test_a_second_run_gives_the_same_bytes_and_another_seed_others(wtq: Path, sqa: Path, tmp_path: Path):
    settings = Settings(samples={"single_hop": 30})
    # The order in which the sources are given is nothing that they tell.
    build({"wtq": wtq, "sqa": sqa}, tmp_path / "one", settings)
    build({"sqa": sqa, "wtq": wtq}, tmp_path / "two", settings)
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")
    build({"sqa": sqa, "wtq": wtq}, tmp_path / "three", replace(settings, seed=1))
    first, third = (read_task(tmp_path / name / "single_hop" / "published") for name in ("one", "three"))
    assert {table.table_id for table in first.tables}.isdisjoint(table.table_id for table in third.tables)
    assert set(first.sources).isdisjoint(third.sources)


def test_protocols_differ_in_captions_alone(wtq: Path, tmp_path: Path):
    build({"wtq": wtq}, tmp_path / "out")
    published, withheld, mixed = (
        read_task(tmp_path / "out" / "single_hop" / protocol) for protocol in ("published", "withheld", "mixed")
    )
    for other in (withheld, mixed):
        assert other.sources == published.sources
        assert other.questions == published.questions and other.raw == published.raw
        for table, like in zip(other.tables, published.tables, strict=True):
            assert (table.table_id, table.header, table.rows) == (like.table_id, like.header, like.rows)
    assert all(table.caption for table in published.tables)
    assert not any(table.caption for table in withheld.tables)
    kept = Counter(source for table, source in zip(mixed.tables, mixed.sources, strict=True) if table.caption)
    assert kept == dict.fromkeys(published.sources, 1)


def test_names_and_order_tell_nothing(wtq: Path, tmp_path: Path):
    build({"wtq": wtq}, tmp_path / "out")
    task = read_task(tmp_path / "out" / "single_hop" / "published")
    for table, source in zip(task.tables, task.sources, strict=True):
        assert len(table.table_id) == 12 and int(table.table_id, 16) >= 0
        assert source == str(int(source)) and "t" not in source
        assert not table.description and not table.source and not table.metadata
    # Parts of one table stand nowhere near each other more often than others do.
    neighbours = sum(a == b for a, b in zip(task.sources, task.sources[1:], strict=False))
    assert neighbours <= 8, "about two of 83 by chance"
    # The order of the questions is not that of the sources either.
    order = [question.text for question in task.raw]
    assert order != sorted(order) and len(set(order)) == len(order)


def test_splits_go_by_source_and_do_not_hang_on_other_tables(wtq: Path, sqa: Path, tmp_path: Path):
    build({"wtq": wtq, "sqa": sqa}, tmp_path / "both")
    build({"wtq": wtq}, tmp_path / "one")
    splits = []
    for name in ("both", "one"):
        task = read_task(tmp_path / name / "single_hop" / "published")
        by_source = {source: {task.splits[row] for row in rows} for source, rows in _by_source(task).items()}
        assert all(len(some) == 1 for some in by_source.values())
        assert all(question.split == task.splits[task.gold(question)[0]] for question in task.questions)
        assert {"tune", "report"} == set(task.splits)
        splits.append({source: some.pop() for source, some in by_source.items()})
    both, one = splits
    assert {source: both[source] for source in one} == one


def test_a_third_of_many_sources_is_to_tune():
    shares = [draw(0, "split", f"table {number}") < 2**64 / 3 for number in range(6000)]
    assert abs(sum(shares) - 2000) < 150


def test_gold_and_evidence_name_the_parts_of_the_right_table(wtq: Path, sqa: Path, tmp_path: Path):
    build({"wtq": wtq, "sqa": sqa}, tmp_path / "out")
    task = read_task(tmp_path / "out" / "single_hop" / "withheld")
    rows = {table.table_id: row for row, table in enumerate(task.tables)}
    for question in task.raw:
        gold = task.gold(question)
        assert len(gold) == 3
        assert question.evidence, "every answer stands in one cell"
        for table_id in question.evidence:
            assert rows[table_id] in gold
        cells = {cell for name in question.evidence for row in task.tables[rows[name]].rows for cell in row}
        # Those of the copy tell by coordinates, and their answers are texts of the copy.
        if "survey 100" not in question.text:
            assert set(question.label) <= cells
        others = {cell for row in gold for cells_ in task.tables[row].rows for cell in cells_} - cells
        assert not set(question.label) & others


def test_merged_questions_hold_all_that_their_parts_do(tmp_path: Path):
    queries = [_query(number, "t1", city) for number, city in enumerate(CITIES)]
    folder = layouts.one_shape(tmp_path / "wtq", [_table(1), _table(2)], queries)
    merging = Settings(("published",), questions=QuestionSettings(merge_share=1, merge_similarity=2))
    manifest = build({"wtq": folder}, tmp_path / "out", merging)
    task = read_task(tmp_path / "out" / "single_hop" / "published")
    alone = {question.label[0]: set(question.evidence or ()) for question in task.raw}
    assert sum(question.parts for question in task.questions) == len(task.raw) == 9
    for question in task.questions:
        assert question.parts == len(question.label) > 1
        assert set(question.evidence or ()) == set().union(*(alone[label] for label in question.label))
    assert manifest.tasks["single_hop"]["questions"]["built"] == len(task.questions)
    assert manifest.config["questions"]["merge_share"] == 1


def test_a_sample_holds_whole_sources_of_the_task(wtq: Path, tmp_path: Path):
    manifest = build(
        {"wtq": wtq}, tmp_path / "out", Settings(protocols=("published", "whole"), samples={"single_hop": 31})
    )
    full = read_task(tmp_path / "out" / "single_hop" / "published")
    sample = read_task(tmp_path / "out" / "single_hop_31" / "published")
    whole = read_task(tmp_path / "out" / "single_hop_31" / "whole")
    assert len(sample.tables) == 30, "ten tables of three parts, and no part of an eleventh"
    by_source = _by_source(full)
    assert Counter(sample.sources) == {source: len(by_source[source]) for source in set(sample.sources)}
    assert set(sample.tables[row].table_id for row in range(30)) <= {table.table_id for table in full.tables}
    assert set(whole.sources) == set(sample.sources) and len(whole.tables) == 10
    assert manifest.tasks["single_hop_31"]["sample_of"] == "single_hop"
    assert sample.name == "single_hop_31"
    with pytest.raises(GTRError, match="a sample of 900 sub-tables can't be drawn from the 84"):
        build({"wtq": wtq}, tmp_path / "no", Settings(samples={"single_hop": 900}))
    assert not (tmp_path / "no").exists()


def test_a_sample_of_no_whole_table_is_refused(wtq: Path, tmp_path: Path):
    with pytest.raises(
        GTRError, match="a sample of 1 sub-tables holds no whole table of the task single_hop; ask for 3"
    ):
        build({"wtq": wtq}, tmp_path / "out", Settings(samples={"single_hop": 1}))


@pytest.mark.parametrize("inside", ["", "out"])
def test_a_source_is_not_built_into(wtq: Path, tmp_path: Path, inside: str):
    before = _bytes(wtq)
    with pytest.raises(GTRError, match="lies in the source wtq, which it would become part of; give another folder"):
        build({"wtq": wtq}, wtq / inside, overwrite=True)
    assert _bytes(wtq) == before


def test_released_layouts_make_their_tasks(tmp_path: Path):
    sources = {name: getattr(layouts, name)(tmp_path / name) for name in ("tabfact", "wtq", "sqa", "hybridqa", "tatqa")}
    # These tables and questions are tiny.
    everything = QuestionSettings(min_words=0, max_stop_share=2, decontextualize=False, merge_share=0)
    lenient = Settings(("published", "whole"), min_rows=0, min_columns=0, min_distinct=0, questions=everything)
    manifest = build(sources, tmp_path / "out", lenient)
    assert set(manifest.tasks) == {"tfv", "single_hop", "multi_hop", "tatqa"}
    tasks = {task.name: task for task in map(read_task, tasks_in(tmp_path / "out")) if task.protocol == "whole"}
    facts = tasks["tfv"]
    assert {(question.text, question.label) for question in facts.raw} >= {("ann lee won in 1990", ("1",))}
    # The copy has a shape of its own here, so that its coordinates say nothing of the original.
    assert len(tasks["single_hop"].tables) == 2
    assert manifest.tasks["multi_hop"]["duplicates_removed"] == 1


def test_tables_that_only_captions_tell_apart_are_counted(tmp_path: Path):
    # Two tables that differ in one column alone: where they are cut along the columns, some parts are the same.
    tables = [_table(n, table_id=f"t{n}", rows=[[*row[:5], f"{n}"] for row in _rows(0)]) for n in range(2, 42)]
    folder = layouts.one_shape(tmp_path / "wtq", tables, [_query(0, "t2")])
    manifest = build({"wtq": folder}, tmp_path / "out", Settings(("published", "withheld")))
    counts = manifest.tasks["single_hop"]
    assert counts["published"]["equal_tables"] == 0 < counts["withheld"]["equal_tables"]


def test_other_sets_become_tasks_of_their_own_name(wtq: Path, tmp_path: Path):
    build({"mine": wtq}, tmp_path / "out", Settings(protocols=("whole",)))
    (folder,) = tasks_in(tmp_path / "out")
    task = read_task(folder)
    assert (task.name, task.protocol) == ("mine", "whole")
    assert all(len(task.gold(question)) == 1 for question in task.questions)


def test_the_manifest_names_no_path(wtq: Path, tmp_path: Path):
    build({"wtq": wtq}, tmp_path / "out")
    assert str(tmp_path) not in (tmp_path / "out" / "manifest.json").read_text(encoding="utf-8")


def test_an_earlier_benchmark_is_replaced_only_if_told_so(wtq: Path, tmp_path: Path):
    out = tmp_path / "out"
    build({"wtq": wtq}, out)
    (out / "results.md").write_text("mine")
    with pytest.raises(GTRError, match=r"already holds a benchmark; give --overwrite"):
        build({"wtq": wtq}, out)
    build({"wtq": wtq}, out, Settings(protocols=("whole",)), overwrite=True)
    assert tasks_in(out) == [out / "single_hop" / "whole"]
    assert (out / "results.md").read_text() == "mine"
    Manifest.read(out).verify(out)
    # What a build that was killed left behind is no hindrance, and goes.
    (tmp_path / "killed" / ".unfinished-x" / "tfv").mkdir(parents=True)
    build({"wtq": wtq}, tmp_path / "killed")
    assert {path.name for path in (tmp_path / "killed").iterdir()} == {"manifest.json", "single_hop"}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("")
    with pytest.raises(GTRError, match="holds something that is no benchmark"):
        build({"wtq": wtq}, tmp_path / "other")
    with pytest.raises(GTRError, match="is a file; give a folder"):
        build({"wtq": wtq}, tmp_path / "other" / "x")


def test_a_build_that_fails_leaves_what_was_there(wtq: Path, tmp_path: Path):
    out = tmp_path / "out"
    build({"wtq": wtq}, out)
    before = _bytes(out)
    (wtq / "queries.jsonl.zst").unlink()
    with pytest.raises(GTRError, match="the source wtq is not in"):
        build({"wtq": wtq}, out, overwrite=True)
    layouts.one_shape(wtq, [_table(0), _table(1, rows=[])], [_query(1, "t1")])
    with pytest.raises(GTRError, match="no question of the task single_hop is left"):
        build({"wtq": wtq}, out, overwrite=True)
    assert _bytes(out) == before


def test_empty_folders_of_dropped_tasks_go(wtq: Path, tmp_path: Path):
    out = tmp_path / "out"
    build({"wtq": wtq, "lakes": wtq}, out)
    (out / "lakes" / "mixed" / "mine.md").write_text("mine")
    build({"wtq": wtq}, out, Settings(protocols=("whole",)), overwrite=True)
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_dir()} == {
        *("single_hop", "single_hop/whole", "lakes", "lakes/mixed")
    }
    assert (out / "lakes" / "mixed" / "mine.md").read_text() == "mine"


class _Stopped(BaseException):
    """The process is gone."""


def _stop_at(patch: pytest.MonkeyPatch, name: str, step: int) -> None:
    """A step of the replacement, among those by one function of paths, is where the process ends."""
    real, counted = getattr(Path, name), iter(range(step))

    def act(path: Path, *rest: object, **options: object) -> object:
        if next(counted, None) is None:
            raise _Stopped
        return real(path, *rest, **options)

    patch.setattr(Path, name, act)


@pytest.mark.parametrize(
    ("name", "step"),
    # Ten files go and four come.
    [*(("unlink", step) for step in (0, 1, 5, 9)), *(("rmdir", step) for step in (0, 2)), ("rename", 0)]
    + [("replace", step) for step in range(4)],
)
def test_a_replacement_that_was_broken_off_is_gone_on_with(
    wtq: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, step: int
):
    out, new = tmp_path / "out", Settings(protocols=("whole",), seed=1)
    build({"wtq": wtq}, out)
    earlier = _bytes(out)
    with monkeypatch.context() as patch:
        _stop_at(patch, name, step)
        with pytest.raises(_Stopped):
            build({"wtq": wtq}, out, new, overwrite=True)
    assert not list(out.glob(".unfinished-*"))
    if name == "rename":
        assert _bytes(out) == earlier
        return
    for read in (numbers_of, verify, lambda folder: verify_tasks([folder / "single_hop" / "whole"])):
        with pytest.raises(GTRError, match="is half replaced, since a build was broken off; run `gtr benchmark build`"):
            read(out)
    # It goes on with that first, and has nothing else to do here.
    with pytest.raises(GTRError, match="already holds a benchmark"):
        build({"wtq": wtq}, out, new)
    build({"wtq": wtq}, tmp_path / "fresh", new)
    assert _bytes(out) == _bytes(tmp_path / "fresh")
    verify(out)


def test_a_first_build_that_was_broken_off_is_gone_on_with(wtq: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        _stop_at(patch, "replace", 2)
        with pytest.raises(_Stopped):
            build({"wtq": wtq}, tmp_path / "out")
    build({"wtq": wtq}, tmp_path / "out", overwrite=True)
    verify(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"manifest.json", "single_hop"}


def test_damage_is_found(wtq: Path, tmp_path: Path):
    out = tmp_path / "out"
    build({"wtq": wtq}, out, Settings(protocols=("whole",)))
    path = out / "single_hop" / "whole" / "queries.jsonl"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(GTRError, match="is not what was built"):
        Manifest.read(out).verify(out)
    path.unlink()
    with pytest.raises(GTRError, match="is missing"):
        Manifest.read(out).verify(out)
    for text in ("{}", "[]", "{", json.dumps({"format": 1})):
        (out / "manifest.json").write_text(text)
        with pytest.raises(GTRError, match="is no manifest of a benchmark"):
            Manifest.read(out)
    (out / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(GTRError, match="is of another version"):
        Manifest.read(out)
    with pytest.raises(GTRError, match=r"there is no manifest\.json"):
        Manifest.read(tmp_path)


def test_the_files_of_some_tasks_are_checked(wtq: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out = tmp_path / "out"
    build({"wtq": wtq}, out, Settings(protocols=("whole", "mixed")))
    whole, mixed = (out / "single_hop" / protocol for protocol in ("whole", "mixed"))
    verify_tasks([whole, mixed])
    (mixed / "raw.jsonl").unlink()
    verify_tasks([whole])
    with pytest.raises(GTRError, match=r"raw\.jsonl is missing; build the benchmark anew"):
        verify_tasks([whole, mixed])
    monkeypatch.chdir(mixed)
    with pytest.raises(GTRError, match=r"raw\.jsonl is missing"):
        verify_tasks([Path()])
    write_task(out / "single_hop" / "published", read_task(whole), {})
    with pytest.raises(GTRError, match=r"is no part of what .* says was built; move it elsewhere, or build"):
        verify_tasks([out / "single_hop" / "published"])
    # What was not built has no checksums.
    (out / "manifest.json").unlink()
    verify_tasks([whole, mixed])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"protocols": ("open",)}, "protocols must be some of published, withheld, mixed, whole, got open"),
        ({"protocols": ()}, "got none"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"n_parts": 1}, "n_parts must be a whole number from 2 on, got 1"),
        ({"min_rows": -1}, "min_rows must be"),
        ({"max_empty": 1.5}, "max_empty must be a number from 0 to 1"),
        ({"samples": {"tfv": 0}}, "the sample of tfv must be"),
    ],
)
def test_settings_are_checked(fields: dict, message: str):
    with pytest.raises(GTRError) as error:
        Settings(**fields)
    assert message in str(error.value)


def test_names_of_sources_and_samples_are_checked(wtq: Path, tmp_path: Path):
    with pytest.raises(GTRError, match="there is no source"):
        build({}, tmp_path / "out")
    with pytest.raises(GTRError, match=r"small letters, digits, - and _, got '../x'"):
        build({"../x": wtq}, tmp_path / "out")
    with pytest.raises(GTRError, match=r"there is no task 'tfv' to draw a sample of; it must be one of single_hop"):
        build({"wtq": wtq}, tmp_path / "out", Settings(samples={"tfv": 3}))


@pytest.mark.slow
def test_the_real_sets(shared_data: Path, tmp_path: Path):
    names = ("tabfact", "wtq", "sqa", "hybridqa", "tatqa")
    manifest = build({name: shared_data / name for name in names}, tmp_path / "out", Settings(protocols=("withheld",)))
    numbers = {name: counts["withheld"] for name, counts in manifest.tasks.items()}
    assert {name: (some["source_tables"], some["tables"]) for name, some in numbers.items()} == {
        "tfv": (14816, 44448),
        "single_hop": (1685, 5055),
        "multi_hop": (4652, 13954),
        "tatqa": (277, 802),
    }
    for name, some in numbers.items():
        task = read_task(tmp_path / "out" / name / "withheld")
        assert abs(some["questions_to_tune"] / some["questions"] - 1 / 3) < 0.05
        assert not any(table.caption for table in task.tables)
