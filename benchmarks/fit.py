"""Where the default preset's numbers come from: fits them to the tune split of built benchmarks, and prints them.

1. What evidence says of an edge (`gtr_gpu.graph`): a logistic regression over pairs of neighbouring tables, of which
   one at least is of the tune split, on whether they come from one source table.
2. What the parts of a pooled score count (`pooled_bm25` and its kin, `temperature`): a softmax regression over each
   tune question's candidates, on which are its gold tables, given the graph as it is.

With `--hold-out`, numbers are fitted without one task and its questions' likelihood by them is compared with that by
numbers of its own: what a corpus that was never seen would lose.

    python benchmarks/fit.py --hold-out
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import quality
import torch
from _common import say
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from gtr_gpu.coarse import find_candidates
from gtr_gpu.config import Config
from gtr_gpu.evaluation.corpus import ask, blind
from gtr_gpu.evaluation.encodings import Encodings
from gtr_gpu.evaluation.methods.gtr import GTR
from gtr_gpu.evaluation.methods.method import Resources
from gtr_gpu.fine import pooled_scores
from gtr_gpu.graph import LOG_ODDS, pair_evidence
from gtr_gpu.multitableqa.task import Task, read_task
from gtr_gpu.ops.transfer import induced_transfer
from gtr_gpu.progress import Silent

PARTS = ("pooled_bm25", "pooled_words", "pooled_phrases", "pooled_cosine")
_REGULARIZATION = 10.0


@dataclass
class Fitted:
    """What one task and protocol give to fit to.

    Attributes:
        task: The task's name.
        evidence: What holds of each pair, `[P, E]`, in the order of `LOG_ODDS`.
        parts_of_one: Whether a pair comes from one source table, `[P]`.
        weights: How many of the pair's tables are of the tune split, halved, so that pairs of one table and others are
            drawn alike, `[P]`.
        scores: For each question the parts of its candidates' scores, `[C, 4]`.
        gold: For each question which candidates are gold, `[C]`.
    """

    task: str
    evidence: np.ndarray
    parts_of_one: np.ndarray
    weights: np.ndarray
    scores: list[Tensor]
    gold: list[Tensor]


@torch.no_grad()
def collect(task: Task, resources: Resources, sample: int) -> Fitted:
    """Indexes a task and looks at its neighbours and its tune questions' candidates."""
    config = Config()
    corpus = blind(task)
    method = GTR("gtr-default", config, resources)
    method.index(corpus.tables)
    stage = method.coarse_stage()
    snapshot = stage.snapshot
    pairs, found = pair_evidence(snapshot.out_edges, snapshot.signatures, snapshot.alive)
    places = corpus.places.tolist()
    tune = torch.tensor([task.splits[place] == "tune" for place in places])
    numbers = {source: number for number, source in enumerate(dict.fromkeys(task.sources))}
    sources = torch.tensor([numbers[task.sources[place]] for place in places])
    low, high = pairs // snapshot.n_tables, pairs % snapshot.n_tables
    weights = (tune[low].double() + tune[high].double()) / 2
    seen = weights > 0
    evidence = torch.stack([found[name] for name in LOG_ODDS], 1)[seen]
    asked = ask(task, corpus, "built", "tune", sample)
    scores, gold = [], []
    start = 0
    for block in stage.read(asked.texts, config, 1):
        candidates = find_candidates(block, snapshot, config, 1).tables
        transfer = induced_transfer(candidates, snapshot.graph(config))
        columns = []
        for part in PARTS:
            only = config.override({name: float(name == part) for name in PARTS})
            columns.append(pooled_scores(block, candidates, transfer, snapshot, only))
        parts = torch.stack(columns, 1)
        for row in range(len(block)):
            first, last = int(candidates.offsets[row]), int(candidates.offsets[row + 1])
            right = torch.isin(candidates.values[first:last], asked.gold[start + row])
            if right.any():
                scores.append(parts[first:last])
                gold.append(right)
        start += len(block)
    same = (sources[low] == sources[high])[seen]
    return Fitted(task.name, evidence.numpy(), same.numpy(), weights[seen].numpy(), scores, gold)


def fit_edges(sets: Sequence[Fitted]) -> tuple[float, np.ndarray, float]:
    """The bias, the log-odds of each piece of evidence, and the share of pairs that are parts of one table."""
    labels = np.concatenate([one.parts_of_one for one in sets])
    # Each set counts alike, however many tables it has.
    weights = np.concatenate([one.weights * len(labels) / len(sets) / one.weights.sum() for one in sets])
    model = LogisticRegression(C=_REGULARIZATION, max_iter=5000)
    model.fit(np.concatenate([one.evidence for one in sets]), labels, weights)
    return float(model.intercept_[0]), model.coef_[0], float(np.average(labels, weights=weights))


def fit_scores(sets: Sequence[Fitted]) -> Tensor:
    """What each part of a score counts, `[4]`: the greatest likelihood of gold tables under a softmax."""
    counts = torch.ones(len(PARTS), requires_grad=True)
    optimizer = torch.optim.LBFGS([counts], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.stack([unlikelihood(one, counts) for one in sets]).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[arg-type]
    return counts.detach()


def unlikelihood(one: Fitted, counts: Tensor) -> Tensor:
    """The mean of -log p of the gold tables among each question's candidates."""
    lost = []
    for parts, gold in zip(one.scores, one.gold, strict=True):
        shares = torch.log_softmax(parts @ counts, 0)
        lost.append(-shares[gold].mean())
    return torch.stack(lost).mean()


def describe(counts: Tensor) -> str:
    """The counts as knobs: shares that add up to 1, and the temperature that the softmax has then."""
    total = float(counts.sum())
    shares = ", ".join(f"{name}={value / total:.2f}" for name, value in zip(PARTS, counts.tolist(), strict=True))
    return f"{shares}, temperature={1 / total:.3f}"


def main() -> int:
    """Prints what was fitted."""
    parser = quality.parser(__doc__)
    parser.add_argument("--tasks", nargs="+", default=["tfv", "single_hop", "multi_hop"])
    parser.add_argument("--sample", type=int, default=600, help="tune questions of each task and protocol")
    parser.add_argument("--hold-out", action="store_true", help="also fit without each task by turns")
    options = parser.parse_args()
    encodings = Encodings(options.encodings or options.work / "encodings")
    resources = Resources(encodings, options.work / "indexes", Silent())
    sets = []
    for folder in quality.built(options):
        name = folder.parent.name.removesuffix(f"_{options.limit}")
        if name in options.tasks and folder.name in quality.PROTOCOLS:
            sets.append(collect(read_task(folder), resources, options.sample))
            pairs, questions = len(sets[-1].weights), len(sets[-1].scores)
            say(f"{name}/{folder.name}: {pairs:,} pairs, {questions:,} questions")
    bias, log_odds, share = fit_edges(sets)
    say(f"\nBIAS = {bias:.1f}, SHARE = {share:.2f}")
    for (kind, what), value in zip(LOG_ODDS, log_odds, strict=True):
        say(f"{kind:10} {what:10} {value:5.1f}   (in use: {LOG_ODDS[kind, what]:.1f})")
    say(f"\n{describe(fit_scores(sets))}")
    if options.hold_out:
        for name in options.tasks:
            others, own = [one for one in sets if one.task != name], [one for one in sets if one.task == name]
            foreign, mine = fit_scores(others), fit_scores(own)
            lost = [float(torch.stack([unlikelihood(one, c) for one in own]).mean()) for c in (foreign, mine)]
            say(f"without {name}: {describe(foreign)}; -log p of its gold {lost[0]:.3f}, by its own {lost[1]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
