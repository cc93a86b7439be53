"""Sparse works on the words of real tables: k-means and nearest neighbours of TF-IDF rows, and BM25 of questions.

The rows are ours for all (words of caption, header and cells; unit length, float32, CSR), and so are the counts and the
word numbers of the questions, stop words left out. Transposed matrices are made beforehand for all.

Neighbours are those with the highest dot product, of all words, and once more of words that at most 500 tables hold,
as the graph takes them. SciPy multiplies 512 rows at a time, then takes the best by `argpartition`; sparse_dot_topn is
asked for one more, which is the row itself. BM25 (Lucene's, k1 = 1.2, b = .75) ends with the ten best of a question;
what a word's occurrences count was computed beforehand, as bm25s does too.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
from _contest import Agreement, Arrays, Row, Sizes, Work, Works
from _processes import n_threads

from _groups.clusters import fitted, same_clusters

CLUSTERS, ROUNDS = 64, 10
NEIGHBORS, MAX_COMMON = 3, 500
BEST = 10
K1, B = 1.2, 0.75
_BLOCK = 512
_ASKED = 256


def prepare(options: Namespace, sizes: Sizes, folder: Path) -> None:
    """Counts the words of tables and questions."""
    import torch

    from gtr_gpu.config import Config
    from gtr_gpu.features.heuristic import Vocabulary, count_queries, count_terms, stop_words_of, tfidf
    from gtr_gpu.linearize import heuristic_fields
    from gtr_gpu.ragged import SparseMatrix
    from gtr_gpu.tables import read_sources

    config, vocabulary = Config(), Vocabulary()
    name = options.sets[0]
    tables = read_sources([common.tables_of(options.data, name)], config=config, limit=sizes.limit)
    counted = count_terms((heuristic_fields(table, config) for table in tables), vocabulary)
    counts = counted.counts
    frequency = torch.bincount(counts.columns.values, minlength=counts.n_columns)
    rows = tfidf(counts, frequency, counts.shape[0])
    texts = common.sampled_questions(options.data, name, sizes.questions)
    asked = count_queries(texts, vocabulary, stop_words=stop_words_of("auto"))
    kept = ((frequency > 1) & (frequency <= MAX_COMMON))[rows.columns.values]
    few = SparseMatrix.from_entries(rows.row_ids()[kept], rows.columns.values[kept], rows.weights[kept], rows.shape)
    arrays = {"lengths": counted.lengths, "frequency": frequency}
    for label, matrix in (("counts", counts), ("rows", rows), ("few", few), ("asked", asked)):
        arrays |= {
            f"{label}_offsets": matrix.columns.offsets,
            f"{label}_columns": matrix.columns.values,
            f"{label}_weights": matrix.weights,
            f"{label}_width": torch.tensor(matrix.n_columns),
        }
    np.savez(folder / "texts.npz", **{label: array.numpy() for label, array in arrays.items()})


def _load(folder: Path) -> Arrays:
    return dict(np.load(folder / "texts.npz"))


def _first(arrays: Arrays) -> np.ndarray:
    """The rows that are the first centroids."""
    n = len(arrays["rows_offsets"]) - 1
    filled = np.flatnonzero(np.diff(arrays["rows_offsets"]))
    return np.sort(np.random.default_rng(0).choice(filled, min(CLUSTERS, n // 2), replace=False))


# Ours


def gtr(folder: Path, sizes: Sizes) -> Works:
    """Our operations."""
    import torch

    from gtr_gpu.clustering import KMeansResult, kmeans
    from gtr_gpu.ops.dispatch import use
    from gtr_gpu.ops.lexical import bm25_weights, posting_scores
    from gtr_gpu.ops.seeds import best_mixed
    from gtr_gpu.ops.sparse_top_m import sparse_top_m
    from gtr_gpu.ragged import Ragged, SparseMatrix

    arrays = {name: torch.from_numpy(array) for name, array in _load(folder).items()}

    def matrix(name: str) -> SparseMatrix:
        columns = Ragged(arrays[f"{name}_columns"], arrays[f"{name}_offsets"])
        return SparseMatrix(columns, arrays[f"{name}_weights"], int(arrays[f"{name}_width"]))

    def by_reference(work: Work) -> Work:
        def run() -> Any:  # noqa: ANN401 (what the work gives)
            with use("reference"):
                return work.run()

        return Work(run, work.items, work.result)

    rows, few, asked, postings = matrix("rows"), matrix("few"), matrix("asked"), matrix("counts").transpose()
    n_tables, frequency, lengths = rows.shape[0], arrays["frequency"], arrays["lengths"]
    chosen = torch.from_numpy(_first(_load(folder)))
    starts = torch.zeros(len(chosen), rows.n_columns)
    for place, row in enumerate(chosen.tolist()):
        part = rows.slice(row, row + 1)
        starts[place, part.columns.values.long()] = part.weights
    works = {
        "k-means": Work(
            lambda: kmeans(
                rows,
                len(starts),
                init=starts,
                n_starts=1,
                max_iterations=ROUNDS,
                tolerance=0.0,
                sample_per_cluster=0,
            ),
            n_tables,
            lambda found: _clusters(found),
            # For each entry a row of centroids is read; in each round sums are written, read, and made centroids.
            {
                "cached_bytes": 4.0 * rows.weights.numel() * len(starts) * (ROUNDS + 1),
                "bytes": 20.0 * starts.numel() * ROUNDS,
            },
        )
    }

    def _clusters(found: KMeansResult) -> Arrays:
        return {"labels": found.labels.numpy(), "inertia": np.array([found.inertia])}

    own = torch.arange(n_tables)
    for name, vectors in (("all", rows), ("rare", few)):
        pairs = float(vectors.columns.values.bincount(minlength=vectors.n_columns).double().square().sum())
        works[f"neighbours {name}"] = Work(
            lambda vectors=vectors: sparse_top_m(vectors, vectors, NEIGHBORS, own),
            n_tables,
            lambda found: {"ids": found[0].numpy(), "similarity": found[1].clamp_min(0).numpy()},
            # An id and a weight are read for each product that isn't 0.
            {"bytes": 8 * pairs},
        )

    weighted = bm25_weights(postings, lengths, float(lengths.double().mean()), K1, B)
    blocks = [
        asked.slice(start, min(start + _ASKED, len(asked.columns))) for start in range(0, len(asked.columns), _ASKED)
    ]
    buffer = torch.empty(_ASKED, n_tables)

    def lexical() -> list[torch.Tensor]:
        best = []
        for block in blocks:
            scores = buffer[: len(block.columns)]
            posting_scores(block, weighted, frequency, n_tables, out=scores)
            _, found = best_mixed(scores, None, None, 1.0, BEST)
            best.append(found.view(len(scores), -1).sort(1, descending=True).values)
        return best

    touched = float(frequency[asked.columns.values].sum())
    works["lexical"] = Work(
        lexical,
        len(asked.columns),
        lambda found: {"scores": torch.cat(found).numpy()},
        # An id and a count are read for each occurrence; a score is written and looked at.
        {"bytes": 8 * touched + 8.0 * len(asked.columns) * n_tables},
    )
    return works | {f"reference {name}": by_reference(work) for name, work in works.items()}


# Peers


def scikit_learn(folder: Path, sizes: Sizes) -> Works:
    """scikit-learn's k-means on CSR."""
    from sklearn.cluster import KMeans

    arrays = _load(folder)
    rows = _csr(arrays, "rows")
    first = rows[_first(arrays)].toarray()

    def run() -> Any:  # noqa: ANN401 (scikit-learn has no types)
        return fitted(KMeans(len(first), init=first, n_init=1, max_iter=ROUNDS, tol=0), rows)

    def clusters(found: Any) -> Arrays:  # noqa: ANN401
        return {"labels": found.labels_, "inertia": np.array([found.inertia_])}

    return {"k-means": Work(run, rows.shape[0], clusters)}


