"""What each of a question's terms weighs in each of its candidates, beside a dense matrix of NumPy's."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import dispatch, lexical
from gtr_gpu.ops.lexical import term_weights, weight_offsets
from gtr_gpu.ragged import Ragged, SparseMatrix


@dataclass(frozen=True)
class Case:
    """Weights of terms in tables, questions, and their candidates."""

    dense: np.ndarray
    query_terms: SparseMatrix
    tables: Ragged

    def postings(self, start: int = 0, stop: int | None = None, n_terms: int | None = None) -> SparseMatrix:
        part = torch.from_numpy(self.dense[start:stop].T[:n_terms])
        terms, tables = part.nonzero(as_tuple=True)
        lengths = torch.bincount(terms, minlength=part.shape[0])
        return SparseMatrix(Ragged.from_lengths(tables.int(), lengths), part[terms, tables], part.shape[1])

    def expected(self) -> np.ndarray:
        rows = zip(self.tables.to_lists(), self.query_terms.columns.to_lists(), strict=True)
        blocks = [self.dense[np.ix_(tables, terms)].ravel() for tables, terms in rows]
        return np.concatenate([np.zeros(0, np.float32), *blocks])

    def weights(self, device: torch.device, *arguments: object, **named: object) -> torch.Tensor:
        postings = arguments[0] if arguments else self.postings()
        given = (self.query_terms.to(device), self.tables.to(device), postings.to(device))
        return term_weights(*given, *arguments[1:], **named)


def chosen(draws: np.ndarray) -> Ragged:
    return Ragged.from_rows([np.flatnonzero(row) for row in draws])


def made(n_tables: int, n_terms: int, n_queries: int, seed: int, density: float = 0.3) -> Case:
    """Terms of which some are in most tables and others in none or one."""
    random = np.random.default_rng(seed)
    shares = random.random(n_terms) ** 3
    held = random.random((n_tables, n_terms)) < shares
    held[:, ::5] = False
    held[: n_tables > 0, ::10] = True
    dense = (held * random.uniform(0.1, 1, held.shape)).astype(np.float32)
    columns = chosen(random.random((n_queries, n_terms)) < density)
    counts = torch.from_numpy(random.integers(1, 4, columns.values.numel()).astype(np.int32))
    tables = chosen(random.random((n_queries, n_tables)) < random.random((n_queries, 1)) ** 2)
    return Case(dense, SparseMatrix(columns, counts, n_terms), tables)


@pytest.fixture(params=["mapped", "searched"])
def lookup(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a map of the segment's tables, and without one, as for very many tables."""
    if request.param == "searched":
        monkeypatch.setattr(lexical, "_MAPPED_TABLES", -1)


@pytest.mark.parametrize("n_tables", [1, 2, 15, 17, 64, 300])
@pytest.mark.parametrize("n_terms", [1, 7, 40])
def test_weights_are_those_of_a_dense_matrix(device: torch.device, n_tables: int, n_terms: int, lookup: None) -> None:
    case = made(n_tables, n_terms, 6, n_tables + n_terms)
    found = case.weights(device)
    assert found.dtype == torch.float32
    assert found.cpu().numpy().tobytes() == case.expected().tobytes()


@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 60), max_size=3))
def test_segments_fill_one_array(device: torch.device, seed: int, cuts: list[int], lookup: None) -> None:
    """Whichever came first, and whatever stood in it: all tables are of one of them."""
    case = made(60, 25, 5, seed)
    bounds = sorted({0, 60, *cuts})
    segments = list(pairwise(bounds))
    out = torch.full((case.expected().size,), -7.0, device=device)
    for start, stop in reversed(segments):
        # A segment ends its vocabulary at the last term that it knows.
        known = np.flatnonzero(case.dense[start:stop].any(0))
        postings = case.postings(start, stop, int(known[-1]) + 1 if known.size else 0)
        assert case.weights(device, postings, start, out) is out
    assert np.array_equal(out.cpu().numpy(), case.expected())


def test_tables_of_other_segments(device: torch.device, lookup: None) -> None:
    dense = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    query_terms = SparseMatrix(Ragged.from_rows([[0, 2]]), torch.ones(2, dtype=torch.int32), 3)
    case = Case(dense, query_terms, Ragged.from_rows([[4, 6, 8, 11]]))
    # The segment's tables are 5 to 8, and it doesn't know the last term.
    postings = case.postings(n_terms=2)
    assert case.weights(device, postings, 5).tolist() == [0, 0, 4, 0, 10, 0, 0, 0]
    out = torch.full((8,), -1.0, device=device)
    assert case.weights(device, postings, 5, out).tolist() == [-1, -1, 4, 0, 10, 0, -1, -1]


def test_the_last_numbers_that_tables_may_have(device: torch.device, lookup: None) -> None:
    last = 2**31 - 1
    query_terms = SparseMatrix(Ragged.from_rows([[0]]), torch.ones(1, dtype=torch.int32), 1)
    for tables in ([last - 2, last], [0, last], [last - 1], list(range(last - 40, last + 1))):
        case = Case(np.array([[0.5], [0], [2]], np.float32), query_terms, Ragged.from_rows([tables]))
        expected = [{last - 2: 0.5, last: 2}.get(table, 0) for table in tables]
        assert case.weights(device, case.postings(), last - 2).tolist() == expected


