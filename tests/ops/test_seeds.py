"""The best tables by mixed scores, against NumPy in float64 and a sort."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError
from gtr_gpu.ops.halves import halve, halved_products
from gtr_gpu.ops.seeds import best_mixed, best_refined

WIDTHS = [1, 2, 31, 32, 33, 64, 100, 1000, 4097]


def scores_of(n_queries: int, n_tables: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cosines, BM25 scores that are mostly 0, and which tables are alive."""
    generator = torch.Generator().manual_seed(seed)
    semantic = torch.randn(n_queries, n_tables, generator=generator) * 0.3
    lexical = (torch.rand(n_queries, n_tables, generator=generator) * 12 - 8).clamp_min(0)
    return semantic, lexical, torch.rand(n_tables, generator=generator) < 0.9


def mixed(semantic: torch.Tensor | None, lexical: torch.Tensor | None, alive: np.ndarray, mix: float) -> np.ndarray:
    """The scores in float64; -inf for tables that are not alive."""

    def relative(rows: torch.Tensor) -> np.ndarray:
        clamped = np.where(alive, np.maximum(rows.double().numpy(), 0), 0)
        return clamped / np.maximum(clamped.max(1, keepdims=True), 1e-38)

    if lexical is None:
        assert semantic is not None
        scores = semantic.double().numpy()
    elif semantic is None:
        scores = relative(lexical)
    else:
        scores = mix * relative(semantic) + (1 - mix) * relative(lexical)
    return np.where(alive, scores, -np.inf)


@pytest.mark.parametrize("n_tables", WIDTHS)
@pytest.mark.parametrize("kinds", ["both", "semantic", "lexical"])
@pytest.mark.parametrize("masked", [False, True])
def test_the_best_by_mixed_scores(n_tables: int, kinds: str, masked: bool, device: torch.device) -> None:
    semantic, lexical, alive = scores_of(5, n_tables, n_tables)
    rows = [semantic if kinds != "lexical" else None, lexical if kinds != "semantic" else None]
    mask = alive.numpy() if masked else np.ones(n_tables, bool)
    expected = mixed(*rows, mask, 0.3)
    given_rows = [row if row is None else row.to(device) for row in rows]
    for n in (1, 7, 40, n_tables, n_tables + 5):
        tables, scores = best_mixed(*given_rows, alive.to(device) if masked else None, 0.3, n)
        wanted = min(n, int(mask.sum()))
        assert tables.lengths.tolist() == [wanted] * 5
        assert (tables.values.dtype, scores.dtype) == (torch.int32, torch.float32)
        for query in range(5):
            found = tables[query].long().cpu().numpy()
            assert (np.diff(found) > 0).all()
            assert mask[found].all()
            part = slice(int(tables.offsets[query]), int(tables.offsets[query + 1]))
            np.testing.assert_allclose(scores[part].cpu(), expected[query][found], atol=1e-6)
            if wanted:
                left = np.delete(expected[query], found).max(initial=-np.inf)
                assert expected[query][found].min() >= left - 1e-6


@given(
    rows=st.integers(1, 70).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([0.0, -0.0, 0.5, -1.0, 1.0, float("-inf")]), min_size=n, max_size=n),
            min_size=1,
            max_size=3,
        )
    ),
    n=st.integers(1, 75),
)
def test_ties_go_to_the_smaller_table(rows: list[list[float]], n: int, device: torch.device) -> None:
    tables, scores = best_mixed(torch.tensor(rows, device=device), None, None, 0.5, n)
    taken = [sorted(sorted(range(len(row)), key=lambda i, row=row: (-row[i], i))[:n]) for row in rows]
    expected = [[i for i in best if row[i] > float("-inf")] for best, row in zip(taken, rows, strict=True)]
    assert tables.to_lists() == expected
    assert scores.tolist() == [row[i] for best, row in zip(expected, rows, strict=True) for i in best]


