from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import dispatch, native
from gtr_gpu.ops.pagerank import personalized_pagerank
from gtr_gpu.ops.segments import segment_normalize, segment_sum
from gtr_gpu.ops.transfer import induced_transfer
from gtr_gpu.ops.types import Transfer
from gtr_gpu.ragged import Ragged, SparseMatrix

WALK = {"damping": 0.85, "tolerance": 1e-9, "max_iterations": 500}


def random_graph(n: int, density: float, seed: int, device: torch.device) -> SparseMatrix:
    generator = torch.Generator().manual_seed(seed)
    upper = (torch.rand(n, n, generator=generator) < density).triu(1)
    rows, columns = upper.nonzero(as_tuple=True)
    weights = torch.rand(rows.numel(), generator=generator) + 0.01
    rows, columns = torch.cat([rows, columns]), torch.cat([columns, rows])
    return SparseMatrix.from_entries(rows, columns, weights.repeat(2), (n, n)).to(device)


def random_batch(graph: SparseMatrix, n_queries: int, share: float, seed: int) -> tuple[Ragged, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(n_queries, graph.n_columns, generator=generator) < share
    candidates = Ragged.from_rows([row.nonzero()[:, 0] for row in chosen])
    h = segment_normalize(torch.rand(candidates.values.numel(), generator=generator), candidates.offsets)
    return candidates.to(graph.device), h.to(graph.device)


@pytest.mark.parametrize("damping", [0.0, 0.6, 0.85])
def test_equals_networkx_with_dangling_mass_to_the_personalization(damping: float, device: torch.device) -> None:
    graph = random_graph(60, 0.03, 1, device)
    candidates, h = random_batch(graph, 8, 0.5, 2)
    transfer = induced_transfer(candidates, graph)
    assert (transfer.degrees == 0).any(), "the case must have dangling candidates"
    ranks = personalized_pagerank(transfer, h, damping=damping, tolerance=1e-9, max_iterations=500)
    dense = graph.to("cpu").to_torch().to_dense().double().numpy()
    for query in range(len(candidates)):
        nodes = candidates[query].tolist()
        share = dict(zip(nodes, h[candidates.offsets[query] : candidates.offsets[query + 1]].tolist(), strict=True))
        induced = nx.Graph()
        induced.add_nodes_from(nodes)
        induced.add_weighted_edges_from((u, v, dense[u, v]) for u in nodes for v in nodes if u < v and dense[u, v] > 0)
        expected = nx.pagerank(induced, alpha=damping, personalization=share, dangling=share, tol=1e-12, max_iter=2000)
        found = ranks.values[candidates.offsets[query] : candidates.offsets[query + 1]]
        np.testing.assert_allclose(found.cpu(), [expected[node] for node in nodes], atol=1e-6)
    assert ranks.converged.all()


@given(n=st.integers(1, 30), density=st.floats(0, 0.3), seed=st.integers(0, 100))
def test_ranks_sum_to_one_and_a_batch_equals_its_loop(device: torch.device, n: int, density: float, seed: int) -> None:
    graph = random_graph(n, density, seed, device)
    candidates, h = random_batch(graph, 4, 0.6, seed)
    batch = personalized_pagerank(induced_transfer(candidates, graph), h, **WALK)
    sums = segment_sum(batch.values.double(), candidates.offsets)
    np.testing.assert_allclose(sums.cpu(), (candidates.lengths > 0).double().cpu(), atol=1e-5)
    for query in range(len(candidates)):
        one = candidates.slice(query, query + 1)
        window = slice(int(candidates.offsets[query]), int(candidates.offsets[query + 1]))
        alone = personalized_pagerank(induced_transfer(one, graph), h[window], **WALK)
        np.testing.assert_allclose(alone.values.cpu(), batch.values[window].cpu(), atol=1e-6)


def test_a_walk_that_is_cut_says_so(device: torch.device) -> None:
    graph = random_graph(30, 0.2, 0, device)
    candidates, h = random_batch(graph, 3, 0.9, 0)
    ranks = personalized_pagerank(
        induced_transfer(candidates, graph), h, damping=0.85, tolerance=1e-9, max_iterations=2
    )
    assert ranks.iterations.tolist() == [2, 2, 2]
    assert not ranks.converged.any()


def test_two_tables_by_hand(device: torch.device) -> None:
    # x = (1-a) h + a x_swapped, so x0 = (h0 (1-a) + a (1-a) h1) / (1-a^2) with h = (1, 0): 1 / (1+a).
    graph = SparseMatrix.from_entries(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([3.0, 3.0]), (2, 2))
    candidates, h = Ragged.from_rows([[0, 1]]).to(device), torch.tensor([1.0, 0.0], device=device)
    ranks = personalized_pagerank(induced_transfer(candidates, graph.to(device)), h, **WALK)
    assert ranks.values.tolist() == pytest.approx([1 / 1.85, 0.85 / 1.85], abs=1e-6)


@pytest.mark.parametrize("damping", [0.6, 0.85])
def test_iterations_are_those_of_float64(damping: float, device: torch.device) -> None:
    graph = random_graph(300, 0.006, 4, device)
    candidates, h = random_batch(graph, 20, 0.7, 5)
    h = h * (torch.rand(h.numel(), generator=torch.Generator().manual_seed(6)) < 0.2).to(h)
    transfer = induced_transfer(candidates, graph)
    assert (transfer.weights.columns.lengths == 1).sum() > 100, "the case must have leaves"
    walk = {"damping": damping, "tolerance": 1e-6, "max_iterations": 200}
    found = personalized_pagerank(transfer, segment_normalize(h, candidates.offsets), **walk)
    with dispatch.use("reference"):
        expected = personalized_pagerank(transfer, segment_normalize(h, candidates.offsets), **walk)
    assert (found.iterations == expected.iterations).all()
    assert (found.converged == expected.converged).all()
    torch.testing.assert_close(found.values, expected.values, rtol=0, atol=1e-6)


@pytest.mark.parametrize("damping", [0.3, 0.85, 0.95])
def test_ranks_come_to_rest_in_half_the_steps_of_the_power_iteration(damping: float, device: torch.device) -> None:
    graph = random_graph(400, 0.008, 7, device)
    candidates, h = Ragged.from_rows([list(range(400))]).to(device), torch.zeros(400, device=device)
    h[::40] = 0.1
    transfer = induced_transfer(candidates, graph)
    ranks = personalized_pagerank(transfer, h, damping=damping, tolerance=1e-6, max_iterations=500)
    weights, restart = graph.to("cpu").to_torch().to_dense().double(), h.cpu().double()
    degrees = weights.sum(1)
    assert (degrees == 0).any(), "the case must have dangling candidates"

    def moved(x: torch.Tensor) -> torch.Tensor:
        lost = x[degrees == 0].sum()
        return (1 - damping + damping * lost) * restart + damping * (weights @ torch.where(degrees > 0, x / degrees, 0))

    x, steps, change = restart, 0, 1.0
    while change >= 1e-6:
        new = moved(x)
        x, steps, change = new, steps + 1, float((new - x).abs().sum())
    found = ranks.values.cpu().double()
    assert ranks.converged.all()
    assert float((moved(found) - found).abs().sum()) < 1.5e-6, "the tolerance and what float32 rounds"
    assert int(ranks.iterations) <= (steps + 4 if damping < 0.5 else 0.6 * steps)


@pytest.mark.parametrize("most", [0, 1, 2, 3, 6])
def test_each_step_is_the_reference_s(most: int, device: torch.device) -> None:
    graph = random_graph(50, 0.03, 8, device)
    candidates, h = random_batch(graph, 6, 0.8, 8)
    h[::2] = 0
    transfer = induced_transfer(candidates, graph)
    walk = {"damping": 0.85, "tolerance": 1e-9, "max_iterations": most}
    found = personalized_pagerank(transfer, segment_normalize(h, candidates.offsets), **walk)
    with dispatch.use("reference"):
        expected = personalized_pagerank(transfer, segment_normalize(h, candidates.offsets), **walk)
    torch.testing.assert_close(found.values, expected.values, rtol=0, atol=1e-6)
    assert found.iterations.tolist() == [most] * 6


def test_threads_change_nothing(device: torch.device) -> None:
    graph = random_graph(200, 0.05, 3, device)
    candidates, h = random_batch(graph, 40, 0.5, 3)
    transfer = induced_transfer(candidates, graph)
    usual, found = torch.get_num_threads(), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(personalized_pagerank(transfer, h, **WALK))
    torch.set_num_threads(usual)
    assert torch.equal(found[0].values, found[1].values)
    assert torch.equal(found[0].iterations, found[1].iterations)


def test_rows_of_very_different_lengths(device: torch.device) -> None:
    n = 700
    rows, columns = torch.zeros(n - 1, dtype=torch.int64), torch.arange(1, n)
    more = torch.arange(1, 400)
    rows, columns = torch.cat([rows, more, more.new_full((50,), 5)]), torch.cat([columns, more + 200, more[:50] + 600])
    weights = torch.rand(rows.numel(), generator=torch.Generator().manual_seed(0)) + 0.1
    graph = SparseMatrix.from_entries(torch.cat([rows, columns]), torch.cat([columns, rows]), weights.repeat(2), (n, n))
    candidates, h = Ragged.from_rows([list(range(n))]).to(device), torch.full((n,), 1 / n, device=device)
    transfer = induced_transfer(candidates, graph.to(device))
    found = personalized_pagerank(transfer, h, **WALK)
    with dispatch.use("reference"):
        expected = personalized_pagerank(transfer, h, **WALK)
    torch.testing.assert_close(found.values, expected.values, rtol=0, atol=1e-6)


def test_wrong_arguments(device: torch.device) -> None:
    graph = random_graph(10, 0.5, 0, device)
    transfer = induced_transfer(Ragged.from_rows([[0, 1, 2], [3, 4]]).to(device), graph)
    h = torch.tensor([0.2, 0.3, 0.5, 0.5, 0.5], device=device)
    weights = transfer.weights
    wrong = {
        "personalization must be float32": (transfer, h.double()),
        "transfer.offsets must go from 0 to 4": (transfer, h[:4]),
        "transfer.degrees must be float32": (replace(transfer, degrees=transfer.degrees.double()), h),
        "transfer.weights.weights must be float32": (
            replace(transfer, weights=weights.with_weights(weights.weights.double())),
            h,
        ),
        "transfer.weights must be 5 by 5": (
            replace(transfer, weights=SparseMatrix(weights.columns, weights.weights, 6)),
            h,
        ),
    }
    for message, (given_transfer, given_h) in wrong.items():
        with pytest.raises(GTRError, match=message):
            personalized_pagerank(given_transfer, given_h, **WALK)


def test_an_entry_between_two_queries() -> None:
    if native.extension() is None:
        pytest.skip("installed without a C++ compiler")
    graph = SparseMatrix.from_entries(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([3.0, 3.0]), (2, 2))
    transfer = Transfer(graph, torch.tensor([3.0, 3.0]), torch.tensor([0, 1, 2]))
    with dispatch.use("native"), pytest.raises(GTRError, match="join candidates of one query only"):
        personalized_pagerank(transfer, torch.ones(2), **WALK)
