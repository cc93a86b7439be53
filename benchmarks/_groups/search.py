"""Whole searches after encoding in 45,000 tables (TabFact's cut in three by rows), against BM25 and FAISS alone.

To encode so many tables takes an hour without a GPU, so their vectors are stand-ins: sums of one random vector for each
word of a table's text, of 384 numbers and unit length, and the questions' likewise. That says nothing about quality;
the work is the same. A search counts a question's words, scores all tables both ways, widens, walks and takes ten.
`bm25s` (Numba) tokenizes the questions and takes its ten best by words alone; FAISS compares the same vectors by a flat
index and no more.

One by one, ours is a call for each question, and its ten tables are compared with those of the reference's batch.
"""

from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
from _contest import Row, Sizes, Work, Works, not_compared, same_sets
from _processes import n_threads

K = 10
PIECES = 3


def prepare(options: Namespace, sizes: Sizes, folder: Path) -> None:
    """Builds the index, unless an earlier run has, and writes the questions, the tables' texts and the vectors."""
    import torch
    from _stand_ins import HashEncoder

    from gtr_gpu.index import GTRIndex
    from gtr_gpu.linearize import heuristic_fields
    from gtr_gpu.snapshot import Snapshot
    from gtr_gpu.storage import IndexFolder

    name = options.sets[0]
    where = common.index_folder(options.indexes, f"{name}-thirds", sizes.limit)
    if not (where / "manifest.json").is_file():
        _build(common.tables_of(options.data, name), where, sizes.limit)
    queries = common.sampled_questions(options.data, name, sizes.batch)
    vectors, _ = HashEncoder().encode_queries(queries)
    files = IndexFolder(where)
    snapshot = files.open_snapshot(lambda manifest: Snapshot.open(files, manifest, torch.device("cpu")))
    features = torch.cat([segment.semantic.float() for segment in snapshot.segments])
    np.savez(folder / "vectors.npz", tables=features.numpy(), queries=vectors.numpy())
    with GTRIndex.load(where) as index:
        texts = [" ".join(heuristic_fields(table, index.config)) for table in index]
    (folder / "texts.json").write_text(json.dumps({"index": str(where), "queries": queries, "tables": texts}))


def _build(tables: Path, where: Path, limit: int | None) -> None:
    """Indexes the pieces of so many tables, with vectors of word hashes."""
    from _stand_ins import HashEncoder

    from gtr_gpu import changes
    from gtr_gpu.config import Config
    from gtr_gpu.storage import IndexFolder
    from gtr_gpu.tables import read_sources

    common.say("search: building the index")
    where.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gtr-thirds-") as temporary:
        path = Path(temporary) / "tables.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for number, table in enumerate(common.read_lines(tables)):
                if number == limit:
                    break
                step = -(-max(len(table["rows"]), 1) // PIECES)
                for piece, start in enumerate(range(0, max(len(table["rows"]), 1), step)):
                    part = {"table_id": f"{number}-{piece}", "rows": table["rows"][start : start + step]}
                    file.write(json.dumps({"caption": table["caption"], "header": table["header"], **part}) + "\n")
        # The structural features cost the most and no default search reads them: counts without a tagger will do.
        config = Config().override({"spacy_model": "blank:en"})
        stream = read_sources([path], config=config)
        changes.build(
            IndexFolder(where),
            stream,
            config,
            HashEncoder,  # type: ignore[arg-type]
            overwrite=True,
            seed=0,
            progress=None,
        )


def _load(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return json.loads((folder / "texts.json").read_text()), dict(np.load(folder / "vectors.npz"))


def _few(sizes: Sizes, queries: Sequence[Any]) -> list[int]:
    """The numbers of the questions that are asked one by one."""
    return list(range(0, len(queries), max(1, len(queries) // sizes.single)))[: sizes.single]


def gtr(folder: Path, sizes: Sizes) -> Works:
    """Our search in a batch and one by one, and the same by the reference's operations."""
    from _stand_ins import HashEncoder, Remembered

    from gtr_gpu.index import GTRIndex
    from gtr_gpu.ops.dispatch import use

    texts, _ = _load(folder)
    queries = texts["queries"]
    index = GTRIndex(texts["index"], encoder=Remembered(queries, HashEncoder()))  # type: ignore[arg-type]
    few = [queries[number] for number in _few(sizes, queries)]

    def batch(asked: list[str] = queries) -> np.ndarray:
        return index.search(asked, K).ids.numpy()

    def single() -> np.ndarray:
        return np.concatenate([index.search([query], K).ids.numpy() for query in few])

    def by_reference(run: Callable[[], np.ndarray]) -> Callable[[], np.ndarray]:
        def referred() -> np.ndarray:
            with use("reference"):
                return run()

        return referred

    def ids(found: np.ndarray) -> dict[str, np.ndarray]:
        return {"ids": found}

    # All cosines are computed, for a batch from features in the cache, for one question from bf16 ones in memory.
    products = 2.0 * index.n_tables * HashEncoder.dimension * len(queries)
    read = 2.0 * index.n_tables * HashEncoder.dimension * len(few)
    return {
        "batch": Work(batch, len(queries), ids, {"flops": products}),
        "single": Work(single, len(few), ids, {"bytes": read}),
        "reference batch": Work(by_reference(batch), len(queries), ids),
        "reference single": Work(by_reference(single), len(few), ids),
        "few": Work(by_reference(lambda: batch(few)), len(few), ids),
    }


def bm25s(folder: Path, sizes: Sizes) -> Works:
    """BM25 over caption, header and cells by bm25s."""
    import bm25s

    texts, _ = _load(folder)
    retriever = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend="numba")
    retriever.index(bm25s.tokenize(texts["tables"], show_progress=False), show_progress=False)
    k = min(K, len(texts["tables"]))

    def run() -> object:
        tokens = bm25s.tokenize(texts["queries"], show_progress=False)
        return retriever.retrieve(tokens, k=k, show_progress=False, n_threads=n_threads())

    return {"batch": Work(run, len(texts["queries"]))}


def faiss(folder: Path, sizes: Sizes) -> Works:
    """Cosines with all tables by a flat FAISS index."""
    import faiss

    faiss.omp_set_num_threads(n_threads())
    _, vectors = _load(folder)
    tables, queries = vectors["tables"], vectors["queries"]
    index = faiss.IndexFlatIP(tables.shape[1])
    index.add(tables)
    few = queries[_few(sizes, queries)]

    def single() -> None:
        for query in few:
            index.search(query[None], K)

    return {"batch": Work(lambda: index.search(queries, K), len(queries)), "single": Work(single, len(few))}


COMPETITORS: dict[str, Callable[[Path, Sizes], Works]] = {"gtr": gtr, "bm25s": bm25s, "faiss": faiss}


def rows(sizes: Sizes) -> list[Row]:
    """The pairs to compare."""
    batch, single = f"search, a batch of {sizes.batch}", "search, one by one"
    less = not_compared("does less, and finds other tables")
    same = same_sets("ids", 0.99)
    return [
        Row(batch, "gtr/batch", "gtr/reference batch", "our reference in torch", same, 2),
        Row(batch, "gtr/batch", "bm25s/batch", "bm25s alone", less, 0.5),
        Row(batch, "gtr/batch", "faiss/batch", "FAISS flat alone", less, 0.5),
        Row(single, "gtr/single", "gtr/reference single", "our reference in torch", same, 2),
        Row(single, "gtr/single", "gtr/few", "our reference, those questions at once", same),
        Row(single, "gtr/single", "faiss/single", "FAISS flat alone", less, 1),
    ]
