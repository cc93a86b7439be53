"""How do memory and time grow with the number of tables, and what do clusters save?

Corpora of several sizes are made of the real tables of all sets: beyond the real ones, a table is a random part of a
real one with some of its words changed, so that the vocabulary grows on. Their vectors are sums of word hashes and no
encoder runs: this is about everything but the encoder, and says nothing about quality. Each size is built and searched
in a process of its own; `flat` scores all tables, `clusters` only those of the probed clusters. The share of equal
tables is that of the 10 best by both.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import _common as common

SIZES = (2_000, 10_000, 50_000)
K = 10
BATCH = 256
# Shares of a real table's rows and columns that a variant keeps, and of its words that it changes.
KEPT, CHANGED = 0.7, 0.15


def write_tables(options: Namespace, n_tables: int, path: Path) -> None:
    """Writes so many tables as JSON lines: the real ones of all sets first, then variants of them."""
    real = [table for name in options.sets for table in common.read_lines(common.tables_of(options.data, name))]
    dice = random.Random(0)
    dice.shuffle(real)
    with path.open("w", encoding="utf-8") as file:
        for number in range(n_tables):
            turn = number // len(real)
            table = real[number % len(real)]
            made = variant(table, turn, dice) if turn else {key: table[key] for key in ("caption", "header", "rows")}
            file.write(json.dumps({"table_id": f"made-{number}", **made}) + "\n")


def variant(table: dict[str, Any], turn: int, dice: random.Random) -> dict[str, Any]:
    """A part of a table's rows and columns, the first column among them, with some words changed."""
    columns = [column for column in range(len(table["header"])) if not column or dice.random() < KEPT]

    def changed(text: str) -> str:
        return " ".join(f"{word}{turn}x" if dice.random() < CHANGED else word for word in text.split(" "))

    return {
        "caption": changed(table["caption"]),
        "header": [table["header"][column] for column in columns],
        "rows": [
            [changed(row[column]) for column in columns if column < len(row)]
            for row in table["rows"]
            if dice.random() < KEPT
        ],
    }


def build_and_search(options: Namespace) -> dict[str, Any]:
    """Builds an index of one corpus, opens it and searches it: what one process does."""
    import torch
    from _stand_ins import HashEncoder

    from gtr_gpu import changes
    from gtr_gpu.cli.summary import peak_memory
    from gtr_gpu.config import Config
    from gtr_gpu.index import GTRIndex
    from gtr_gpu.progress import Clock
    from gtr_gpu.storage import IndexFolder
    from gtr_gpu.tables import ReadReport, read_sources

    config, clock = Config().override(options.set or ()), Clock()
    queries = [text for name in options.sets for text in common.sampled_questions(options.data, name, BATCH)]
    queries = queries[:: max(1, len(queries) // BATCH)][:BATCH]
    with tempfile.TemporaryDirectory(prefix="gtr-scale-") as temporary:
        folder = Path(temporary) / "index"
        tables = read_sources([options.one], config=config, report=ReadReport())
        start = time.perf_counter()
        changes.build(
            IndexFolder(folder),
            tables,
            config,
            HashEncoder,  # type: ignore[arg-type]
            overwrite=False,
            seed=0,
            progress=clock,
        )
        seconds = time.perf_counter() - start
        built = peak_memory()
        index = GTRIndex(folder, encoder=HashEncoder())  # type: ignore[arg-type]
        found: dict[str, torch.Tensor] = {}
        times: dict[str, list[float]] = {"flat": [], "clusters": []}
        candidates = {}
        for _ in range(options.rounds + 1):
            for coarse, took in times.items():
                start = time.perf_counter()
                result = index.search(queries, K, config=index.config.override({"coarse": coarse}))
                took.append(time.perf_counter() - start)
                found[coarse], candidates[coarse] = result.ids, float(result.candidates.float().mean())
        same = (found["flat"][:, :, None] == found["clusters"][:, None, :]).any(2) & (found["flat"] >= 0)
        return {
            "tables": index.n_tables,
            "terms": index.info()["terms"],
            "clusters": index.info()["clusters"],
            "segments": index.info()["segments"],
            "seconds": seconds,
            "stage_seconds": dict(clock.seconds),
            "peak_memory_build_bytes": built,
            "peak_memory_bytes": peak_memory(),
            "index_bytes": sum(file.stat().st_size for file in folder.iterdir()),
            "questions": len(queries),
            "first_search_seconds": {coarse: took[0] for coarse, took in times.items()},
            "per_second": {coarse: len(queries) / statistics.median(took[1:]) for coarse, took in times.items()},
            "mean_candidates": candidates,
            "equal_share": float(same.sum() / (found["flat"] >= 0).sum()),
        }


def report(measured: list[dict[str, Any]]) -> str:
    """The figures as Markdown; times as ratios to the smallest corpus, which the machine's speed cancels out of."""
    first = measured[0]
    each = first["seconds"] / first["tables"]
    rows = [
        [
            f"{one['tables']:,}",
            f"{one['terms']:,}",
            f"{1000 * one['seconds'] / one['tables']:.2f} ms",
            f"{one['seconds'] / one['tables'] / each:.2f}",
            common.megabytes(one["peak_memory_build_bytes"]),
            common.megabytes(one["index_bytes"]),
            f"{one['per_second']['flat']:,.0f}",
            f"{one['per_second']['clusters'] / one['per_second']['flat']:.2f}",
            common.percent(one["equal_share"]),
        ]
        for one in measured
    ]
    header = ["tables", "terms", "build, a table", "relative", "peak memory", "index", "flat, questions a second"]
    header += ["clusters / flat", "equal tables in the 10 best"]
    stages = [
        [stage, *(f"{1000 * one['stage_seconds'][stage] / one['tables']:.3f}" for one in measured)]
        for stage in first["stage_seconds"]
    ]
    sizes = [f"{one['tables']:,}" for one in measured]
    return "\n\n".join(
        [
            common.markdown_table(header, rows),
            "Milliseconds a table, by stage:",
            common.markdown_table(["stage", *sizes], stages),
        ]
    )


def main() -> int:
    """Runs the benchmark, or the process of one size."""
    parser = common.parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of tables")
    parser.add_argument("--rounds", type=int, default=3, help="how often each search is timed")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="a knob of the build")
    parser.add_argument("--one", type=Path, help="be the process that builds and searches one corpus (internal)")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(build_and_search(options)))
        return 0
    sizes = [min(size, options.limit or size) for size in options.sizes]
    knobs = [part for assignment in options.set or () for part in ("--set", assignment)]
    measured = []
    for size in sorted(set(sizes)):
        common.say(f"{size:,} tables")
        with tempfile.TemporaryDirectory(prefix="gtr-scale-") as temporary:
            corpus = Path(temporary) / "tables.jsonl"
            # By a process of its own: a child's peak memory is at least what its parent holds.
            writer = multiprocessing.get_context("spawn").Process(target=write_tables, args=(options, size, corpus))
            writer.start()
            writer.join()
            if writer.exitcode:
                return 1
            command = [sys.executable, __file__, "--one", str(corpus), "--data", str(options.data), *knobs]
            command += ["--rounds", str(options.rounds), "--sets", *options.sets]
            measured.append(json.loads(common.run_measured(command).output))
    facts = {"sizes": measured, "knobs": options.set or []}
    common.write_results(options.results, "scale", __doc__, options.limit, facts, report(measured))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