def test_rows_of_zeros_give_the_first_tables(device: torch.device) -> None:
    zeros = torch.zeros(2, 500, device=device)
    alive = torch.ones(500, dtype=torch.bool)
    alive[[0, 3]] = False
    tables, scores = best_mixed(zeros, zeros, alive.to(device), 0.5, 4)
    assert tables.to_lists() == [[1, 2, 4, 5]] * 2
    assert scores.tolist() == [0.0] * 8


def test_the_best_of_removed_tables_counts_for_nothing(device: torch.device) -> None:
    semantic = torch.tensor([[0.9, 0.4, 0.2]], device=device)
    lexical = torch.tensor([[8.0, 0.0, 4.0]], device=device)
    alive = torch.tensor([False, True, True], device=device)
    tables, scores = best_mixed(semantic, lexical, alive, 0.25, 3)
    assert tables.to_lists() == [[1, 2]]
    assert scores.tolist() == pytest.approx([0.25, 0.25 * 0.5 + 0.75])


def test_no_queries_no_tables_and_none_alive(device: torch.device) -> None:
    nothing = torch.zeros(0, 9, device=device)
    assert len(best_mixed(nothing, nothing, None, 0.5, 3)[0]) == 0
    empty = torch.zeros(2, 0, device=device)
    assert best_mixed(empty, empty, None, 0.5, 3)[0].to_lists() == [[], []]
    ones, dead = torch.ones(2, 40, device=device), torch.zeros(40, dtype=torch.bool, device=device)
    assert best_mixed(ones, ones, dead, 0.5, 3)[0].to_lists() == [[], []]


def test_a_batch_is_its_queries_and_any_number_of_threads(device: torch.device) -> None:
    semantic, lexical, alive = (tensor.to(device) for tensor in scores_of(9, 3000, 5))
    tables, scores = best_mixed(semantic, lexical, alive, 0.5, 100)
    for query in range(9):
        own, own_scores = best_mixed(semantic[query : query + 1], lexical[query : query + 1], alive, 0.5, 100)
        assert own.values.equal(tables[query])
        assert own_scores.equal(scores[100 * query : 100 * (query + 1)])
    threads = torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            again, again_scores = best_mixed(semantic, lexical, alive, 0.5, 100)
            assert again.values.equal(tables.values)
            assert again_scores.equal(scores)
    finally:
        torch.set_num_threads(threads)


def test_views_are_taken(device: torch.device) -> None:
    semantic, lexical, _ = (tensor.to(device) for tensor in scores_of(6, 200, 5))
    whole, _ = best_mixed(semantic[::2].contiguous(), lexical[::2].contiguous(), None, 0.5, 9)
    assert best_mixed(semantic[::2], lexical[::2], None, 0.5, 9)[0].values.equal(whole.values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"semantic": None, "lexical": None}, "semantic and lexical must not both be None"),
        ({"semantic": [[1.0]]}, "semantic must be a tensor, got list"),
        ({"semantic": torch.ones(2, 3).double()}, "semantic must be float32, got float64"),
        ({"semantic": torch.ones(3)}, "semantic must have the shape"),
        ({"lexical": torch.ones(2, 4)}, r"lexical must have the shape \[2, 3\], got \[2, 4\]"),
        ({"lexical": torch.ones(2, 3).half()}, "lexical must be float32"),
        ({"alive": torch.ones(2, dtype=torch.bool)}, r"alive must have the shape \[3\]"),
        ({"alive": torch.ones(3)}, "alive must be bool"),
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"mix": 1.5}, "mix must be from 0 to 1, got 1.5"),
        ({"mix": float("nan")}, "mix must be from 0 to 1, got nan"),
    ],
)
def test_wrong_arguments_are_named(changes: dict[str, object], message: str, device: torch.device) -> None:
    usual = {"semantic": torch.ones(2, 3), "lexical": torch.ones(2, 3), "alive": None, "mix": 0.5, "n": 2}
    arguments = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in {**usual, **changes}.items()
    }
    with pytest.raises(GTRError, match=message):
        best_mixed(**arguments)