def scipy(folder: Path, sizes: Sizes) -> Works:
    """Neighbours by CSR products of blocks of rows."""
    arrays = _load(folder)
    works: dict[str, Work] = {}
    for name, label in (("all", "rows"), ("rare", "few")):
        rows = _csr(arrays, label)
        transposed = rows.T.tocsr()

        def run(rows: Any = rows, transposed: Any = transposed) -> Arrays:  # noqa: ANN401 (SciPy comes late)
            ids, similarity = [], []
            for start in range(0, rows.shape[0], _BLOCK):
                products = (rows[start : start + _BLOCK] @ transposed).toarray()
                inside = np.arange(len(products))
                products[inside, start + inside] = -1
                best = np.argpartition(products, -NEIGHBORS, axis=1)[:, -NEIGHBORS:]
                ids.append(best)
                similarity.append(products[inside[:, None], best])
            return {"ids": np.concatenate(ids), "similarity": np.concatenate(similarity)}

        works[f"neighbours {name}"] = Work(run, rows.shape[0], dict)
    return works


def sparse_dot_topn(folder: Path, sizes: Sizes) -> Works:
    """Neighbours by sparse_dot_topn, and the row itself, which is left out afterwards."""
    from sparse_dot_topn import sp_matmul_topn

    arrays = _load(folder)
    works: dict[str, Work] = {}
    for name, label in (("all", "rows"), ("rare", "few")):
        rows = _csr(arrays, label)
        transposed = rows.T.tocsr()

        def run(rows: Any = rows, transposed: Any = transposed) -> Any:  # noqa: ANN401 (SciPy comes late)
            return sp_matmul_topn(rows, transposed, top_n=NEIGHBORS + 1, sort=True, n_threads=n_threads())

        def others(found: Any) -> Arrays:  # noqa: ANN401
            ids = np.full((found.shape[0], NEIGHBORS), -1)
            similarity = np.zeros((found.shape[0], NEIGHBORS), np.float32)
            for row in range(found.shape[0]):
                part = slice(found.indptr[row], found.indptr[row + 1])
                kept = found.indices[part] != row
                best, values = found.indices[part][kept][:NEIGHBORS], found.data[part][kept][:NEIGHBORS]
                ids[row, : len(best)], similarity[row, : len(best)] = best, values
            return {"ids": ids, "similarity": similarity}

        works[f"neighbours {name}"] = Work(run, rows.shape[0], others)
    return works


