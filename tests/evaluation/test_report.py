"""The report: what it says, what it marks, and that plots are drawn."""

import json
import re

import numpy as np
import pytest
import torch
from task_fakes import make_task

from gtr_gpu.evaluation.bootstrap import compare
from gtr_gpu.evaluation.comparison import groups_of
from gtr_gpu.evaluation.metrics import acc_at_k
from gtr_gpu.evaluation.report import markdown, write_report
from gtr_gpu.evaluation.results import Results
from gtr_gpu.evaluation.runner import Plan, run
from gtr_gpu.multitableqa.task import write_task

METHODS = ["bm25-all", "dense-all", "mix+caption", "clusters-semantic", "gtr-paper", "gtr-default", "oracle-pruned"]


@pytest.fixture(scope="module")
def results(tmp_path_factory, fake_encoder):
    folder = tmp_path_factory.mktemp("report")
    write_task(folder / "tfv" / "published", make_task(name="tfv"), {})
    list(run(folder / "tfv" / "published", folder / "out", Plan(METHODS, "all", "both")))
    return Results(folder / "out")


def table(text, number):
    """A table of the report as rows by method."""
    tables = re.findall(r"((?:^\|.*\n?)+)", text, re.MULTILINE)
    lines = [[cell.strip() for cell in line.strip("| \n").split(" | ")] for line in tables[number].splitlines()]
    return lines[0], {re.sub(r"\*|\(.*\)|~.*", "", row[0]).strip(): row for row in lines[2:]}


def test_rows_are_sorted_and_marked(results):
    text = markdown(groups_of(results, None))
    heads, rows = table(text, 0)
    assert heads[:4] == ["method", "Acc@10", "Acc@20", "Acc@50"] and set(rows) == set(METHODS)
    first = [float(row[1].strip("*").split(" ")[0]) for row in rows.values()]
    assert first == sorted(first, reverse=True)
    assert rows["gtr-default"][0].startswith("*gtr-default*")
    assert "(LABEL USED)" in rows["oracle-pruned"][0]
    baselines = [name for name in METHODS if not name.startswith(("gtr", "oracle"))]
    for column in range(1, len(heads)):
        bold = [name for name, row in rows.items() if row[column].startswith("**")]
        assert len(bold) == 1 and bold[0] in baselines, "one baseline is the best of a column, and no other method"
        values = {name: float(rows[name][column].strip("*").split(" ")[0]) for name in baselines}
        assert values[bold[0]] == max(values.values())
    assert sum("best baseline" in row[0] for row in rows.values()) == 1


def test_every_group_has_its_part(results):
    text = markdown(groups_of(results, None))
    assert "## tfv, published: built questions, split all" in text
    assert "## tfv, published: raw questions, split all" in text
    assert "60 tables, 24 of 24 questions" in text


def test_beside_the_best_baseline(results):
    group = next(group for group in groups_of(results, None) if group.name[2] == "built")
    ours = next(row for row in group.rows if row.method == "gtr-default")
    rival, found = ours.versus["Acc@10"]
    assert rival == group.best["Acc@10"]
    by_name = {row.method: results.ranked(row.record) for row in group.rows}
    first, second = (acc_at_k(by_name[name].ids, by_name[name].gold, 10).numpy() for name in ("gtr-default", rival))
    (expected,) = compare(first[:, None], second[:, None], by_name[rival].groups)
    assert found == pytest.approx(expected)
    assert found.difference == pytest.approx(first.mean() - second.mean())
    assert all(not row.versus for row in group.rows if row.record["kind"] == "baseline")


def test_other_cuts_need_no_other_run(results):
    (built, _) = groups_of(results, (1, 3))
    assert built.main == "Acc@1"
    row = built.rows[0]
    ranked = results.ranked(row.record)
    assert row.figures["Acc@3"].mean == pytest.approx(float(acc_at_k(ranked.ids, ranked.gold, 3).mean()))


def test_samples_are_compared_on_shared_questions(results, tmp_path):
    """A run on half of the questions, beside a baseline on all of them."""
    group = next(group for group in groups_of(results, None) if group.name[2] == "built")
    other = Results(tmp_path / "out")
    for row in group.rows:
        ranked = results.ranked(row.record)
        if row.method == "gtr-default":
            half = np.arange(len(ranked.numbers)) % 2 == 0
            keep = torch.from_numpy(half.nonzero()[0])
            ranked = type(ranked)(
                ranked.numbers[half],
                ranked.groups[half],
                ranked.ids[keep],
                ranked.scores[keep],
                ranked.gold.select(keep),
            )
            row.record.update(asked_questions=int(half.sum()), sampled=True)
        other.append(row.record, ranked)
    (sampled,) = groups_of(other, None)
    ours = next(row for row in sampled.rows if row.method == "gtr-default")
    rival, found = ours.versus["Acc@10"]
    theirs = results.ranked(next(row.record for row in group.rows if row.method == rival))
    acc = acc_at_k(theirs.ids, theirs.gold, 10).numpy()[::2]
    assert found.difference == pytest.approx(ours.figures["Acc@10"].mean - acc.mean())
    assert "~12" in markdown([sampled])


def test_runs_with_another_encoder_are_not_beside_the_newest(results, tmp_path):
    """The newest run is the only one with its encoder, and the others are counted."""
    group = next(group for group in groups_of(results, None) if group.name[2] == "built")
    other = Results(tmp_path / "out")
    for encoder, kept in (("first", group.rows), ("second", group.rows[:2])):
        for row in kept:
            key = f"{encoder}-{row.method}"
            other.append({**row.record, "key": key, "encoder": encoder}, results.ranked(row.record))
    (mixed,) = groups_of(other, None)
    assert {row.record["encoder"] for row in mixed.rows} == {"second"} and len(mixed.rows) == 2
    assert mixed.superseded == len(group.rows)
    left_out = f"{len(group.rows)} older run(s) of changed methods, tables, questions or encoders are not shown"
    assert left_out in markdown([mixed])


def test_files(results):
    report, summary, *plots = write_report(results)
    text = report.read_text()
    assert [plot.name for plot in plots] == [
        f"tfv-published-{questions}-all-{kind}.png"
        for questions in ("built", "raw")
        for kind in ("coverage", "latency")
    ]
    for plot in plots:
        assert f"](plots/{plot.name})" in text
        assert plot.read_bytes().startswith(b"\x89PNG")
    built = json.loads(summary.read_text())[0]
    oracle = next(one for one in built["methods"] if one["method"] == "oracle-pruned")
    assert oracle["label_used"] is True and oracle["kind"] == "oracle"
    assert built["best_baseline"]["Acc@10"] in METHODS[:4]
    assert set(oracle["versus_best_baseline"]["Acc@10"]) == {"baseline", "difference", "low", "high", "p_value"}


def test_no_baseline_and_no_run(results, tmp_path):
    assert markdown(groups_of(Results(tmp_path), None)).startswith("# Retrieval results")
    write_task(tmp_path / "made", make_task(raw=False), {})
    list(run(tmp_path / "made", tmp_path / "out", Plan(["gtr-default"], "all")))
    (group,) = groups_of(Results(tmp_path / "out"), None)
    assert group.best == {} and group.rows[0].versus == {}
    assert "best baseline)" not in markdown([group])