def rough_scores(
    n_queries: int, n_tables: int, dim: int, kind: torch.dtype, seed: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rough scores, how far they are off, and the questions and tables that they are of; many tables are alike."""
    generator = torch.Generator().manual_seed(seed)
    kinds = torch.randn(max(n_tables // 20, 1), dim, generator=generator)
    tables = kinds[torch.randint(len(kinds), (n_tables,), generator=generator)]
    tables = tables + 0.01 * torch.randn(n_tables, dim, generator=generator)
    tables = torch.nn.functional.normalize(tables, dim=1).to(device, kind)
    queries = torch.nn.functional.normalize(torch.randn(n_queries, dim, generator=generator), dim=1).to(device)
    rough = torch.empty(n_queries, n_tables, dtype=torch.bfloat16, device=device)
    errors = halved_products(queries, halve(tables), rough)
    return rough, errors, queries, tables


@pytest.mark.parametrize("n_queries", [0, 1, 3, 4, 50])
@pytest.mark.parametrize("dim", [1, 6, 17, 384])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_rough_scores_are_off_by_no_more_than_is_said(
    n_queries: int, dim: int, kind: torch.dtype, device: torch.device
) -> None:
    rough, errors, queries, tables = rough_scores(n_queries, 700, dim, kind, dim, device)
    exact = queries.double() @ tables.double().T
    off = (rough.double() - exact).abs() - rough.double().abs() / 256
    assert errors.shape == (n_queries,)
    assert (off <= errors[:, None]).all()
    assert (errors < 0.02).all()


def test_rough_scores_of_rows_that_are_no_numbers() -> None:
    rows = torch.ones(3, 4)
    rows[1, 2] = float("nan")
    assert not math.isfinite(halve(rows).longest)
    assert halve(torch.empty(0, 4)).longest == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": torch.zeros(2, 5)}, r"halves.rows must have the shape \[any, 5\], got \[9, 4\]"),
        ({"out": torch.zeros(2, 9)}, "out must be bfloat16, got float32"),
        ({"out": torch.zeros(2, 8, dtype=torch.bfloat16)}, r"out must have the shape \[2, 9\], got \[2, 8\]"),
    ],
)
def test_wrong_arguments_of_rough_scores(change: dict[str, torch.Tensor], message: str) -> None:
    arguments = {"queries": torch.zeros(2, 4), "out": torch.zeros(2, 9, dtype=torch.bfloat16), **change}
    with pytest.raises(GTRError, match=message):
        halved_products(arguments["queries"], halve(torch.zeros(9, 4)), arguments["out"])


@pytest.mark.parametrize("n_tables", [1, 31, 33, 1000, 4097])
@pytest.mark.parametrize("dim", [1, 17, 384])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
@pytest.mark.parametrize("with_words", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_refined_scores_are_those_of_all_tables(
    n_tables: int, dim: int, kind: torch.dtype, with_words: bool, masked: bool, device: torch.device
) -> None:
    rough, errors, queries, tables = rough_scores(5, n_tables, dim, kind, n_tables + dim, device)
    _, words, alive = (rows.to(device) for rows in scores_of(5, n_tables, n_tables))
    lexical, mask = words if with_words else None, alive if masked else None
    exact = queries.cpu().double() @ tables.cpu().double().T
    expected = mixed(exact, None if lexical is None else lexical.cpu(), np.ones(n_tables, bool), 0.3)
    if masked:
        expected = mixed(exact, None if lexical is None else lexical.cpu(), alive.cpu().numpy(), 0.3)
    for n in (1, 7, 40, n_tables):
        found, scores = best_refined(rough, errors, queries, tables, lexical, mask, 0.3, n)
        assert found.lengths.tolist() == [min(n, int(alive.sum()) if masked else n_tables)] * 5
        for query in range(5):
            taken = found[query].long().cpu().numpy()
            assert (np.diff(taken) > 0).all()
            part = slice(int(found.offsets[query]), int(found.offsets[query + 1]))
            np.testing.assert_allclose(scores[part].cpu(), expected[query][taken], atol=2e-6)
            if taken.size:
                left = np.delete(expected[query], taken).max(initial=-np.inf)
                assert expected[query][taken].min() >= left - 2e-6


@pytest.mark.parametrize("with_words", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_what_only_the_storing_of_scores_loses_is_refined_too(
    with_words: bool, sign: int, device: torch.device
) -> None:
    # Numbers that bf16 holds exactly, so that the products are exact until they are stored: up to half an ulp is lost.
    generator = torch.Generator().manual_seed(5)
    queries = sign * torch.ones(1, 3)
    tables = torch.tensor([1.0, 0, 0]) + torch.tensor([0, 2**-8, 2**-9]) * torch.randint(
        -1, 2, (3000, 3), generator=generator
    )
    rough = torch.empty(1, 3000, dtype=torch.bfloat16, device=device)
    given_rows = [queries.to(device), tables.to(device)]
    errors = halved_products(given_rows[0], halve(given_rows[1]), rough)
    words = (torch.rand(1, 3000, generator=generator) / 256).to(device) if with_words else None
    exact = (queries.double() @ tables.double().T)[0]
    expected = mixed(exact[None], None if words is None else words.cpu() + 0, np.ones(3000, bool), 0.99)[0]
    for n in (1, 10, 300):
        found, scores = best_refined(rough, errors, *given_rows, words, None, 0.99, n)
        taken = found[0].long().cpu().numpy()
        np.testing.assert_allclose(scores.cpu(), expected[taken], atol=1e-6)
        assert expected[taken].min() >= np.delete(expected, taken).max() - 1e-6


def test_scores_below_zero_everywhere_are_refined_too(device: torch.device) -> None:
    generator = torch.Generator().manual_seed(1)
    queries = torch.nn.functional.normalize(torch.randn(1, 17, generator=generator), dim=1).to(device)
    tables = -queries + 0.01 * torch.randn(600, 17, generator=generator).to(device)  # no table is near the question
    rough = torch.empty(1, 600, dtype=torch.bfloat16, device=device)
    errors = halved_products(queries, halve(tables), rough)
    assert (rough < 0).all()
    given_rows = [rough, errors, queries, tables]
    found, scores = best_refined(*given_rows, torch.zeros(1, 600, device=device), None, 0.5, 4)
    assert (found.to_lists(), scores.tolist()) == ([[0, 1, 2, 3]], [0.0] * 4)
    found, scores = best_refined(*given_rows, None, None, 0.5, 4)
    exact = (queries.double() @ tables.double().T)[0]
    assert found.to_lists() == [sorted(exact.topk(4).indices.tolist())]
    assert scores.tolist() == pytest.approx(exact[found[0].long()].tolist(), abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rough": torch.zeros(2, 9)}, "rough must be bfloat16, got float32"),
        ({"errors": torch.zeros(3)}, r"errors must have the shape \[2\], got \[3\]"),
        ({"queries": torch.zeros(2, 5)}, r"features must have the shape \[9, 5\], got \[9, 4\]"),
        ({"features": torch.zeros(9, 4, dtype=torch.float64)}, "features must be float32 or float16, got float64"),
        ({"lexical": torch.zeros(2, 8)}, r"lexical must have the shape \[2, 9\], got \[2, 8\]"),
        ({"n": 0}, "n must be at least 1, got 0"),
    ],
)
def test_wrong_arguments_of_refined_scores(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "rough": torch.zeros(2, 9, dtype=torch.bfloat16),
        "errors": torch.zeros(2),
        "queries": torch.zeros(2, 4),
        "features": torch.zeros(9, 4),
        "lexical": None,
        "alive": None,
        "mix": 0.5,
        "n": 3,
    }
    with pytest.raises(GTRError, match=message):
        best_refined(**{**arguments, **change})  # type: ignore[arg-type]