@pytest.mark.parametrize(
    ("tables", "terms"),
    [
        ([], []),
        ([[], []], [[0, 1], []]),
        ([[0, 1], [2]], [[], []]),
        ([[], [1, 2], [0]], [[1], [], [0, 2]]),
    ],
)
@pytest.mark.parametrize("n_tables", [0, 3])
def test_nothing_to_look_up(
    device: torch.device, tables: list[list[int]], terms: list[list[int]], n_tables: int
) -> None:
    columns = Ragged.from_rows(terms)
    query_terms = SparseMatrix(columns, torch.ones(columns.values.numel(), dtype=torch.int32), 3)
    dense = np.arange(9, dtype=np.float32).reshape(3, 3) + 1
    case = Case(dense, query_terms, Ragged.from_rows(tables))
    found = case.weights(device, case.postings(0, n_tables))
    assert found.tolist() == (case.expected() if n_tables else np.zeros_like(case.expected())).tolist()
    starts = weight_offsets(case.tables.offsets, query_terms)
    assert starts.diff().tolist() == [len(a) * len(b) for a, b in zip(tables, terms, strict=True)]
    assert int(starts[-1]) == found.numel()


def test_many_tables_and_a_batch_equals_its_loop(device: torch.device, lookup: None) -> None:
    case = made(3000, 60, 9, seed=2)
    whole = case.weights(device)
    assert np.array_equal(whole.cpu().numpy(), case.expected())
    alone = [
        Case(case.dense, case.query_terms.slice(query, query + 1), case.tables.slice(query, query + 1)).weights(device)
        for query in range(9)
    ]
    assert torch.equal(torch.cat(alone), whole)


def test_threads_change_nothing(device: torch.device) -> None:
    case, usual = made(500, 30, 40, seed=3), torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found = case.weights(device)
        assert np.array_equal(found.cpu().numpy(), case.expected())
    torch.set_num_threads(usual)


@pytest.mark.parametrize("rows", [[[3, 1], []], [[0], [1, 1]], [[], [0, 2, 3, 2, 4]]])
def test_candidates_that_do_not_rise(device: torch.device, rows: list[list[int]]) -> None:
    case = made(5, 4, 2, seed=0, density=1)
    with pytest.raises(GTRError, match="tables must rise within each row and be distinct"):
        Case(case.dense, case.query_terms, Ragged.from_rows(rows)).weights(device)


@pytest.mark.parametrize("rows", [[[-1, 3], [0]], [[], [-(2**31)]]])
def test_candidates_below_zero(device: torch.device, rows: list[list[int]]) -> None:
    case = made(5, 4, 2, seed=0, density=1)
    with pytest.raises(GTRError, match=r"tables\.values must be from 0 to 2147483647, got -"):
        Case(case.dense, case.query_terms, Ragged.from_rows(rows)).weights(device)


def test_arrays_with_gaps(device: torch.device) -> None:
    def gaps(tensor: torch.Tensor) -> torch.Tensor:
        return torch.stack([tensor, torch.full_like(tensor, 99)], 1)[:, 0]

    def apart(matrix: SparseMatrix) -> SparseMatrix:
        columns = Ragged(gaps(matrix.columns.values), gaps(matrix.columns.offsets))
        return SparseMatrix(columns, gaps(matrix.weights), matrix.n_columns)

    case = made(40, 12, 3, seed=5)
    tables = Ragged(gaps(case.tables.values), gaps(case.tables.offsets)).to(device)
    found = term_weights(apart(case.query_terms.to(device)), tables, apart(case.postings().to(device)))
    assert np.array_equal(found.cpu().numpy(), case.expected())


def test_wrong_arguments_are_named(device: torch.device) -> None:
    case = made(5, 4, 2, seed=0, density=1)
    terms, tables, postings = (part.to(device) for part in (case.query_terms, case.tables, case.postings()))
    n = case.expected().size
    wrong = {
        r"query_terms\.weights must be int32": (postings, tables, postings),
        r"tables must have 2 rows, got 3": (terms, Ragged.from_rows([[1], [], [2]]).to(device), postings),
        r"tables\.values must be int32": (terms, Ragged(tables.values.long(), tables.offsets), postings),
        r"weighted\.weights must be float32": (terms, tables, postings.with_weights(postings.weights.double())),
        "first_table must be at least 0, got -1": (terms, tables, postings, -1),
        "first_table must be at most 2147483643, got": (terms, tables, postings, 2**31 - 4),
        rf"out must have the shape \[{n}\]": (terms, tables, postings, 0, torch.zeros(n + 1, device=device)),
        "out must be float32": (terms, tables, postings, 0, torch.zeros(n, dtype=torch.float64, device=device)),
        "out must be contiguous": (terms, tables, postings, 0, torch.zeros(n, 2, device=device)[:, 0]),
    }
    for message, arguments in wrong.items():
        with pytest.raises(GTRError, match=message):
            term_weights(*arguments)
    with dispatch.use("reference"):
        assert term_weights(terms, tables, postings, 2**31 - 5).eq(0).all()
