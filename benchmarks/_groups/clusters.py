"""Dense k-means of 100,000 rows of 384 numbers, against FAISS and scikit-learn.

Rows are points of a mixture, of unit length as sentence vectors are. All take the same rows as first centroids, make
the same number of rounds over all rows, and assign all rows once more in the end: scikit-learn and ours do so by
themselves, FAISS by a search in its index of centroids. No round is left out for convergence, nothing is sampled.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _contest import Agreement, Arrays, Row, Sizes, Work, Works
from _processes import n_threads

WIDTH = 384
ROUNDS = (10, 5)
_PER_TOPIC = 50


def prepare(options: Namespace, sizes: Sizes, folder: Path) -> None:
    """Writes the rows and the first centroids."""
    draw = np.random.default_rng(0)
    topics = draw.standard_normal((max(1, sizes.rows // _PER_TOPIC), WIDTH), np.float32)
    rows = topics[draw.integers(len(topics), size=sizes.rows)]
    rows += draw.standard_normal(rows.shape, np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.save(folder / "rows.npy", rows)
    for place, n_clusters in enumerate(sizes.clusters):
        first = np.sort(draw.choice(sizes.rows, n_clusters, replace=False))
        np.save(folder / f"first_{place}.npy", rows[first])


def _each(folder: Path, sizes: Sizes) -> list[tuple[str, np.ndarray, int, int]]:
    """For each number of clusters its name, the first centroids, the number and the rounds."""
    return [
        (f"k-means {place}", np.load(folder / f"first_{place}.npy"), n_clusters, rounds)
        for place, (n_clusters, rounds) in enumerate(zip(sizes.clusters, ROUNDS, strict=True))
    ]


def gtr(folder: Path, sizes: Sizes) -> Works:
    """Our k-means, and the same by the reference's operations."""
    import torch

    from gtr_gpu.clustering import KMeansResult, kmeans
    from gtr_gpu.ops.dispatch import use

    rows = torch.from_numpy(np.load(folder / "rows.npy"))
    works: dict[str, Work] = {}

    def result(found: KMeansResult) -> Arrays:
        return {"labels": found.labels.numpy(), "inertia": np.array([found.inertia])}

    for name, first, n_clusters, rounds in _each(folder, sizes):
        starts = torch.from_numpy(first)

        def run(starts: torch.Tensor = starts, n_clusters: int = n_clusters, rounds: int = rounds) -> KMeansResult:
            limits = {"n_starts": 1, "max_iterations": rounds, "tolerance": 0.0, "sample_per_cluster": 0}
            return kmeans(rows, n_clusters, init=starts, **limits)  # type: ignore[arg-type]

        def by_reference(run: Callable[[], KMeansResult] = run) -> KMeansResult:
            with use("reference"):
                return run()

        flops = 2.0 * sizes.rows * n_clusters * WIDTH * (rounds + 1)
        works[name] = Work(run, sizes.rows, result, {"flops": flops})
        works[f"reference {name}"] = Work(by_reference, sizes.rows, result)
    return works


def faiss(folder: Path, sizes: Sizes) -> Works:
    """FAISS's k-means over all rows."""
    import faiss

    faiss.omp_set_num_threads(n_threads())
    rows = np.load(folder / "rows.npy")
    works: dict[str, Work] = {}
    for name, first, n_clusters, rounds in _each(folder, sizes):

        def run(first: np.ndarray = first, n_clusters: int = n_clusters, rounds: int = rounds) -> Arrays:
            limits = {"min_points_per_centroid": 1, "max_points_per_centroid": len(rows)}
            found = faiss.Kmeans(WIDTH, n_clusters, niter=rounds, nredo=1, **limits)
            found.train(rows, init_centroids=first)
            distances, labels = found.assign(rows)
            return {"labels": labels, "inertia": distances.sum(dtype=np.float64)[None]}

        works[name] = Work(run, sizes.rows, dict)
    return works


def scikit_learn(folder: Path, sizes: Sizes) -> Works:
    """scikit-learn's k-means (Lloyd)."""
    from sklearn.cluster import KMeans

    rows = np.load(folder / "rows.npy")
    works: dict[str, Work] = {}
    for name, first, n_clusters, rounds in _each(folder, sizes):

        def run(first: np.ndarray = first, n_clusters: int = n_clusters, rounds: int = rounds) -> KMeans:
            return fitted(KMeans(n_clusters, init=first, n_init=1, max_iter=rounds, tol=0), rows)

        works[name] = Work(
            run, sizes.rows, lambda found: {"labels": found.labels_, "inertia": np.array([found.inertia_])}
        )
    return works


def fitted(model: object, rows: object) -> object:
    """The fitted model, without the remark that it didn't converge."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows)  # type: ignore[attr-defined]


def same_clusters(ours: Arrays, peers: Arrays) -> Agreement:
    """Compares inertias, and says how many labels are equal.

    Rounding decides between centroids that are equally near, and later rounds carry that on: inertias may differ by a
    ten-thousandth, or by the share of one row where there are fewer rows than that.
    """
    off = abs(float(ours["inertia"][0] / peers["inertia"][0]) - 1)
    equal = float((ours["labels"] == peers["labels"]).mean())
    most = max(1e-4, 1 / len(ours["labels"]))
    return Agreement(off < most, f"inertia within {off:.0e}, {100 * equal:.2f} % equal labels")


COMPETITORS: dict[str, Callable[[Path, Sizes], Works]] = {"gtr": gtr, "faiss": faiss, "scikit-learn": scikit_learn}


def rows(sizes: Sizes) -> list[Row]:
    """The pairs to compare."""
    found = []
    for place, n_clusters in enumerate(sizes.clusters):
        work, name = (
            f"k-means, {sizes.rows:,} × {WIDTH}, K = {n_clusters:,}, {ROUNDS[place]} rounds",
            f"k-means {place}",
        )
        found += [
            Row(work, f"gtr/{name}", f"faiss/{name}", "FAISS Kmeans", same_clusters, 1.2),
            Row(work, f"gtr/{name}", f"scikit-learn/{name}", "scikit-learn KMeans", same_clusters, 1.5),
            Row(work, f"gtr/{name}", f"gtr/reference {name}", "our reference in torch", same_clusters),
        ]
    return found
