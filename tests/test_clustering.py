"""K-means against scikit-learn from the same start, and what it does with awkward rows."""

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from gtr_gpu.clustering import kmeans
from gtr_gpu.errors import GTRError
from gtr_gpu.ragged import Ragged, SparseMatrix
from gtr_gpu.row_source import PartedRows


def sparse_of(matrix):
    matrix = scipy.sparse.csr_matrix(matrix)
    columns = Ragged(torch.from_numpy(matrix.indices.astype("i4")), torch.from_numpy(matrix.indptr.astype("i8")))
    return SparseMatrix(columns, torch.from_numpy(matrix.data.astype("f4")), matrix.shape[1])


def dense_data(n=1500, d=16, seed=0):
    return make_blobs(n, d, centers=25, cluster_std=3.0, random_state=seed)[0].astype("f4")


def sparse_data(n=800, d=300, seed=0):
    matrix = scipy.sparse.random(n, d, 0.03, "csr", "f4", random_state=seed)
    matrix.data += 0.1
    return matrix


@pytest.mark.parametrize("make", [dense_data, sparse_data])
def test_lloyd_is_scikit_learns_from_the_same_start(make):
    data = make()
    rows = sparse_of(data) if scipy.sparse.issparse(data) else torch.from_numpy(data)
    picks = np.random.default_rng(0).choice(data.shape[0], (3, 20), replace=False)
    starts = np.stack([np.asarray(data[p].todense()) if scipy.sparse.issparse(data) else data[p] for p in picks])
    fits = [
        KMeans(20, init=start, n_init=1, max_iter=40, tol=1e-4, algorithm="lloyd").fit(data.astype("f8"))
        for start in starts
    ]
    for start, fit in zip(starts, fits, strict=True):
        found = kmeans(rows, 20, init=torch.from_numpy(start), max_iterations=40, sample_per_cluster=0)
        assert found.inertia == pytest.approx(fit.inertia_, rel=1e-5)
        assert (found.iterations, found.converged) == (fit.n_iter_, fit.n_iter_ < 40)
        np.testing.assert_allclose(found.centroids, fit.cluster_centers_, rtol=1e-4, atol=1e-4)
        distances = np.sort(fit.transform(data.astype("f8")), 1)
        clear = distances[:, 1] - distances[:, 0] > 1e-5
        assert clear.mean() > 0.99
        np.testing.assert_array_equal(found.labels.numpy()[clear], fit.labels_[clear])
    best = kmeans(rows, 20, init=torch.from_numpy(starts), max_iterations=40, sample_per_cluster=0)
    assert best.inertia == pytest.approx(min(fit.inertia_ for fit in fits), rel=1e-5)


@pytest.mark.parametrize("init", ["k-means++", "k-means||"])
@pytest.mark.parametrize("make", [dense_data, sparse_data])
def test_seeding_is_about_as_good_as_scikit_learns(make, init):
    data = make()
    rows = sparse_of(data) if scipy.sparse.issparse(data) else torch.from_numpy(data)
    found = kmeans(rows, 25, init=init, n_starts=3, max_iterations=100)
    expected = np.median([KMeans(25, n_init=3, max_iter=100, random_state=s).fit(data).inertia_ for s in range(5)])
    assert found.inertia < 1.05 * expected
    assert found.note is None
    assert found.labels.unique().numel() == found.centroids.shape[0] == 25


@pytest.mark.parametrize("init", ["k-means++", "k-means||"])
def test_well_separated_groups_are_found(init):
    data, truth = make_blobs(600, 8, centers=12, cluster_std=0.1, random_state=3)
    found = kmeans(torch.from_numpy(data).float(), 12, init=init, n_starts=5)
    assert adjusted_rand_score(truth, found.labels) == 1.0
    assert found.converged


@pytest.mark.parametrize("init", ["k-means++", "k-means||"])
@pytest.mark.parametrize("kind", [torch.from_numpy, sparse_of])
@pytest.mark.parametrize(
    ("distinct", "repeats", "k"), [(1, 1, 1), (1, 1, 4), (1, 9, 3), (5, 40, 12), (5, 40, 5), (3, 1, 8)]
)
def test_duplicates_and_large_k_end_in_fewer_clusters_and_a_note(init, kind, distinct, repeats, k):
    values = np.random.default_rng(0).random((distinct, 7), "f4").repeat(repeats, 0)
    found = kmeans(kind(values), k, init=init)
    clusters = min(distinct, k)
    assert found.centroids.shape == (clusters, 7)
    assert sorted(found.labels.unique().tolist()) == list(range(clusters))
    assert torch.isfinite(found.centroids).all()
    assert found.inertia == 0.0
    assert (found.note is not None) == (clusters < k)
    if found.note:
        assert f"{clusters} clusters where {k} were asked for" in found.note


def test_rows_of_zeros_are_one_cluster():
    found = kmeans(sparse_of(np.zeros((5, 4), "f4")), 2)
    assert (found.labels.tolist(), found.inertia) == ([0] * 5, 0.0)


