"""Representative scores against scikit-learn's cosines, and probing against a sort."""

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import representative
from gtr_gpu.ragged import Ragged, SparseMatrix


def sparse_of(matrix):
    matrix = scipy.sparse.csr_matrix(matrix)
    columns = Ragged(torch.from_numpy(matrix.indices), torch.from_numpy(matrix.indptr).long())
    return SparseMatrix(columns, torch.from_numpy(matrix.data), matrix.shape[1])


@pytest.fixture(params=["dense", "sparse"])
def kind(request):
    return sparse_of if request.param == "sparse" else torch.from_numpy


def features(n, seed, d=15):
    rng = np.random.default_rng(seed)
    rows = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)).astype("f4")
    rows[: n // 20] = 0
    return rows


@pytest.mark.parametrize("tile", [1 << 23, 40])
@pytest.mark.parametrize("how", ["mean", "best"])
def test_cluster_scores_are_means_and_maxima_of_cosines(kind, how, tile, monkeypatch):
    monkeypatch.setattr(representative, "_TILE_NUMBERS", tile)
    queries, rows = features(30, 0), features(80, 1)
    clusters = [[0, 5, 79], [], [4], [1, 2, 3], list(range(40, 80)), []]
    cosines = cosine_similarity(queries, rows)
    reduce = np.mean if how == "mean" else np.max
    expected = np.stack([reduce(cosines[:, c], 1) if c else np.full(30, -np.inf) for c in clusters], 1)
    found = representative.cluster_scores(kind(queries), kind(rows), Ragged.from_rows(clusters), how)
    assert (found.dtype, found.shape) == (torch.float32, (30, 6))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_centroid_scores_are_cosines(kind):
    queries, centroids = features(30, 0), features(40, 1)
    found = representative.centroid_scores(kind(queries), torch.from_numpy(centroids))
    np.testing.assert_allclose(found, cosine_similarity(queries, centroids), atol=1e-6)


def test_queries_without_any_number_score_zero(kind):
    nothing, rows = np.zeros((2, 15), "f4"), features(40, 1)
    typical = Ragged.from_rows([[1, 2], []])
    for how in ("mean", "best"):
        found = representative.cluster_scores(kind(nothing), kind(rows), typical, how)
        assert found.tolist() == [[0.0, float("-inf")]] * 2
    assert representative.centroid_scores(kind(nothing), torch.from_numpy(rows)).abs().max() == 0


def test_no_queries_and_no_clusters(kind):
    none = Ragged.from_rows([])
    assert representative.cluster_scores(kind(features(0, 0)), kind(features(9, 1)), Ragged.from_rows([[1]])).shape == (
        0,
        1,
    )
    assert representative.cluster_scores(kind(features(3, 0)), kind(features(9, 1)), none).shape == (3, 0)
    assert representative.centroid_scores(kind(features(0, 0)), torch.ones(2, 15)).shape == (0, 2)


@given(
    scores=st.integers(0, 4).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 1.0, float("-inf")]), min_size=7, max_size=7), min_size=n, max_size=n
        )
    ),
    n_probe=st.integers(1, 5),
)
def test_probe_takes_the_best_of_each_modality(scores, n_probe):
    ranges = [range(4, 7), range(0, 3)]
    found = representative.probe(torch.tensor(scores).view(-1, 7), ranges, n_probe)
    expected = []
    for row in scores:
        best = [sorted(clusters, key=lambda edge, row=row: (-row[edge], edge))[:n_probe] for clusters in ranges]
        expected.append([edge for edges in best for edge in edges if row[edge] > float("-inf")])
    assert found.values.dtype == torch.int32
    assert found.to_lists() == expected


def test_no_modality_is_no_cluster():
    assert representative.probe(torch.zeros(2, 3), [], 1).to_lists() == [[], []]


@given(
    members=st.lists(st.sets(st.integers(0, 9)), min_size=5, max_size=5),
    probed=st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=4),
)
def test_members_are_united(members, probed):
    found = representative.members_of(Ragged.from_rows(probed), Ragged.from_rows([sorted(row) for row in members]))
    assert found.values.dtype == torch.int32
    assert found.to_lists() == [sorted(set().union(*(members[edge] for edge in row))) for row in probed]


def test_wrong_arguments_are_named():
    rows, typical = features(5, 0), Ragged.from_rows([[0]])
    dense = torch.from_numpy(rows)
    with pytest.raises(GTRError, match="how must be mean or best, got 'sum'"):
        representative.cluster_scores(dense, dense, typical, "sum")
    with pytest.raises(GTRError, match="both dense or both sparse"):
        representative.cluster_scores(dense, sparse_of(rows), typical)
    with pytest.raises(GTRError, match="n_probe must be at least 1, got 0"):
        representative.probe(torch.zeros(1, 3), [range(3)], 0)
