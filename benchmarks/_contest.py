"""One work done by us and by others: what a group of such works declares, and how it is measured.

A group is a module of `_groups`. It has `prepare`, which writes what all competitors are given into a folder,
`COMPETITORS`, which make their works of that folder, each in a process of its own, and `rows`, the pairs to compare.
For each pair ours and the peer run in turn, A B A B, and what counts is the ratio of each turn: a busy moment is busy
for both. A work shorter than a tenth of a second is repeated for so long. All are warmed up, have equal threads, and
their results are compared before anything is timed.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import _common as common
import numpy as np
from _processes import Competitor, serve

LEAST_SECONDS = 0.1
LEAST_ROUNDS = 3

Arrays = dict[str, np.ndarray]
Comparison = Callable[[Arrays, Arrays], "Agreement"]
Works = Mapping[str, "Work"]


@dataclass(frozen=True)
class Sizes:
    """How much of everything there is.

    Attributes:
        limit: Tables that are read at most; None for all. Made data shrink along.
        nodes: Tables of the made graph.
        queries: Questions that are asked of it.
        candidates: What each of them has in the fine stage.
        rows: Dense rows for k-means.
        clusters: Numbers of clusters for them.
        questions: Real questions for lexical scores.
        batch: Real questions of one search.
        single: Real questions that are asked one by one.
        few: Questions that peers are asked that take more than a hundred times as long.
        summands: Rows for segment sums.
    """

    limit: int | None = None
    nodes: int = 60_000
    queries: int = 512
    candidates: int = 2_000
    rows: int = 100_000
    clusters: tuple[int, int] = (64, 1_024)
    questions: int = 2_000
    batch: int = 512
    single: int = 64
    few: int = 16
    summands: int = 1_000_000

    @classmethod
    def of(cls, limit: int | None) -> Sizes:
        """The sizes of a whole run, or of a trial with so many tables."""
        whole = cls()
        if limit is None:
            return whole
        rows = min(whole.rows, 16 * limit)
        return replace(
            whole,
            limit=limit,
            nodes=min(whole.nodes, 8 * limit),
            queries=min(whole.queries, limit),
            candidates=min(whole.candidates, 2 * limit),
            rows=rows,
            clusters=(min(64, rows // 16), min(1_024, rows // 8)),
            questions=min(whole.questions, 4 * limit),
            batch=min(whole.batch, limit),
            few=min(whole.few, 4),
            summands=min(whole.summands, 256 * limit),
        )


@dataclass(frozen=True)
class Work:
    """What a competitor does.

    Attributes:
        run: Does it; this is timed.
        items: How many questions, rows or the like that is; ratios are those of the time of one.
        result: Makes arrays of what `run` gave, to be compared; not timed.
        needs: What it can't do without: `flops` of matrix products, `bytes` from and to memory, `cached_bytes` of data
            that stay in a core's cache. Only where that can be said.
    """

    run: Callable[[], Any]
    items: int
    result: Callable[[Any], Arrays] = lambda _: {}
    needs: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Agreement:
    """Whether two results are the same, and how far apart they are, in a few words."""

    same: bool
    text: str


@dataclass(frozen=True)
class Row:
    """A pair to compare.

    Attributes:
        work: What is done.
        ours: Our competitor and its work, `gtr/pagerank m=3`.
        peer: The other one.
        label: What the peer is, for a reader.
        agree: Compares both results.
        at_least: How many times as fast ours is meant to be; None where nothing was set.
    """

    work: str
    ours: str
    peer: str
    label: str
    agree: Comparison
    at_least: float | None = None


# A competitor's process


def be_competitor(group: ModuleType, name: str, folder: Path, sizes: Sizes) -> None:
    """Makes a competitor's works and runs those that are asked for."""
    works = dict(group.COMPETITORS[name](folder, sizes))
    if name == "gtr":
        from _groups.limits import limits

        works |= limits()
    results = folder / "results"
    results.mkdir(exist_ok=True)

    def seconds(task: str, work: Work) -> float:
        rounds, start = 0, time.perf_counter()
        while True:
            found = work.run()
            rounds += 1
            took = time.perf_counter() - start
            if took >= LEAST_SECONDS:
                break
        path = result_path(folder, f"{name}/{task}")
        if not path.exists():
            np.savez(path, **work.result(found))
        return took / rounds

    tasks = {task: (lambda task=task, work=work: seconds(task, work)) for task, work in works.items()}
    facts = {task: {"items": work.items, "needs": work.needs} for task, work in works.items()}
    serve(tasks, {"works": facts})


def result_path(folder: Path, task: str) -> Path:
    """Where the result of `competitor/work` is."""
    return folder / "results" / (task.replace("/", "--").replace(" ", "_") + ".npz")


# The one that asks them


def measure(name: str, group: ModuleType, options: Namespace, sizes: Sizes) -> list[dict[str, Any]]:
    """Measures one group's rows."""
    threads = options.threads or common.machine()["cores"]
    with tempfile.TemporaryDirectory(prefix="gtr-bench-") as temporary:
        folder = Path(temporary)
        script = [str(options.script), "--group", name, "--folder", str(folder), "--data", str(options.data)]
        script += ["--sets", *options.sets, "--indexes", str(options.indexes)]
        script += ["--limit", str(sizes.limit)] if sizes.limit else []
        common.say(f"{name}: preparing")
        common.run_measured([common.sys.executable, *script, "--prepare"])
        competitors: dict[str, Competitor] = {}
        try:
            for each in group.COMPETITORS:
                common.say(f"{name}: starting {each}")
                competitors[each] = Competitor(each, [*script, "--serve", each], threads)
            return [_measure_row(row, competitors, folder, options) for row in group.rows(sizes)]
        finally:
            for competitor in competitors.values():
                competitor.end()


