"""Questions' words that candidates hold together with their neighbours, beside plain loops and BM25."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import dispatch
from gtr_gpu.ops.lexical import bm25_idf, posting_scores, term_weights
from gtr_gpu.ops.pooling import pooled_terms
from gtr_gpu.ops.transfer import induced_transfer
from gtr_gpu.ops.types import Transfer
from gtr_gpu.ragged import Ragged, SparseMatrix


@dataclass(frozen=True)
class Case:
    """What `pooled_terms` takes."""

    weights: torch.Tensor
    query_terms: SparseMatrix
    idf: torch.Tensor
    transfer: Transfer

    def pooled(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        matrix, offsets = self.transfer.weights.to(device), self.transfer.offsets.to(device)
        transfer = Transfer(matrix, self.transfer.degrees.to(device), offsets)
        return pooled_terms(self.weights.to(device), self.query_terms.to(device), self.idf.to(device), transfer)

    def alone(self, query: int) -> "Case":
        """One query of the batch."""
        first, last = self.transfer.offsets[query : query + 2].tolist()
        edges = self.transfer.weights.slice(first, last)
        columns = Ragged(edges.columns.values - first, edges.columns.offsets)
        terms = self.query_terms.slice(query, query + 1)
        sizes = self.transfer.offsets.diff() * self.query_terms.columns.lengths
        start = int(sizes[:query].sum())
        transfer = Transfer(
            SparseMatrix(columns, edges.weights, last - first),
            self.transfer.degrees[first:last],
            torch.tensor([0, last - first]),
        )
        return Case(self.weights[start : start + int(sizes[query])], terms, self.idf, transfer)


def made(sizes: list[int], n_terms: list[int], seed: int, edges: float = 4.0) -> Case:
    """So many candidates and terms of each query, and about so many edges of a candidate, not the same both ways."""
    random = np.random.default_rng(seed)
    held = [random.random((size, n)) * (random.random((size, n)) < 0.4) for size, n in zip(sizes, n_terms, strict=True)]
    vocabulary = max([3, *n_terms]) * 2
    terms = Ragged.from_rows([np.sort(random.choice(vocabulary, n, replace=False)) for n in n_terms])
    counts = torch.from_numpy(random.integers(1, 4, terms.values.numel()).astype(np.int32))
    rows, first = [], 0
    for size in sizes:
        rows += [first + np.flatnonzero(row) for row in random.random((size, size)) < min(1, edges / max(size, 1))]
        first += size
    columns = Ragged.from_rows(rows)
    factors = torch.from_numpy(1 - random.random(columns.values.numel()).astype(np.float32))
    offsets = torch.tensor(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    return Case(
        torch.from_numpy(np.concatenate([np.zeros(0), *(block.ravel() for block in held)]).astype(np.float32)),
        SparseMatrix(terms, counts, vocabulary),
        torch.from_numpy(random.uniform(0, 8, vocabulary + 2).astype(np.float32)),
        Transfer(SparseMatrix(columns, factors, first), torch.zeros(first), offsets),
    )


def by_loops(case: Case) -> tuple[list[float], list[float]]:
    """As the definition reads."""
    scores, shares, place = [], [], 0
    rows = case.transfer.weights
    edges = [
        list(zip(row, factors.tolist(), strict=True))
        for row, factors in zip(rows.columns.to_lists(), rows.weights.split(rows.columns.lengths.tolist()), strict=True)
    ]
    for query, terms in enumerate(case.query_terms.columns.to_lists()):
        first, last = case.transfer.offsets[query : query + 2].tolist()
        start = int(case.query_terms.columns.offsets[query])
        counts = case.query_terms.weights[start : start + len(terms)].tolist()
        size = (last - first) * len(terms)
        w = case.weights[place : place + size].view(last - first, len(terms)).tolist()
        place += size
        idf = [float(case.idf[term]) for term in terms]
        for t in range(first, last):
            score = share = 0.0
            for j in range(len(terms)):
                around = [(w[t - first][j], 1.0), *((w[u - first][j], factor) for u, factor in edges[t])]
                score += counts[j] * idf[j] * max(factor * weight for weight, factor in around)
                share += idf[j] * max([factor for weight, factor in around if weight > 0], default=0)
            scores.append(score)
            shares.append(share / sum(idf) if terms else 0)
    return scores, shares


def compare(found: tuple[torch.Tensor, torch.Tensor], expected: tuple[list[float], list[float]]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == torch.float32
        np.testing.assert_allclose(mine.cpu().numpy(), np.array(theirs, np.float32), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_terms", [1, 2, 7, 8, 9, 15, 16, 17, 33, 64])
def test_equals_plain_loops(device: torch.device, n_terms: int) -> None:
    case = made([5, 1, 33, 0, 64], [n_terms, n_terms, 1, n_terms, n_terms], n_terms)
    compare(case.pooled(device), by_loops(case))


@given(
    shape=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 20)), max_size=5),
    edges=st.sampled_from([0.0, 1.0, 30.0]),
    seed=st.integers(0, 1000),
)
def test_any_shape(device: torch.device, shape: list[tuple[int, int]], edges: float, seed: int) -> None:
    case = made([size for size, _ in shape], [n for _, n in shape], seed, edges)
    compare(case.pooled(device), by_loops(case))


def test_two_parts_of_a_table_by_hand(device: torch.device) -> None:
    """The first holds one word and the second the other; the edge is believed by half. The third knows neither."""
    case = Case(
        torch.tensor([0.5, 0, 0, 0.4, 0, 0]),
        SparseMatrix(Ragged.from_rows([[1, 3]]), torch.tensor([1, 2], dtype=torch.int32), 4),
        torch.tensor([9.0, 2, 9, 6]),
        Transfer(
            SparseMatrix(Ragged.from_rows([[1], [0, 2], [1]]), torch.tensor([0.5, 0.5, 0.25, 0.25]), 3),
            torch.zeros(3),
            torch.tensor([0, 3]),
        ),
    )
    scores, shares = case.pooled(device)
    assert scores.tolist() == pytest.approx([2 * 0.5 + 12 * 0.2, 2 * 0.25 + 12 * 0.4, 12 * 0.1])
    assert shares.tolist() == pytest.approx([(2 + 3) / 8, (1 + 6) / 8, 1.5 / 8])


def test_without_edges_it_is_bm25(device: torch.device) -> None:
    random = np.random.default_rng(0)
    held = torch.from_numpy((random.random((30, 200)) * (random.random((30, 200)) < 0.2)).astype(np.float32))
    terms, tables = held.nonzero(as_tuple=True)
    lengths = torch.bincount(terms, minlength=30)
    weighted = SparseMatrix(Ragged.from_lengths(tables.int(), lengths), held[terms, tables], 200).to(device)
    columns = Ragged.from_rows([np.sort(random.choice(30, 6, replace=False)) for _ in range(4)])
    query_terms = SparseMatrix(columns, torch.full((24,), 2, dtype=torch.int32), 30).to(device)
    candidates = Ragged.from_rows([np.sort(random.choice(200, 50, replace=False)) for _ in range(4)]).to(device)
    nothing = SparseMatrix(Ragged.from_rows([[]] * 200), torch.zeros(0), 200).to(device)
    weights = term_weights(query_terms, candidates, weighted)
    idf = bm25_idf(lengths.to(device), 200).float()
    scores, shares = pooled_terms(weights, query_terms, idf, induced_transfer(candidates, nothing))
    expected = posting_scores(query_terms, weighted, lengths.to(device), 200)
    expected = expected[candidates.segment_ids(), candidates.values.long()]
    assert (expected > 0).sum() > 100
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-5)
    assert ((shares > 0) == (expected > 0)).all()
    assert (shares <= 1).all()


def test_whom_all_neighbours_are_believed(device: torch.device) -> None:
    """All candidates of a query then hold what any of them does."""
    case = made([20], [10], seed=3)
    everyone = SparseMatrix(Ragged.from_rows([list(range(20))] * 20), torch.ones(400), 20)
    scores, shares = replace(case, transfer=replace(case.transfer, weights=everyone)).pooled(device)
    most = case.weights.view(20, 10).max(0).values
    idf = case.idf[case.query_terms.columns.values.long()]
    np.testing.assert_allclose(scores.cpu(), [float((most * idf * case.query_terms.weights).sum())] * 20, rtol=1e-6)
    np.testing.assert_allclose(shares.cpu(), [float(idf[most > 0].sum() / idf.sum())] * 20, rtol=1e-6)


@pytest.mark.parametrize("shape", [[], [(0, 0)], [(3, 0)], [(0, 3)], [(3, 0), (0, 2), (2, 1)]])
def test_no_query_no_term_no_candidate(device: torch.device, shape: list[tuple[int, int]]) -> None:
    case = made([size for size, _ in shape], [n for _, n in shape], 1)
    scores, shares = case.pooled(device)
    assert scores.shape == shares.shape == (sum(size for size, _ in shape),)
    compare((scores, shares), by_loops(case))


def test_terms_that_count_nothing(device: torch.device) -> None:
    case = made([6], [4], 2)
    scores, shares = replace(case, idf=torch.zeros_like(case.idf)).pooled(device)
    assert scores.tolist() == shares.tolist() == [0] * 6


def test_a_batch_equals_its_loop_and_threads_change_nothing(device: torch.device) -> None:
    case = made([400, 3, 100, 0, 37, 250], [15, 5, 30, 2, 0, 9], 4, edges=15)
    usual, found = torch.get_num_threads(), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(case.pooled(device))
    torch.set_num_threads(usual)
    compare(found[0], by_loops(case))
    loop = [case.alone(query).pooled(device) for query in range(6)]
    for part in range(2):
        assert torch.equal(found[0][part], found[1][part])
        assert torch.equal(torch.cat([one[part] for one in loop]), found[0][part])


@pytest.mark.parametrize("column", [-1, 2, 3, 2**31 - 1])
def test_an_edge_to_another_query(device: torch.device, column: int) -> None:
    """Candidates 0 and 1 are of the first query, 2 of the second; there is no 3."""
    case = made([2, 1], [2, 2], 0)
    for row in range(2):
        ends: list[list[int]] = [[], [], []]
        ends[row] = [column]
        edge = SparseMatrix(Ragged.from_rows(ends), torch.ones(1), 3)
        with pytest.raises(GTRError, match=r"transfer\.weights must join candidates of one query only"):
            replace(case, transfer=replace(case.transfer, weights=edge)).pooled(device)


def test_wrong_arguments_are_named(device: torch.device) -> None:
    case = made([4, 3], [2, 5], 0)
    transfer, terms = case.transfer, case.query_terms
    edges = transfer.weights
    wider = SparseMatrix(edges.columns, edges.weights, 8)
    wrong = {
        r"weights must have the shape \[23\], got \[22\]": replace(case, weights=case.weights[1:]),
        "weights must be float32": replace(case, weights=case.weights.double()),
        r"query_terms\.weights must be int32": replace(case, query_terms=terms.with_weights(terms.weights.long())),
        "idf must have one number for each of 10 terms, got 9": replace(case, idf=case.idf[:9]),
        "idf must be float32": replace(case, idf=case.idf.double()),
        r"transfer\.weights must have as many columns as rows": replace(
            case, transfer=replace(transfer, weights=wider)
        ),
        r"transfer\.offsets must go from 0 to 7": replace(
            case, transfer=replace(transfer, offsets=transfer.offsets[:2])
        ),
        r"transfer\.offsets must have one number more than the 2 rows of query_terms, got 4": replace(
            case, transfer=replace(transfer, offsets=torch.tensor([0, 4, 4, 7]))
        ),
        r"transfer\.weights\.weights must be float32": replace(
            case, transfer=replace(transfer, weights=edges.with_weights(edges.weights.double()))
        ),
        r"transfer\.weights\.columns\.values must be int32": replace(
            case,
            transfer=replace(
                transfer,
                weights=SparseMatrix(Ragged(edges.columns.values.long(), edges.columns.offsets), edges.weights, 7),
            ),
        ),
    }
    for message, given_case in wrong.items():
        with pytest.raises(GTRError, match=message):
            given_case.pooled(device)
    with dispatch.use("reference"):
        case.pooled(device)
