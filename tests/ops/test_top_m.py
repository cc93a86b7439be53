"""Exact top-m, beside full products of NumPy and SciPy, sorted with ties to the smaller id."""

import numpy as np
import pytest
import torch

from gtr_gpu.errors import GTRError
from gtr_gpu.ops.top_m import dense_top_m, merge_top_m


def expected_top(products, m, exclude=None, above=-np.inf, tie=None):
    """The m best columns of each row of a full matrix, by (product, tie break, smaller id), and their products."""
    ids = np.full((len(products), m), -1)
    best = np.full((len(products), m), -np.inf, dtype=np.float32)
    for row, line in enumerate(products):
        second = np.zeros(len(line)) if tie is None else -tie[row]
        order = np.lexsort((np.arange(len(line)), second, -line))
        kept = [c for c in order if line[c] > above and (exclude is None or c != exclude[row])][:m]
        ids[row, : len(kept)], best[row, : len(kept)] = kept, line[kept]
    return torch.as_tensor(ids, dtype=torch.int32), torch.as_tensor(best)


def whole_numbers(shape, seed, high=3):
    """Features whose products are exact in float32, with many ties."""
    return torch.as_tensor(np.random.default_rng(seed).integers(-high, high + 1, shape)).float()


@pytest.mark.parametrize("seed", range(12))
def test_dense_is_the_sorted_product(device, seed):
    random = np.random.default_rng(seed)
    n_queries, n_rows, m = random.integers(1, 40), random.integers(1, 3000 if seed % 2 else 70), random.integers(1, 12)
    queries, rows = whole_numbers((n_queries, 4), seed), whole_numbers((n_rows, 4), seed + 1)
    exclude = torch.as_tensor(random.integers(-1, n_rows, n_queries))
    wanted_ids, wanted = expected_top((queries @ rows.T).numpy(), m, exclude.numpy())
    for max_tile in (1, 1 << 13, 1 << 24):
        ids, best = dense_top_m(queries.to(device), rows.to(device), int(m), exclude.to(device), max_tile)
        assert torch.equal(ids.cpu(), wanted_ids)
        assert torch.equal(best.cpu(), wanted)
        assert ids.dtype == torch.int32


@pytest.mark.parametrize("m", [1, 5, 150, 400])
def test_dense_over_several_tiles_of_rows(device, m):
    queries, rows = whole_numbers((23, 3), 1, high=1), whole_numbers((333, 3), 2, high=1)
    for max_tile in (1, 4 * 256, 40 * 256):
        ids, best = dense_top_m(queries.to(device), rows.to(device), m, max_tile=max_tile)
        wanted_ids, wanted = expected_top((queries @ rows.T).numpy(), m)
        assert torch.equal(ids.cpu(), wanted_ids)
        assert torch.equal(best.cpu(), wanted)


@pytest.mark.parametrize("dim", [1, 6, 17, 100, 384, 768, 1500])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dense_of_all_widths_and_types(device, dim, dtype):
    rows = torch.randn(77, dim, generator=torch.Generator().manual_seed(dim)).to(dtype)
    ids, best = dense_top_m(rows[:20].to(device), rows.to(device), 3, torch.arange(20).to(device))
    products = (rows[:20].double() @ rows.double().T).fill_diagonal_(-torch.inf)
    torch.testing.assert_close(best.cpu(), products.topk(3).values.float(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(products.gather(1, ids.cpu().long()).float(), best.cpu(), rtol=1e-5, atol=1e-4)


def test_dense_of_equal_rows_takes_the_smaller_ids(device):
    same = torch.ones(5, 3, device=device)
    ids, _ = dense_top_m(same, same, 2, torch.arange(5, device=device))
    assert ids.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]
    many = torch.ones(2100, 1, device=device)
    assert dense_top_m(many[:2], many, 1200, max_tile=2 * 1500)[0].tolist() == [list(range(1200))] * 2


@pytest.mark.parametrize(("n_queries", "n_rows", "m"), [(0, 3, 2), (3, 0, 2), (2, 2, 0)])
def test_dense_of_nothing(device, n_queries, n_rows, m):
    ids, best = dense_top_m(torch.zeros(n_queries, 2, device=device), torch.zeros(n_rows, 2, device=device), m)
    assert ids.shape == best.shape == (n_queries, m)
    assert (ids == -1).all()


def test_dense_of_one_thread_and_two_are_the_same_bytes():
    rows = torch.randn(700, 33, generator=torch.Generator().manual_seed(5))
    threads, found = torch.get_num_threads(), []
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        found.append(dense_top_m(rows, rows, 6, torch.arange(700)))
    torch.set_num_threads(threads)
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": torch.zeros(2, 3, dtype=torch.int32)}, "queries must be float32"),
        ({"rows": torch.zeros(4, 2)}, r"rows must have the shape \[any, 3\]"),
        ({"m": -1}, "m must be at least 0"),
        ({"max_tile": 0}, "max_tile must be at least 1"),
        ({"exclude": torch.zeros(3, dtype=torch.int64)}, r"exclude must have the shape \[2\]"),
        ({"exclude": torch.tensor([0, 4])}, "exclude must be from -1 to 3"),
    ],
)
def test_dense_names_what_is_wrong(change, message):
    given = {"queries": torch.zeros(2, 3), "rows": torch.zeros(4, 3), "m": 1} | change
    with pytest.raises(GTRError, match=message):
        dense_top_m(**given)


def test_merge_pads_and_breaks_ties(device):
    ids = torch.tensor([[7, 3], [4, -1]], dtype=torch.int32, device=device)
    scores = torch.tensor([[0.9, 0.5], [0.2, -torch.inf]], device=device)
    more_ids = torch.tensor([[2, 9, 1], [8, 6, 5]], device=device)
    more = torch.tensor([[0.5, 0.9, 0.1], [-torch.inf] * 3], device=device)
    merged, best = merge_top_m(ids, scores, more_ids, more)
    assert merged.tolist() == [[7, 9], [4, -1]]
    assert best.tolist()[0] == pytest.approx([0.9, 0.9])
    assert best.tolist()[1] == [pytest.approx(0.2), -torch.inf]


@pytest.mark.parametrize(
    ("place", "wrong", "message"),
    [
        (0, torch.zeros(2, 2), "ids must be int32"),
        (1, torch.zeros(2, 3), r"scores must have the shape \[2, 2\]"),
        (2, torch.zeros(1, 3, dtype=torch.int64), r"more_ids must have the shape \[2, any\]"),
        (3, torch.zeros(2, 4), r"more_scores must have the shape \[2, 3\]"),
    ],
)
def test_merge_names_what_is_wrong(place, wrong, message):
    given = [torch.zeros(2, 2, dtype=torch.int32), torch.zeros(2, 2), torch.zeros(2, 3, dtype=torch.int64)]
    given.append(torch.zeros(2, 3))
    given[place] = wrong
    with pytest.raises(GTRError, match=message):
        merge_top_m(*given)