def _measure_row(row: Row, competitors: Mapping[str, Competitor], folder: Path, options: Namespace) -> dict[str, Any]:
    ours, peer = row.ours.split("/", 1), row.peer.split("/", 1)
    facts = [competitors[who].facts["works"][task] for who, task in (ours, peer)]
    results = [dict(np.load(result_path(folder, task))) for task in (row.ours, row.peer)]
    agreement = row.agree(*results)
    common.say(f"{row.work}, {row.label}: {agreement.text}")
    pairs: list[tuple[float, float]] = []
    shares: list[float] = []
    rates: dict[str, list[float]] = {kind: [] for kind in facts[0]["needs"]}
    start = time.perf_counter()
    while len(pairs) < options.rounds:
        pairs.append((competitors[ours[0]].run(ours[1]), competitors[peer[0]].run(peer[1])))
        for kind, found in rates.items():
            found.append(_rate(kind, competitors["gtr"]))
        if rates:
            shares.append(pairs[-1][0] / max(need / rates[kind][-1] for kind, need in facts[0]["needs"].items()))
        if len(pairs) >= min(LEAST_ROUNDS, options.rounds) and time.perf_counter() - start > options.seconds:
            break
    each = [(one / facts[0]["items"], other / facts[1]["items"]) for one, other in pairs]
    ratios = [other / one for one, other in each]
    ratio = statistics.median(ratios)
    measured = {
        "work": row.work,
        "peer": row.label,
        "at_least": row.at_least,
        "ratio": ratio,
        "ratios": ratios,
        "met": None if row.at_least is None else ratio >= row.at_least,
        "same": asdict(agreement),
        "seconds": [list(pair) for pair in pairs],
        "items": [fact["items"] for fact in facts],
        "over_limit": statistics.median(shares) if shares else None,
        "needs": facts[0]["needs"],
        "machine_rates": rates,
    }
    common.say("  " + " | ".join(_cells(measured)[2:]))
    return measured


def _rate(kind: str, ours: Competitor) -> float:
    """What this machine, as busy as it is now, does of something in a second."""
    return float(ours.facts["works"][kind]["items"]) / ours.run(kind)


_LIMITS = {
    "flops": "matrix products of float32 {:,.0f} GFLOP/s",
    "bytes": "copies in memory {:,.0f} GB/s, reads and writes counted",
    "cached_bytes": "copies in the cores' caches {:,.0f} GB/s",
}
HEADER = (
    *("work", "peer", "at least", "ratio", "over the rounds", "met", "same results"),
    *("ours, seconds", "items", "peer, seconds", "items", "ours / this machine's limit"),
)


def report(measured: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown, and the limits that they were compared with."""
    parts = [common.markdown_table(HEADER, [_cells(row) for row in measured])]
    lines = []
    for kind, label in _LIMITS.items():
        found = [rate / 1e9 for row in measured for rate in row["machine_rates"].get(kind, ())]
        if found:
            lines.append(f"{label.format(statistics.median(found))} ({min(found):,.0f} to {max(found):,.0f})")
    if lines:
        parts.append(f"This machine's limits, measured between the turns: {'; '.join(lines)}.")
    return "\n\n".join(parts)


def _cells(row: Mapping[str, Any]) -> list[str]:
    ours, peer = (statistics.median(pair[side] for pair in row["seconds"]) for side in (0, 1))
    target, over = row["at_least"], row["over_limit"]
    return [
        row["work"],
        row["peer"],
        "" if target is None else f"{target:g}×",
        f"{row['ratio']:.3g}×",
        f"{min(row['ratios']):.3g} to {max(row['ratios']):.3g}",
        "" if row["met"] is None else "yes" if row["met"] else "**no**",
        row["same"]["text"] if row["same"]["same"] else f"**DIFFER**: {row['same']['text']}",
        f"{ours:.4g}",
        f"{row['items'][0]:,}",
        f"{peer:.4g}",
        f"{row['items'][1]:,}",
        "" if over is None else f"{over:.1f}",
    ]


# Comparisons


def close(name: str, atol: float) -> Comparison:
    """Compares numbers, as many as the one that did fewer has."""

    def compare(ours: Arrays, peers: Arrays) -> Agreement:
        n = min(len(ours[name]), len(peers[name]))
        far = float(np.abs(ours[name][:n].astype(float) - peers[name][:n]).max(initial=0))
        return Agreement(far <= atol and n > 0, f"{name} within {far:.0e}")

    return compare


def same_sets(name: str, share: float = 1.0) -> Comparison:
    """Compares rows of ids `[n, k]`, padded with -1, whatever their order."""

    def compare(ours: Arrays, peers: Arrays) -> Agreement:
        n = min(len(ours[name]), len(peers[name]))
        equal = [
            set(one) - {-1} == set(other) - {-1} for one, other in zip(ours[name][:n], peers[name][:n], strict=True)
        ]
        found = sum(equal) / max(n, 1)
        return Agreement(found >= share, f"the same {ours[name].shape[1]} for {100 * found:.1f} %")

    return compare


def not_compared(why: str) -> Comparison:
    """Says why the results are not the same."""
    return lambda _ours, _peers: Agreement(True, why)
