"""No label reaches a method: not through what it is given, nor through ids, orders or `example_query`."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from task_fakes import POISON, make_task

from gtr_gpu.evaluation.corpus import ask, blind
from gtr_gpu.evaluation.methods.method import Ranking
from gtr_gpu.evaluation.methods.registry import METHODS, Entry
from gtr_gpu.evaluation.results import Results
from gtr_gpu.evaluation.runner import Plan, run
from gtr_gpu.multitableqa.task import read_task, write_task

pytestmark = pytest.mark.usefixtures("fake_encoder")


def strings_in(given, seen=None):
    """Every text and number within reach of an object: items, keys, attributes, closures, arrays."""
    seen = set() if seen is None else seen
    if id(given) in seen:
        return
    seen.add(id(given))
    if isinstance(given, (str, int, float, bytes)):
        yield str(given)
    for part in parts_of(given):
        yield from strings_in(part, seen)


def parts_of(given):
    """What an object of data, of ours or of Python's is made of; nothing for those of libraries."""
    if isinstance(given, (torch.Tensor, np.ndarray)):
        return np.asarray(given).ravel().tolist()
    if isinstance(given, dict):
        return given.items()
    if isinstance(given, (list, tuple, set, frozenset)):
        return given
    if dataclasses.is_dataclass(given):
        return [getattr(given, field.name) for field in dataclasses.fields(given)]
    if type(given).__module__.partition(".")[0] == "gtr_gpu":
        return vars(given).items()
    return [cell.cell_contents for cell in getattr(given, "__closure__", None) or ()]


class Spy:
    """Looks for labels in all that it is given, in place of ranking."""

    label_used = False
    settings: dict = {}  # noqa: RUF012
    facts: dict = {}  # noqa: RUF012
    name = "spy"

    def __init__(self, resources):
        self.found = [*strings_in(resources)]
        self.tables, self.queries = [], []

    def index(self, tables):
        self.found += strings_in(tables)
        self.tables = tables

    def rank(self, queries, k):
        self.found += strings_in([queries, k])
        self.queries = queries
        assert all(type(query) is str for query in queries)
        ids = torch.arange(k).expand(len(queries), k)
        return Ranking(ids, torch.zeros(ids.shape))


@pytest.fixture
def spies(monkeypatch):
    made = []

    def make(resources):
        made.append(Spy(resources))
        return made[-1]

    monkeypatch.setitem(METHODS, "spy", Entry("baseline", "looks for labels", make))
    return made


def labels_of(task):
    """All texts of a task that tell its answers, or where a table stood in it."""
    words = {POISON, "source", "report", "tune", *task.sources, *(table.table_id for table in task.tables)}
    for question in (*task.questions, *task.raw):
        words |= {question.source, *question.label}
    return words


def test_a_spy_finds_no_label(spies, tmp_path):
    task = make_task()
    write_task(tmp_path / "made", task, {source: [f"{POISON} asked"] for source in task.sources})
    list(run(tmp_path / "made", tmp_path / "out", Plan(["spy"], "all", "both")))
    (spy,) = spies
    assert len(spy.tables) == 60 and len(spy.queries) == 24
    given = "\n".join(spy.found)
    for label in labels_of(task):
        assert label not in given, label
    # It sees what it is meant to see, and would have found the labels of the task itself.
    assert spy.tables[7].caption in given and spy.queries[3] in given
    whole = "\n".join(strings_in(task))
    assert all(label in whole for label in labels_of(task) if label != "source")


def test_a_spy_that_changes_its_tables_changes_nothing_else(spies, tmp_path):
    task = make_task()
    corpus = blind(task)
    corpus.tables[0].rows[0][0] = "changed"
    corpus.tables[0].header[0] = "changed"
    assert blind(task).fingerprint == corpus.fingerprint
    assert blind(task).tables[0].rows[0][0] != "changed"


def test_the_order_and_the_ids_are_the_harness_own():
    """What a method sees is the same for any shuffle of the task, and another for another seed."""
    first, second = make_task(shuffle=1), make_task(shuffle=2)
    assert [table.caption for table in first.tables] != [table.caption for table in second.tables]
    assert blind(first).tables == blind(second).tables
    assert blind(first).fingerprint == blind(second).fingerprint
    assert blind(first, seed=5).tables != blind(first).tables
    assert len({table.table_id for table in blind(first).tables}) == 60
    asked = [ask(task, blind(task), "built", "all") for task in (first, second)]
    assert asked[0].texts == asked[1].texts
    # Rankings are kept in the numbers of the task, so that those of two shuffles are never put side by side.
    assert asked[0].fingerprint != asked[1].fingerprint
    assert asked[0].gold.to_lists() == asked[1].gold.to_lists()
    # The gold tables that the harness keeps are those of the task.
    for row, number in enumerate(asked[1].numbers.tolist()):
        places = blind(second).places[asked[1].gold[row].long()].tolist()
        assert sorted(places) == second.gold(second.questions[number])


def outcomes(folder, out, methods):
    """What each method finds, as the contents of the tables of each question."""
    task = read_task(folder)
    contents = [json.dumps([table.caption, table.header, table.rows]) for table in task.tables]
    found = {}
    for record, _ in run(folder, out, Plan(methods, "all", "built", seed=0)):
        ranked = Results(out).ranked(record)
        tables = {
            task.questions[number].text: [contents[row] for row in ids if row >= 0]
            for number, ids in zip(ranked.numbers.tolist(), ranked.ids.tolist(), strict=True)
        }
        found[record["method"]] = (record["metrics"], tables, ranked.scores)
    return found


def test_another_shuffle_with_other_ids_changes_nothing(tmp_path):
    methods = list(METHODS)
    results = []
    for shuffle in (1, 2):
        folder = tmp_path / f"shuffle {shuffle}" / "made"
        write_task(folder, make_task(shuffle=shuffle), {})
        results.append(outcomes(folder, tmp_path / f"out {shuffle}", methods))
    first, second = results
    assert list(first) == list(second) == methods
    for method in methods:
        assert first[method][0] == second[method][0], method
        assert first[method][1] == second[method][1], method
        torch.testing.assert_close(first[method][2], second[method][2], msg=method)
        assert any(first[method][1].values()), method


def test_example_query_is_never_read(tmp_path):
    """The questions themselves stand in the field, for their own tables."""
    task = make_task()
    clean, poisoned = tmp_path / "clean" / "made", tmp_path / "poisoned" / "made"
    write_task(clean, task, {})
    write_task(poisoned, task, {question.source: [question.text] for question in task.questions})
    lines = [json.loads(line) for line in (poisoned / "tables.jsonl").read_text().splitlines()]
    assert task.questions[-1].text in {text for line in lines for text in line["example_query"]}
    assert blind(read_task(clean)).tables == blind(read_task(poisoned)).tables
    methods = ["mix+caption", "gtr-default", "oracle-pruned"]
    first = outcomes(clean, tmp_path / "out", methods)
    second = outcomes(poisoned, tmp_path / "other", methods)
    for method in methods:
        assert first[method][:2] == second[method][:2], method


def test_only_the_oracle_is_told_and_it_is_marked(resources):
    told = {name for name, entry in METHODS.items() if entry.make(resources).label_used}
    assert told == {"oracle-pruned"} == {name for name, entry in METHODS.items() if entry.kind == "oracle"}
    with pytest.raises(NotImplementedError, match="rank_with_gold"):
        METHODS["oracle-pruned"].make(resources).rank(["which"], 5)
