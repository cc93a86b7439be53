"""The hypergraph against loops over its definition, and cosines against scikit-learn."""

import time

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from gtr_gpu.errors import GTRError
from gtr_gpu.hypergraph import build_hypergraph, join, representative_scores
from gtr_gpu.ragged import Ragged, SparseMatrix

SIZES = {"semantic": 4, "structural": 1, "heuristic": 3}


def sparse_of(matrix):
    matrix = scipy.sparse.csr_matrix(matrix)
    columns = Ragged(torch.from_numpy(matrix.indices), torch.from_numpy(matrix.indptr).long())
    return SparseMatrix(columns, torch.from_numpy(matrix.data), matrix.shape[1])


@given(data=st.data(), n=st.integers(0, 15), n_typical=st.integers(1, 4))
def test_incidence_and_typical_nodes_follow_the_definition(data, n, n_typical):
    def draw(elements):
        return data.draw(st.lists(elements, min_size=n, max_size=n))

    labels = {name: draw(st.integers(-1, size - 1)) for name, size in SIZES.items()}
    scores = {name: draw(st.sampled_from([-0.5, 0.0, 0.25, 1.0])) for name in SIZES}
    alive = draw(st.booleans())
    graph = build_hypergraph(
        {name: torch.tensor(values, dtype=torch.int32) for name, values in labels.items()},
        {name: torch.tensor(values) for name, values in scores.items()},
        SIZES,
        n_typical,
        torch.tensor(alive, dtype=torch.bool),
    )
    assert graph.modalities == tuple(SIZES)
    assert graph.memberships.shape == (n, 3)
    assert graph.memberships.dtype == graph.members.values.dtype == graph.typical.values.dtype == torch.int32
    assert len(graph.members) == len(graph.typical) == graph.modality_of.numel() == 8
    edge = 0
    for place, (name, size) in enumerate(SIZES.items()):
        assert graph.hyperedge_range(name) == range(edge, edge + size)
        for cluster in range(size):
            members = [table for table in range(n) if alive[table] and labels[name][table] == cluster]
            assert graph.members[edge].tolist() == members
            best = sorted(members, key=lambda table: (-scores[name][table], table))[:n_typical]
            assert graph.typical[edge].tolist() == best
            assert graph.modality_of[edge] == place
            assert (graph.memberships[:, place] == edge).nonzero()[:, 0].tolist() == members
            edge += 1


def test_hundred_thousand_tables_take_a_moment():
    generator = torch.Generator().manual_seed(0)
    labels = {name: torch.randint(316, (100_000,), generator=generator) for name in SIZES}
    scores = {name: torch.rand(100_000, generator=generator) for name in SIZES}
    started = time.process_time()
    graph = build_hypergraph(labels, scores, dict.fromkeys(SIZES, 316), 20)
    assert time.process_time() - started < 2
    assert (graph.members.lengths.sum(), graph.typical.lengths.max()) == (300_000, 20)


def test_wrong_arguments_are_named():
    one, two = torch.zeros(1, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    with pytest.raises(GTRError, match=r"one length in all modalities, got \[1, 2\]"):
        build_hypergraph({"semantic": one}, {"semantic": two.float()}, {"semantic": 1}, 1)
    with pytest.raises(GTRError, match="one length"):
        build_hypergraph({"semantic": one}, {"semantic": one.float()}, {"semantic": 1}, 1, torch.ones(3) > 0)
    with pytest.raises(GTRError, match="labels of semantic must be below 1, got 1"):
        build_hypergraph({"semantic": one + 1}, {"semantic": one.float()}, {"semantic": 1}, 1)
    graph = build_hypergraph({"semantic": one}, {"semantic": one.float()}, {"semantic": 1}, 1)
    with pytest.raises(GTRError, match="modality must be one of semantic"):
        graph.hyperedge_range("heuristic")


@pytest.mark.parametrize("kind", [torch.from_numpy, sparse_of])
def test_representative_scores_are_cosines(kind):
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((9000, 12)) * (rng.random((9000, 12)) < 0.4)).astype("f4")
    rows[7] = 0
    centroids = rng.standard_normal((5, 12)).astype("f4")
    centroids[4] = 0
    labels = rng.integers(-1, 5, 9000).astype("i4")
    found = representative_scores(kind(rows), torch.from_numpy(labels), torch.from_numpy(centroids))
    expected = np.where(
        labels >= 0, np.take_along_axis(cosine_similarity(rows, centroids), labels[:, None], 1)[:, 0], 0
    )
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found[7] == 0


@pytest.mark.parametrize("kind", [torch.from_numpy, sparse_of])
def test_new_tables_join_the_nearest_cluster(kind):
    rows = np.array([[0.0, 2.0], [3.0, 0.1], [0.0, 0.0]], "f4")
    labels, scores = join(kind(rows), torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    assert labels.tolist() == [1, 0, 1]
    np.testing.assert_allclose(scores, [1.0, 3 / np.hypot(3, 0.1), 0.0], rtol=1e-6)
    labels, scores = join(kind(np.zeros((0, 2), "f4")), torch.ones(2, 2))
    assert labels.shape == scores.shape == (0,)
