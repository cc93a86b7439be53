"""What is each part of the default preset worth?

The default preset with one knob changed, on the questions of the tune split: how many more or fewer of them, in points,
have all their gold tables among the first ten than with the default. So the choice of a part was made, and no figure
here is one to report. Each task is asked the same sample of questions.
"""

from __future__ import annotations

from pathlib import Path

import _common as common
import quality

from gtr_gpu.config import EDGE_KINDS, Config
from gtr_gpu.evaluation.corpus import ask, blind
from gtr_gpu.evaluation.encodings import Encodings
from gtr_gpu.evaluation.methods.gtr import GTR
from gtr_gpu.evaluation.methods.method import Resources
from gtr_gpu.evaluation.metrics import measure
from gtr_gpu.multitableqa.task import read_task
from gtr_gpu.progress import Silent

TASKS = (
    *("single_hop/published", "single_hop/withheld", "multi_hop_5523/published", "multi_hop_5523/withheld"),
    *("single_hop/whole", "tatqa/whole"),
)
_NO_EDGES = {f"weight_{kind}": 0.0 for kind in EDGE_KINDS}
CHANGES: dict[str, dict[str, object]] = {
    "scores of tables alone, mixed, no edges": {"personalization": "mixed", "hops": 0, "damping": 0.0, **_NO_EDGES},
    "scores of tables alone, mixed, then the walk": {"personalization": "mixed"},
    "pooled scores, no edges": _NO_EDGES,
    "pooled scores, no walk": {"damping": 0.0},
    "a longer walk, damping=0.8": {"damping": 0.8},
    **{f"without {kind} edges": {f"weight_{kind}": 0.0} for kind in EDGE_KINDS},
    "without BM25": {"pooled_bm25": 0.0},
    "without the share of words": {"pooled_words": 0.0},
    "without phrases": {"pooled_phrases": 0.0},
    "without cosines": {"pooled_cosine": 0.0},
    "candidates without their neighbours, hops=0": {"hops": 0},
    "n_seeds=50": {"n_seeds": 50},
    "n_seeds=100": {"n_seeds": 100},
    "n_seeds=400": {"n_seeds": 400},
    "n_seeds=800": {"n_seeds": 800},
    "seeds by cosine alone, mix=1": {"mix": 1.0},
    "seeds by BM25 alone, mix=0": {"mix": 0.0},
    "bm25_k1=0.9, bm25_b=0.4": {"bm25_k1": 0.9, "bm25_b": 0.4},
}


def accuracies(folder: Path, resources: Resources, sample: int) -> dict[str, float]:
    """Acc@10 of the default preset and of each change of it, in %."""
    task = read_task(folder)
    corpus = blind(task)
    asked = ask(task, corpus, "built", "tune", sample)
    found = {}
    for name, change in {"default": {}, **CHANGES}.items():
        method = GTR(name, Config().override(change), resources)  # type: ignore[arg-type]
        method.index(corpus.tables)
        ranking = method.rank(asked.texts, 10)
        found[name] = 100 * float(measure(ranking.ids, asked.gold, (10,))["Acc@10"].mean())
    return found


def main() -> int:
    """Measures each change on each task."""
    parser = quality.parser(__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--sample", type=int, default=600, help="tune questions of each task")
    options = parser.parse_args()
    resources = Resources(
        Encodings(options.encodings or options.work / "encodings"), options.work / "indexes", Silent()
    )
    tasks = {}
    for folder in quality.built(options):
        name = folder.parent.name.removesuffix(f"_{options.limit}") + f"/{folder.name}"
        if name in options.tasks:
            common.say(name)
            tasks[name] = accuracies(folder, resources, options.sample)
    rows = [["default", *(f"{found['default']:.1f}" for found in tasks.values())]]
    rows += [[name, *(f"{found[name] - found['default']:+.1f}" for found in tasks.values())] for name in CHANGES]
    text = common.markdown_table(["", *tasks], rows)
    common.write_results(options.results, "ablations", __doc__, options.limit, {"accuracies": tasks}, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
