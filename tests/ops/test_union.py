"""Unions against Python's sets."""

import numpy as np
import pytest
import torch

from gtr_gpu.errors import GTRError
from gtr_gpu.ops.union import MAPPED_IDS, union
from gtr_gpu.ragged import Ragged


def rows_of(n_rows, span, seed, longest=200):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, span, rng.integers(0, longest)).tolist() for _ in range(n_rows)]


@pytest.mark.parametrize("n_batches", [1, 2, 5])
@pytest.mark.parametrize("n_rows", [0, 1, 2, 17])
@pytest.mark.parametrize("span", [1, 63, 64, 65, 1000, 300_000, MAPPED_IDS + 100])
def test_union_is_the_union_of_sets(device, n_batches, n_rows, span):
    batches = [rows_of(n_rows, span, seed) for seed in range(n_batches)]
    found = union([Ragged.from_rows(rows).to(device) for rows in batches])
    assert found.values.dtype == torch.int32
    assert found.to_lists() == [sorted(set().union(*rows)) for rows in zip(*batches, strict=True)]


def test_neighbouring_ids_share_a_word(device):
    row = list(range(5, 200)) * 2
    assert union([Ragged.from_rows([row, row[::-1]]).to(device)]).to_lists() == [row[:195]] * 2


def test_ids_up_to_the_last_that_is_mapped(device):
    for last in (MAPPED_IDS - 1, MAPPED_IDS, 2**31 - 1):
        found = union([Ragged.from_rows([[last, 3], []]).to(device), Ragged.from_rows([[3], [last]]).to(device)])
        assert found.to_lists() == [[3, last], [last]]


def test_rows_without_ids(device):
    empty = Ragged.from_rows([[], []]).to(device)
    assert union([empty, empty]).to_lists() == [[], []]
    assert union([empty, Ragged.from_rows([[], [7]]).to(device)]).to_lists() == [[], [7]]


def test_threads_change_nothing():
    batches = [Ragged.from_rows(rows_of(40, 5000, seed)) for seed in range(3)]
    usual, results = torch.get_num_threads(), []
    for n in (1, 2):
        torch.set_num_threads(n)
        results.append(union(batches))
    torch.set_num_threads(usual)
    assert torch.equal(results[0].values, results[1].values)
    assert torch.equal(results[0].offsets, results[1].offsets)


def test_wrong_arguments_are_named(device):
    one = Ragged.from_rows([[1]]).to(device)
    with pytest.raises(GTRError, match="at least one batch, got none"):
        union([])
    with pytest.raises(GTRError, match=r"one number of rows, got \[0, 1\]"):
        union([Ragged.from_rows([]).to(device), one])
    with pytest.raises(GTRError, match=r"batches\[1\]\.values must be int32"):
        union([one, Ragged(one.values.long(), one.offsets)])
    with pytest.raises(GTRError, match=r"batches\[1\]\.values must be from 0 to 2147483647, got -1"):
        union([one, Ragged.from_rows([[-1]]).to(device)])
    with pytest.raises(GTRError, match=r"batches\[0\]\.offsets must go from 0 to 1"):
        union([Ragged(one.values, one.offsets + 1), one])
