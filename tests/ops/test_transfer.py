import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.ops.transfer import induced_transfer, similarity_transfer, widen
from gtr_gpu.ragged import Ragged, SparseMatrix


def symmetric(n: int, density: float, seed: int) -> scipy.sparse.csr_array:
    upper = scipy.sparse.triu(scipy.sparse.random_array((n, n), density=density, rng=seed), 1)
    return (upper + upper.T).tocsr().astype(np.float32)


def to_ours(matrix: scipy.sparse.csr_array) -> SparseMatrix:
    matrix = matrix.sorted_indices()
    columns = Ragged(
        torch.from_numpy(matrix.indices.astype(np.int32)), torch.from_numpy(matrix.indptr.astype(np.int64))
    )
    return SparseMatrix(columns, torch.from_numpy(matrix.data), matrix.shape[1])


@given(st.integers(1, 40), st.floats(0, 0.5), st.integers(0, 50))
def test_induced_weights_are_scipys_submatrix(n: int, density: float, seed: int) -> None:
    matrix = symmetric(n, density, seed)
    chosen = np.random.default_rng(seed).random((3, n)) < 0.5
    candidates = Ragged.from_rows([np.flatnonzero(row) for row in chosen])
    transfer = induced_transfer(candidates, to_ours(matrix))
    blocks = [matrix[np.flatnonzero(row)][:, np.flatnonzero(row)] for row in chosen]
    expected = scipy.sparse.block_diag(blocks, format="csr").toarray() if chosen.any() else np.zeros((0, 0))
    np.testing.assert_array_equal(transfer.weights.to_torch().to_dense().numpy(), expected)
    np.testing.assert_allclose(transfer.degrees, expected.sum(1), rtol=1e-6)


@pytest.mark.parametrize("floor", [-1.0, 0.0, 0.3])
@pytest.mark.parametrize("sizes", [[5], [1, 0, 7], [0], []])
def test_similarities_of_all_pairs(floor: float, sizes: list[int]) -> None:
    features = torch.nn.functional.normalize(torch.randn(20, 6, generator=torch.Generator().manual_seed(0)), dim=1)
    candidates = Ragged.from_rows([list(range(size)) for size in sizes])
    transfer = similarity_transfer(candidates, lambda rows: features[rows.long()], floor)
    blocks = [(features[:size] @ features[:size].T).numpy() for size in sizes]
    blocks = [np.where((block >= floor) & (block > 0), block, 0) for block in blocks]
    expected = scipy.sparse.block_diag(blocks).toarray() if sum(sizes) else np.zeros((0, 0))
    np.testing.assert_allclose(transfer.weights.to_torch().to_dense().numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(transfer.degrees, expected.sum(1), rtol=1e-5)


def test_widening_reaches_each_neighbour_once() -> None:
    matrix = symmetric(30, 0.1, 3)
    candidates = Ragged.from_rows([[0, 4], [], [7]])
    widened = widen(candidates, to_ours(matrix))
    expected = [sorted({node, *matrix[[node]].indices}) for node in (0, 4, 7)]
    assert widened.to_lists() == [sorted({*expected[0], *expected[1]}), [], expected[2]]