def bm25s(folder: Path, sizes: Sizes) -> Works:
    """bm25s with Numba; asked in word numbers, so that no text is read while it is timed."""
    import bm25s

    arrays = _load(folder)
    counts = _csr(arrays, "counts")
    documents = [
        np.repeat(counts.indices[start:stop], counts.data[start:stop]).tolist()
        for start, stop in zip(counts.indptr[:-1], counts.indptr[1:], strict=True)
    ]
    retriever = bm25s.BM25(method="lucene", k1=K1, b=B, backend="numba")
    words = {str(word): word for word in range(counts.shape[1])}
    retriever.index((documents, words), show_progress=False)
    asked = _csr(arrays, "asked")
    questions = [
        np.repeat(asked.indices[start:stop], asked.data[start:stop]).tolist()
        for start, stop in zip(asked.indptr[:-1], asked.indptr[1:], strict=True)
    ]

    def run() -> Any:  # noqa: ANN401 (bm25s has no types)
        k = min(BEST, counts.shape[0])
        return retriever.retrieve(questions, k=k, show_progress=False, n_threads=n_threads())

    return {"lexical": Work(run, len(questions), lambda found: {"scores": found.scores})}


COMPETITORS: dict[str, Callable[[Path, Sizes], Works]] = {
    "gtr": gtr,
    "scikit-learn": scikit_learn,
    "scipy": scipy,
    "sparse_dot_topn": sparse_dot_topn,
    "bm25s": bm25s,
}


def same_neighbours(ours: Arrays, peers: Arrays) -> Agreement:
    """Compares the similarities of each row's neighbours, best first, and counts rows with the same ones."""
    sides = [-np.sort(-side["similarity"].clip(0), axis=1) for side in (ours, peers)]
    off = float(np.abs(sides[0] - sides[1]).max(initial=0))
    equal = float((np.sort(ours["ids"], axis=1) == np.sort(peers["ids"], axis=1)).all(1).mean())
    return Agreement(off < 1e-5, f"similarities within {off:.0e}, {100 * equal:.1f} % equal up to ties")


def same_scores(ours: Arrays, peers: Arrays) -> Agreement:
    """Compares the best scores, relative to their size."""
    off = float((np.abs(ours["scores"] - peers["scores"]) / np.maximum(1, peers["scores"])).max(initial=0))
    return Agreement(off < 1e-5, f"ten best scores within {off:.0e} of their size")


def rows(sizes: Sizes) -> list[Row]:
    """The pairs to compare."""
    work = f"sparse k-means of TF-IDF rows, K = {CLUSTERS}, {ROUNDS} rounds"
    reference = "our reference in torch"
    found = [
        Row(work, "gtr/k-means", "scikit-learn/k-means", "scikit-learn on CSR", same_clusters, 3),
        Row(work, "gtr/k-means", "gtr/reference k-means", reference, same_clusters),
    ]
    for name, words in (("all", "all words"), ("rare", f"words of at most {MAX_COMMON} tables")):
        work, task = f"top-{NEIGHBORS} neighbours of TF-IDF rows, {words}", f"neighbours {name}"
        found += [
            Row(work, f"gtr/{task}", f"scipy/{task}", "SciPy CSR products, argpartition", same_neighbours, 5),
            Row(work, f"gtr/{task}", f"sparse_dot_topn/{task}", "sparse_dot_topn", same_neighbours, 1),
            Row(work, f"gtr/{task}", f"gtr/reference {task}", reference, same_neighbours),
        ]
    work = f"BM25 and the {BEST} best, {sizes.questions:,} questions"
    return [
        *found,
        Row(work, "gtr/lexical", "bm25s/lexical", "bm25s (Numba)", same_scores, 1),
        Row(work, "gtr/lexical", "gtr/reference lexical", reference, same_scores),
    ]


def _csr(arrays: Arrays, name: str) -> Any:  # noqa: ANN401 (a SciPy matrix; SciPy is imported late)
    from scipy import sparse

    offsets, columns, weights = (arrays[f"{name}_{part}"] for part in ("offsets", "columns", "weights"))
    shape = (len(offsets) - 1, int(arrays[f"{name}_width"]))
    return sparse.csr_matrix((weights, columns, offsets.astype(np.int32)), shape=shape)