def test_an_empty_cluster_is_taken_over_by_the_farthest_row_as_in_scikit_learn():
    data = np.array([[0.0], [0.1], [0.2], [10.0], [10.1], [14.0]], "f4")
    start = np.array([[0.0], [10.0], [99.0]], "f4")
    fit = KMeans(3, init=start, n_init=1).fit(data)
    for rows in (torch.from_numpy(data), sparse_of(data)):
        found = kmeans(rows, 3, init=torch.from_numpy(start))
        assert found.labels.tolist() == fit.labels_.tolist() == [0, 0, 0, 1, 1, 2]
        assert found.inertia == pytest.approx(fit.inertia_, rel=1e-5)


def test_a_start_of_equal_centroids_is_repaired_to_as_many_clusters_as_there_are_values():
    values = torch.arange(6).repeat_interleave(50)[:, None].float() * torch.ones(1, 3)
    found = kmeans(values, 6, init=torch.zeros(6, 3))
    assert (found.inertia, found.note) == (0.0, None)


@pytest.mark.parametrize("make", [dense_data, sparse_data])
@pytest.mark.parametrize("sample", [0, 10])
def test_the_division_into_parts_changes_nothing(make, sample, tmp_path):
    data = make()
    rows = sparse_of(data) if scipy.sparse.issparse(data) else torch.from_numpy(data)
    if scipy.sparse.issparse(data):
        parts = [rows.slice(a, b) for a, b in ((0, 3), (3, 3), (3, 500), (500, len(rows.columns)))]
    else:
        np.save(tmp_path / "rows.npy", data)
        mapped = torch.from_numpy(np.load(tmp_path / "rows.npy", mmap_mode="c"))
        parts = [mapped[:1], mapped[1:700], mapped[700:]]
    whole = kmeans(rows, 15, sample_per_cluster=sample, seed=7)
    found = kmeans(iter(parts), 15, sample_per_cluster=sample, seed=7)
    assert torch.equal(found.labels, whole.labels)
    assert torch.equal(found.centroids, whole.centroids)
    assert found.inertia == whole.inertia
    other = kmeans(rows, 15, sample_per_cluster=sample, seed=8)
    assert not torch.equal(other.centroids, whole.centroids)


def test_memory_for_one_start_at_a_time_gives_the_same():
    rows = sparse_of(sparse_data())
    together, alone = kmeans(rows, 15), kmeans(rows, 15, memory_megabytes=0)
    assert alone.inertia == pytest.approx(together.inertia, rel=1e-5)


def test_a_sample_is_nearly_as_good_as_all_rows():
    rows = torch.from_numpy(dense_data(6000))
    whole, sampled = kmeans(rows, 20, sample_per_cluster=0), kmeans(rows, 20, sample_per_cluster=50)
    assert whole.inertia * 0.99 < sampled.inertia < whole.inertia * 1.1
    assert sampled.labels.shape == (6000,)
    nearest = torch.cdist(rows, sampled.centroids).argmin(1)
    assert (nearest == sampled.labels).float().mean() > 0.999


def test_a_sample_of_sparse_rows_has_centroids_in_all_columns():
    data = sparse_data(3000)
    rows = sparse_of(data)
    whole, sampled = kmeans(rows, 20, sample_per_cluster=0), kmeans(rows, 20, sample_per_cluster=75)
    assert sampled.centroids.shape == (20, data.shape[1])
    assert whole.inertia * 0.99 < sampled.inertia < whole.inertia * 1.05
    distances = np.stack([((data.toarray() - c) ** 2).sum(1) for c in sampled.centroids.numpy()], 1)
    assert sampled.inertia == pytest.approx(distances.min(1).sum(), rel=1e-5)


def test_take_keeps_the_order_over_parts():
    data = torch.arange(20.0).view(10, 2)
    source = PartedRows([data[:4], data[4:4], data[4:9], data[9:]])
    rows = torch.tensor([9, 0, 4, 3, 4])
    assert torch.equal(source.take(rows), data[rows])
    assert torch.equal(source.slice(2, 10), data[2:])


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (torch.tensor([[1.0], [float("nan")]]), {}, "rows must hold finite numbers"),
        (sparse_of(np.array([[1.0, np.inf]])), {}, "rows must hold finite numbers"),
        (torch.zeros(0, 3), {}, "rows must be at least one row"),
        ([], {}, "rows must be at least one row"),
        (torch.zeros(3), {}, "rows must be a matrix"),
        ([torch.zeros(2, 3), torch.zeros(2, 4)], {}, "same width"),
        ([torch.zeros(2, 3), sparse_of(np.ones((2, 3)))], {}, "all dense or all sparse"),
        (torch.zeros(3, 2), {"n_clusters": 0}, "n_clusters must be at least 1, got 0"),
        (torch.zeros(3, 2), {"n_starts": 0}, "n_starts must be at least 1"),
        (torch.zeros(3, 2), {"max_iterations": 0}, "max_iterations must be at least 1"),
        (torch.zeros(3, 2), {"tolerance": float("nan")}, "tolerance must be at least 0"),
        (torch.zeros(3, 2), {"init": "random"}, "init must be"),
        (torch.zeros(3, 2), {"init": torch.zeros(2, 3)}, r"init must have the shape \[2, 2\]"),
        (torch.zeros(3, 2), {"init": torch.full((2, 2), float("inf"))}, "init must hold finite"),
    ],
)
def test_wrong_arguments_are_named(rows, arguments, message):
    with pytest.raises(GTRError, match=message):
        kmeans(rows, **{"n_clusters": 2, **arguments})
