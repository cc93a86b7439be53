import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import dispatch, native
from gtr_gpu.ops import transfer as transfer_module
from gtr_gpu.ops.transfer import induced_transfer, similarity_transfer, widen
from gtr_gpu.ops.types import Transfer
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


def dense(transfer: Transfer) -> np.ndarray:
    return transfer.weights.to("cpu").to_torch().to_dense().numpy()


@pytest.fixture(params=["mapped", "searched"])
def lookup(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to find a candidate: a map of bits, and the search that serves very many tables."""
    if request.param == "searched":
        monkeypatch.setattr(transfer_module, "_MAPPED_TABLES", 0)


@pytest.mark.parametrize("n", [1, 2, 40, 64, 65, 200])
@pytest.mark.parametrize("density", [0.0, 0.03, 0.4])
def test_induced_weights_are_scipys_submatrix(n: int, density: float, device: torch.device, lookup: None) -> None:
    matrix = symmetric(n, density, n)
    chosen = np.random.default_rng(n).random((4, n)) < 0.5
    chosen[2] = False
    candidates = Ragged.from_rows([np.flatnonzero(row) for row in chosen]).to(device)
    transfer = induced_transfer(candidates, to_ours(matrix).to(device))
    blocks = [matrix[np.flatnonzero(row)][:, np.flatnonzero(row)] for row in chosen]
    expected = scipy.sparse.block_diag(blocks, format="csr").toarray() if chosen.any() else np.zeros((0, 0))
    np.testing.assert_array_equal(dense(transfer), expected)
    np.testing.assert_allclose(transfer.degrees.cpu(), expected.sum(1), rtol=1e-6)


@pytest.mark.parametrize("floor", [-1.0, 0.0, 0.3])
@pytest.mark.parametrize("sizes", [[5], [1, 0, 7], [0], [], [131, 3]])
@pytest.mark.parametrize("d", [1, 6, 17, 384])
def test_similarities_of_all_pairs(
    floor: float, sizes: list[int], d: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer_module, "_TILE_ENTRIES", 1000)  # seven rows of the longest query
    features = torch.nn.functional.normalize(torch.randn(200, d, generator=torch.Generator().manual_seed(0)), dim=1)
    features = features.to(device)
    candidates = Ragged.from_rows([list(range(size)) for size in sizes]).to(device)
    transfer = similarity_transfer(candidates, lambda rows: features[rows.long()], floor)
    blocks = [(features[:size] @ features[:size].T).cpu().numpy() for size in sizes]
    blocks = [np.where((block >= floor) & (block > 0), block, 0) for block in blocks]
    expected = scipy.sparse.block_diag(blocks).toarray() if sum(sizes) else np.zeros((0, 0))
    # A similarity at the floor falls on either side of it by rounding.
    near = (np.abs(expected - floor) < 1e-6) | (np.abs(dense(transfer) - floor) < 1e-6)
    np.testing.assert_allclose(np.where(near, 0, dense(transfer)), np.where(near, 0, expected), atol=1e-6)
    np.testing.assert_allclose(transfer.degrees.cpu(), dense(transfer).sum(1, dtype=np.float64), rtol=1e-5)


@given(st.integers(1, 150), st.floats(0, 0.2), st.integers(0, 50))
def test_widening_reaches_each_neighbour_once(device: torch.device, n: int, density: float, seed: int) -> None:
    matrix = symmetric(n, density, seed)
    chosen = np.random.default_rng(seed).random((3, n)) < 0.1
    candidates = Ragged.from_rows([np.flatnonzero(row) for row in chosen])
    widened = widen(candidates.to(device), to_ours(matrix).to(device))
    expected = [sorted({*np.flatnonzero(row), *matrix[np.flatnonzero(row)].indices}) for row in chosen]
    assert widened.to_lists() == expected


def test_no_query(device: torch.device) -> None:
    graph, none = to_ours(symmetric(5, 0.5, 0)).to(device), Ragged.from_rows([]).to(device)
    assert len(widen(none, graph)) == 0
    assert induced_transfer(none, graph).weights.shape == (0, 0)


def test_threads_change_nothing(device: torch.device) -> None:
    matrix = to_ours(symmetric(300, 0.05, 1)).to(device)
    candidates = Ragged.from_rows([np.flatnonzero(r) for r in np.random.default_rng(0).random((40, 300)) < 0.3])
    usual, found = torch.get_num_threads(), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        transfer = induced_transfer(candidates.to(device), matrix)
        found.append((transfer.weights.weights, transfer.degrees, widen(candidates.to(device), matrix).values))
    torch.set_num_threads(usual)
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


@pytest.mark.parametrize("rows", [[[3, 1]], [[1, 1]], [[0], [2, 5]], [[-1, 2]]])
@pytest.mark.parametrize("operation", [induced_transfer, widen])
def test_candidates_that_do_not_rise_or_are_no_tables(operation, rows, device: torch.device) -> None:
    graph = to_ours(symmetric(5, 0.5, 0)).to(device)
    with pytest.raises(GTRError, match="candidates must be from 0 to 4, rising and distinct"):
        operation(Ragged.from_rows(rows).to(device), graph)
    found = operation(Ragged.from_rows([[3], [1]]).to(device), graph)
    assert found.offsets.numel() == 3, "a fall between two queries is none"


@pytest.mark.parametrize("operation", [induced_transfer, widen])
def test_wrong_arguments(operation) -> None:
    graph, candidates = to_ours(symmetric(5, 0.5, 0)), Ragged.from_rows([[1, 2]])
    with pytest.raises(GTRError, match=r"candidates\.values must be int32"):
        operation(Ragged(candidates.values.long(), candidates.offsets), graph)
    with pytest.raises(GTRError, match=r"candidates\.offsets must go from 0 to 2"):
        operation(Ragged(candidates.values, torch.tensor([0, 1])), graph)
    with pytest.raises(GTRError, match=r"graph\.weights must be float32"):
        operation(candidates, graph.with_weights(graph.weights.double()))
    with pytest.raises(GTRError, match="graph must have as many rows as columns, got 5 by 9"):
        operation(candidates, SparseMatrix(graph.columns, graph.weights, 9))


def test_wrong_features() -> None:
    candidates = Ragged.from_rows([[1, 2]])
    if native.extension() is None:
        pytest.skip("installed without a C++ compiler")
    with dispatch.use("native"), pytest.raises(GTRError, match=r"gather\(tables\) must have the shape \[2, any\]"):
        similarity_transfer(candidates, lambda rows: torch.zeros(3, 4), 0.3)
    with pytest.raises(GTRError, match=r"candidates\.values must be int32"):
        similarity_transfer(Ragged(candidates.values.long(), candidates.offsets), lambda rows: torch.zeros(2, 4), 0.3)
