"""How many queries a second after encoding, in a batch and one by one, and how far from BM25 and FAISS alone?

Questions of one set are asked of its index. Their vectors are computed beforehand; counting their words is part of the
search. Each competitor is a process of its own with equal threads and its index in memory, and they take turns, so that
a busy machine is busy for all: `bm25s` scores by words alone (its own tokens, `tokenize` included), `faiss` compares
the same vectors by a flat index of inner products. Medians over the rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common as common
from _processes import Competitor, n_threads, serve, timed

K = 10
# The paper's setting compares all pairs of a question's candidates, so fewer questions are asked with it.
PAPER_SHARE = 8

# The processes that are timed.


def serve_gtr(folder: Path, queries: list[str]) -> None:
    """Searches by presets and coarse stages, and the encoder alone."""
    from _stand_ins import Remembered

    from gtr_gpu.config import Config
    from gtr_gpu.index import GTRIndex

    with GTRIndex.load(folder) as opened:
        encoder, built = opened.encoder, opened.config
    index = GTRIndex(folder, encoder=Remembered(queries, encoder))  # type: ignore[arg-type]
    few = queries[:: max(1, len(queries) // 64)][:64]
    part = queries[: max(1, len(queries) // PAPER_SHARE)]
    clusters = built.override({"coarse": "clusters"})
    paper = built.searching_as(Config.preset("paper"))
    scores_all = built.override({"n_seeds": 0, "hops": 0})
    dense = built.override({"transfer": "dense"})
    tasks: dict[str, tuple[Callable[[], object], int]] = {
        "default": (lambda: index.search(queries, K), len(queries)),
        "default, with edges": (lambda: index.search(queries, K, edges=True), len(queries)),
        "default, one by one": (lambda: [index.search([query], K) for query in few], len(few)),
        "coarse=clusters": (lambda: index.search(queries, K, config=clusters), len(queries)),
        "transfer=dense": (lambda: index.search(part, K, config=dense), len(part)),
        "n_seeds=0 hops=0 (a walk over all tables)": (lambda: index.search(few, K, config=scores_all), len(few)),
        "paper's search knobs": (lambda: index.search(part, K, config=paper), len(part)),
        "encoding": (lambda: encoder.encode_queries(queries), len(queries)),
    }
    facts = {"counts": {name: count for name, (_, count) in tasks.items()}, "tables": index.n_tables}
    serve({name: (lambda work=work: timed(work)) for name, (work, _) in tasks.items()}, facts)  # type: ignore[misc]


def serve_bm25s(folder: Path, queries: list[str]) -> None:
    """BM25 over caption, description, header and cells, by bm25s."""
    import bm25s

    from gtr_gpu.index import GTRIndex
    from gtr_gpu.linearize import heuristic_fields

    with GTRIndex.load(folder) as opened:
        texts = [" ".join(heuristic_fields(table, opened.config)) for table in opened]
    retriever = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    retriever.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    k, threads = min(K, len(texts)), n_threads()

    def search() -> None:
        tokens = bm25s.tokenize(queries, show_progress=False)
        retriever.retrieve(tokens, k=k, show_progress=False, n_threads=threads)

    serve({"bm25s": lambda: timed(search)}, {"counts": {"bm25s": len(queries)}})


def serve_faiss(folder: Path, queries: list[str]) -> None:
    """Cosines with all tables by a flat FAISS index."""
    import torch

    from gtr_gpu.index import GTRIndex
    from gtr_gpu.snapshot import Snapshot
    from gtr_gpu.storage import IndexFolder

    files = IndexFolder(folder)
    snapshot = files.open_snapshot(lambda manifest: Snapshot.open(files, manifest, torch.device("cpu")))
    features = torch.cat([segment.semantic.float() for segment in snapshot.segments]).numpy()
    with GTRIndex.load(folder) as opened:
        asked = opened.encoder.encode_queries(queries)[0].numpy()

    import faiss

    faiss.omp_set_num_threads(n_threads())
    index = faiss.IndexFlatIP(features.shape[1])
    index.add(features)
    serve({"faiss": lambda: timed(lambda: index.search(asked, K))}, {"counts": {"faiss": len(queries)}})


SERVERS = {"gtr": serve_gtr, "bm25s": serve_bm25s, "faiss": serve_faiss}


def measure(options: Namespace, name: str) -> dict[str, Any]:
    """Asks one set's questions of all competitors, in turn."""
    folder = options.index or common.index_of(options.data, options.indexes, name, options.limit)
    queries = common.sampled_questions(options.data, name, options.batch)
    cores = common.machine()["cores"]
    competitors = []
    for server in SERVERS:
        common.say(f"{name}: starting {server}")
        command = [__file__, "--serve", server, "--index", str(folder)]
        competitors.append(Competitor(server, command, options.threads or cores, queries))
    seconds: dict[str, list[float]] = {task: [] for each in competitors for task in each.tasks}
    counts: dict[str, int] = {}
    for each in competitors:
        counts |= each.facts["counts"]
    for number in range(options.rounds):
        common.say(f"{name}: round {number + 1} of {options.rounds}")
        for each in competitors:
            for task in each.tasks:
                seconds[task].append(each.run(task))
    for each in competitors:
        each.end()
    return {
        "set": name,
        "tables": competitors[0].facts["tables"],
        "batch": len(queries),
        "threads": options.threads or cores,
        "tasks": [
            {
                "task": task,
                "questions": counts[task],
                "seconds": took,
                "per_second": counts[task] / statistics.median(took),
                # Each round's ratio, and then the median, so that a busy moment counts on both sides.
                "relative_to_default": statistics.median(
                    (one / counts[task]) / (other / counts["default"])
                    for one, other in zip(took, seconds["default"], strict=True)
                ),
            }
            for task, took in seconds.items()
        ],
    }


def report(measured: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    parts = []
    for one in measured:
        rows = [
            [
                task["task"],
                task["questions"],
                f"{task['per_second']:,.0f}",
                f"{task['questions'] / max(task['seconds']):,.0f} to {task['questions'] / min(task['seconds']):,.0f}",
                f"{task['relative_to_default']:.2f}",
            ]
            for task in one["tasks"]
        ]
        parts.append(
            f"{one['set']}: {one['tables']:,} tables, a batch of {one['batch']} questions, {K} tables each, "
            f"{one['threads']} threads"
        )
        header = ["search", "questions", "a second", "over the rounds", "time of a question, default = 1"]
        parts.append(common.markdown_table(header, rows))
    return "\n\n".join(parts)


def main() -> int:
    """Runs the benchmark, or one of its processes."""
    parser = common.parser(__doc__, sets=("tabfact",))
    parser.add_argument("--batch", type=int, default=512, help="questions asked at once")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed")
    parser.add_argument("--threads", type=int, help="threads of each process (default: as many as there are cores)")
    parser.add_argument("--index", type=Path, help="take this index, with the questions of the one set named by --sets")
    parser.add_argument("--serve", choices=SERVERS, help="be one of the processes that are timed (internal)")
    options = parser.parse_args()
    if options.serve:
        SERVERS[options.serve](options.index, json.loads(sys.stdin.readline()))
        return 0
    measured = [measure(options, name) for name in options.sets]
    common.write_results(options.results, "search", __doc__, options.limit, {"sets": measured}, report(measured))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
