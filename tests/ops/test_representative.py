"""Representative scores against scikit-learn's cosines, and probing against a sort."""

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.metrics.pairwise import cosine_similarity

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import representative
from gtr_gpu.ragged import Ragged, SparseMatrix


def sparse_of(matrix):
    matrix = scipy.sparse.csr_matrix(matrix)
    columns = Ragged(torch.from_numpy(matrix.indices), torch.from_numpy(matrix.indptr).long())
    return SparseMatrix(columns, torch.from_numpy(matrix.data), matrix.shape[1])


@pytest.fixture(params=["dense", "sparse"])
def kind(request, device):
    make = sparse_of if request.param == "sparse" else torch.from_numpy
    return lambda matrix: make(matrix).to(device)


def features(n, seed, d=15):
    rng = np.random.default_rng(seed)
    rows = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)).astype("f4")
    rows[: n // 20] = 0
    return rows


def means_or_maxima(queries, rows, clusters, how):
    cosines = cosine_similarity(queries, rows)
    reduce = np.mean if how == "mean" else np.max
    empty = np.full(len(queries), -np.inf)
    return np.stack([reduce(cosines[:, c], 1) if c else empty for c in clusters], 1)


@pytest.mark.parametrize("tile", [1 << 20, 40])
@pytest.mark.parametrize("how", ["mean", "best"])
def test_cluster_scores_are_means_and_maxima_of_cosines(kind, device, how, tile, monkeypatch):
    monkeypatch.setattr(representative, "TILE_NUMBERS", tile)
    monkeypatch.setattr(representative, "TILE_NUMBERS_CUDA", tile)
    monkeypatch.setattr(representative.reference.representative, "_TILE_NUMBERS", tile)
    queries, rows = features(30, 0), features(80, 1)
    clusters = [[0, 5, 79], [], [4], [1, 2, 3], list(range(40, 80)), []]
    found = representative.cluster_scores(kind(queries), kind(rows), Ragged.from_rows(clusters).to(device), how)
    assert (found.dtype, found.shape) == (torch.float32, (30, 6))
    np.testing.assert_allclose(found.cpu(), means_or_maxima(queries, rows, clusters, how), atol=1e-6)


@pytest.mark.parametrize("width", [1, 6, 17, 100, 384, 768, 1500])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_features_of_every_width_and_type(device, width, dtype):
    queries = torch.from_numpy(features(3, 0, width)).to(dtype)
    rows = torch.from_numpy(features(70, 1, width)).to(dtype)
    rng = np.random.default_rng(2)
    clusters = [rng.integers(0, 70, size).tolist() for size in rng.integers(0, 6, 67)]
    typical = Ragged.from_rows(clusters).to(device)
    for how in ("mean", "best"):
        expected = means_or_maxima(queries.double(), rows.double(), clusters, how)
        found = representative.cluster_scores(queries.to(device), rows.to(device), typical, how)
        np.testing.assert_allclose(found.cpu(), expected, atol=2e-6)
    found = representative.centroid_scores(queries.to(device), rows.to(device))
    np.testing.assert_allclose(found.cpu(), cosine_similarity(queries.double(), rows.double()), atol=2e-6)


def test_rows_of_extreme_lengths_and_strided_views(device):
    rows = features(20, 3)
    scales = np.float32([1e-15, 1e15, 1, 1e-12])[:, None]
    wide = torch.from_numpy(np.hstack([rows * np.tile(scales, (5, 1)), rows])).to(device)
    found = representative.centroid_scores(wide[::2, :15], wide[:, :15])
    np.testing.assert_allclose(found.cpu(), cosine_similarity(rows[::2], rows), atol=1e-6)


def test_threads_change_nothing():
    queries, rows = torch.from_numpy(features(9, 0, 100)), torch.from_numpy(features(300, 1, 100))
    typical = Ragged.from_rows([list(range(i, 300, 7)) for i in range(40)])
    usual, results = torch.get_num_threads(), []
    for n in (1, 2):
        torch.set_num_threads(n)
        scores = representative.cluster_scores(queries, rows, typical)
        probed = representative.probe(scores, [range(40)], 5)
        results.append((probed.values, *vars(representative.members_of(probed, typical)).values()))
    torch.set_num_threads(usual)
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_centroid_scores_are_cosines(kind, device):
    queries, centroids = features(30, 0), features(40, 1)
    found = representative.centroid_scores(kind(queries), torch.from_numpy(centroids).to(device))
    np.testing.assert_allclose(found.cpu(), cosine_similarity(queries, centroids), atol=1e-6)


def test_queries_without_any_number_score_zero(kind, device):
    nothing, rows = np.zeros((2, 15), "f4"), features(40, 1)
    typical = Ragged.from_rows([[1, 2], []]).to(device)
    for how in ("mean", "best"):
        found = representative.cluster_scores(kind(nothing), kind(rows), typical, how)
        assert found.tolist() == [[0.0, float("-inf")]] * 2
    assert representative.centroid_scores(kind(nothing), torch.from_numpy(rows).to(device)).abs().max() == 0


def test_no_queries_and_no_clusters(kind, device):
    none, one = Ragged.from_rows([]).to(device), Ragged.from_rows([[1]]).to(device)
    rows = kind(features(9, 1))
    assert representative.cluster_scores(kind(features(0, 0)), rows, one).shape == (0, 1)
    assert representative.cluster_scores(kind(features(3, 0)), rows, none).shape == (3, 0)
    assert representative.centroid_scores(kind(features(0, 0)), torch.ones(2, 15, device=device)).shape == (0, 2)


@pytest.mark.parametrize("n_probe", [1, 2, 5])
@pytest.mark.parametrize("n_queries", [0, 1, 4, 33])
def test_probe_takes_the_best_of_each_modality(device, n_queries, n_probe):
    scores = np.random.default_rng(n_queries).choice([0.0, 0.5, 1.0, -np.inf], (n_queries, 7)).astype("f4").tolist()
    ranges = [range(4, 7), range(0, 3), range(3, 3)]
    found = representative.probe(torch.tensor(scores, device=device).view(-1, 7), ranges, n_probe)
    expected = []
    for row in scores:
        best = [sorted(clusters, key=lambda edge, row=row: (-row[edge], edge))[:n_probe] for clusters in ranges]
        expected.append([edge for edges in best for edge in edges if row[edge] > float("-inf")])
    assert found.values.dtype == torch.int32
    assert found.to_lists() == expected


def test_no_modality_is_no_cluster(device):
    assert representative.probe(torch.zeros(2, 3, device=device), [], 1).to_lists() == [[], []]


@pytest.mark.parametrize("n_tables", [1, 10, 64, 1000, 1 << 25])
def test_members_are_united(device, n_tables):
    rng = np.random.default_rng(n_tables)
    members = [sorted(set(rng.integers(0, n_tables, size).tolist())) for size in (0, 5, 90, 700, 1)]
    probed = [rng.integers(0, 5, size).tolist() for size in (0, 1, 4, 2, 0, 7)]
    found = representative.members_of(Ragged.from_rows(probed).to(device), Ragged.from_rows(members).to(device))
    assert found.values.dtype == torch.int32
    assert found.to_lists() == [sorted(set().union(*(members[edge] for edge in row))) for row in probed]


def test_nothing_is_probed(device):
    members = Ragged.from_rows([[1, 2], []]).to(device)
    assert representative.members_of(Ragged.from_rows([]).to(device), members).to_lists() == []
    assert representative.members_of(Ragged.from_rows([[1]]).to(device), members).to_lists() == [[]]
    assert representative.members_of(Ragged.from_rows([[]]).to(device), Ragged.from_rows([]).to(device)).to_lists() == [
        []
    ]


def test_wrong_arguments_are_named(device):
    rows, typical = features(5, 0), Ragged.from_rows([[0]]).to(device)
    dense, sparse = torch.from_numpy(rows).to(device), sparse_of(rows).to(device)
    with pytest.raises(GTRError, match="how must be mean or best, got 'sum'"):
        representative.cluster_scores(dense, dense, typical, "sum")
    with pytest.raises(GTRError, match="both dense or both sparse"):
        representative.cluster_scores(dense, sparse, typical)
    with pytest.raises(GTRError, match="queries must be float32"):
        representative.cluster_scores(dense.int(), dense, typical)
    with pytest.raises(GTRError, match=r"rows must have the shape \[any, 15\]"):
        representative.cluster_scores(dense, dense[:, :3], typical)
    with pytest.raises(GTRError, match="rows must have 15 columns, got 20"):
        representative.cluster_scores(sparse, SparseMatrix(sparse.columns, sparse.weights, 20), typical)
    with pytest.raises(GTRError, match=r"typical\.values must be from 0 to 4, got 5"):
        representative.cluster_scores(dense, dense, Ragged.from_rows([[5]]).to(device))
    with pytest.raises(GTRError, match="centroids must have the shape"):
        representative.centroid_scores(dense, dense[0])
    with pytest.raises(GTRError, match="n_probe must be at least 1, got 0"):
        representative.probe(torch.zeros(1, 3, device=device), [range(3)], 0)
    with pytest.raises(GTRError, match="scores must be float32"):
        representative.probe(torch.zeros(1, 3, device=device).double(), [range(3)], 1)
    with pytest.raises(GTRError, match=r"ranges\[0\] must count clusters from 0 to 3"):
        representative.probe(torch.zeros(1, 3, device=device), [range(4)], 1)
    with pytest.raises(GTRError, match=r"probed\.values must be from 0 to 0, got 1"):
        representative.members_of(Ragged.from_rows([[1]]).to(device), typical)
    with pytest.raises(GTRError, match=r"members\.values must be from 0 to 2147483647, got -1"):
        representative.members_of(typical, Ragged.from_rows([[-1]]).to(device))
