"""What any operation makes of arguments that are not plain contiguous tensors."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.utils.dlpack import from_dlpack

from gtr_gpu.errors import GTRError
from gtr_gpu.ops.kmeans import assign
from gtr_gpu.ops.lexical import bm25_weights, posting_scores, term_counts
from gtr_gpu.ops.pagerank import personalized_pagerank
from gtr_gpu.ops.segments import segment_sum, segment_top_k
from gtr_gpu.ops.sparse_top_m import sparse_top_m
from gtr_gpu.ops.top_m import dense_top_m
from gtr_gpu.ops.transfer import induced_transfer, widen
from gtr_gpu.ops.types import Transfer
from gtr_gpu.ops.union import union
from gtr_gpu.ragged import Ragged, SparseMatrix

ROWS = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]


def path_graph(device: torch.device) -> SparseMatrix:
    """Three tables in a row."""
    columns = Ragged.from_rows([[1], [0, 2], [1]])
    return SparseMatrix(columns, torch.tensor([1.0, 1.0, 0.5, 0.5]), 3).to(device)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers, every other one of an array."""
    return torch.stack([tensor, torch.full_like(tensor, 99)], 1)[:, 0]


def strided_ragged(batch: Ragged) -> Ragged:
    return Ragged(strided(batch.values), strided(batch.offsets))


def test_rows_that_lie_backwards(device: torch.device) -> None:
    if device.type == "cuda":
        pytest.skip("NumPy's arrays are on the CPU")
    rows = np.array(ROWS, np.float32)
    ids, _ = dense_top_m(rows[::-1], rows, 1)  # type: ignore[arg-type]
    assert ids.tolist() == [[2], [1], [0]]


@pytest.mark.parametrize("dtype", [">f4", object])
def test_arrays_that_are_no_tensors(dtype: object) -> None:
    with pytest.raises(GTRError, match="arrays must hold numbers"):
        segment_sum(np.zeros(3, dtype), torch.tensor([0, 3]))  # type: ignore[call-overload]


def test_arrays_in_sequences(device: torch.device) -> None:
    if device.type == "cuda":
        pytest.skip("NumPy's arrays are on the CPU")
    batch = Ragged(np.array([2, 0], np.int32), np.array([0, 2]))  # type: ignore[arg-type]
    assert union([batch, batch]).to_lists() == [[0, 2]]
    graph, features = path_graph(device), np.array(ROWS, np.float32)
    ids, _ = sparse_top_m(graph, graph, 1, tie_break=(features, features))  # type: ignore[arg-type]
    assert ids.tolist() == [[0], [1], [0]]


def test_rows_with_gradients(device: torch.device) -> None:
    rows = torch.tensor(ROWS, device=device, requires_grad=True)
    ids, products = dense_top_m(rows, rows, 1)
    labels, distances = assign(rows, rows)
    assert ids.tolist() == [[0], [1], [2]]
    assert labels.tolist() == [0, 1, 2]
    assert not products.requires_grad
    assert not distances.requires_grad


def test_numbers_of_numpy(device: torch.device) -> None:
    rows = torch.tensor(ROWS, device=device)
    values, ids = torch.tensor([0.5, 0.7], device=device), torch.tensor([3, 4], dtype=torch.int32, device=device)
    assert dense_top_m(rows, rows, np.int64(1))[0].tolist() == [[0], [1], [2]]  # type: ignore[arg-type]
    top_ids, *_ = segment_top_k(values, ids, torch.tensor([0, 2], device=device), np.int64(1))  # type: ignore[arg-type]
    assert top_ids.tolist() == [[4]]


def test_arrays_with_gaps(device: torch.device) -> None:
    graph = path_graph(device)
    batch = Ragged.from_rows([[0, 1], [1, 2]]).to(device)
    gaps = SparseMatrix(strided_ragged(graph.columns), strided(graph.weights), 3)
    expected, found = induced_transfer(batch, graph), induced_transfer(strided_ragged(batch), gaps)
    assert found.weights.columns.to_lists() == expected.weights.columns.to_lists()
    assert found.degrees.tolist() == expected.degrees.tolist() == [1, 1, 0.5, 0.5]
    assert widen(strided_ragged(batch), gaps).to_lists() == [[0, 1, 2], [0, 1, 2]]
    start = torch.full((4,), 0.5, device=device)
    transfer = SparseMatrix(strided_ragged(found.weights.columns), strided(found.weights.weights), 4)
    walk = Transfer(transfer, strided(found.degrees), strided(found.offsets))
    ranks = personalized_pagerank(walk, strided(start), damping=0.5, tolerance=1e-6, max_iterations=9)
    torch.testing.assert_close(ranks.values, start)
    counts, _ = term_counts(batch, 3)
    postings = counts.transpose()
    gaps = SparseMatrix(strided_ragged(postings.columns), strided(postings.weights), 2)
    lengths, frequency = torch.tensor([2.0, 2.0], device=device), torch.tensor([1, 2, 1], device=device)
    weighted = bm25_weights(postings, lengths, 2.0)
    torch.testing.assert_close(bm25_weights(gaps, lengths, 2.0).weights, weighted.weights)
    gaps = SparseMatrix(strided_ragged(weighted.columns), strided(weighted.weights), 2)
    torch.testing.assert_close(
        posting_scores(counts, gaps, strided(frequency), 2), posting_scores(counts, weighted, frequency, 2)
    )


@pytest.mark.parametrize("share", [torch.from_numpy, from_dlpack, torch.tensor])
def test_numbers_that_numpy_changes_later(share: Callable[[np.ndarray], torch.Tensor]) -> None:
    """They were looked through at the first call; at the second they must be again."""
    offsets, values = share(np.array([0, 1, 2])), torch.ones(2)
    assert segment_sum(values, offsets).tolist() == [1, 1]
    offsets.numpy()[1] = 1 << 40
    with pytest.raises(GTRError, match="must never fall"):
        segment_sum(values, offsets)


def test_numbers_that_are_replaced() -> None:
    offsets, values = torch.tensor([0, 1, 2]), torch.ones(2)
    assert segment_sum(values, offsets).tolist() == [1, 1]
    offsets.data = torch.tensor([0, 1 << 40, 2])
    with pytest.raises(GTRError, match="must never fall"):
        segment_sum(values, offsets)
