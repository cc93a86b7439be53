"""Counts over the tokens of each text, beside loops and NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import dispatch
from gtr_gpu.ops.counts import structural_counts
from gtr_gpu.ragged import Ragged

TOKENS = st.tuples(st.integers(-1, 3), st.integers(1, 12), st.booleans(), st.booleans())


@given(texts=st.lists(st.lists(TOKENS, max_size=6), max_size=6))
def test_segment_sums_are_those_of_a_loop(device, texts):
    flat = [token for text in texts for token in text]
    parts = torch.tensor([token[0] for token in flat], dtype=torch.int32)
    letters = torch.tensor([token[1] for token in flat], dtype=torch.int32)
    flags = torch.tensor([token[2:] for token in flat], dtype=torch.bool).view(-1, 2)
    ragged = Ragged.from_lengths(parts, torch.tensor([len(text) for text in texts], dtype=torch.int64))
    counts = structural_counts(ragged.to(device), letters.to(device), flags.to(device), 4)
    assert counts.shape == (len(texts), 8)
    for text, row in zip(texts, counts.tolist(), strict=True):
        words = [token[1] for token in text if not token[2]]
        expected = [len(text), sum(words) / len(words) if words else 0]
        expected += [sum(token[2] for token in text), sum(token[3] for token in text)]
        expected += [sum(token[0] == part for token in text) for part in range(4)]
        assert row == pytest.approx(expected)


def test_segments_may_be_empty_and_parts_none(device):
    ragged = Ragged.from_rows([[], [-1, -1], []])
    letters = torch.tensor([2, 4], dtype=torch.int32)
    counts = structural_counts(
        ragged.to(device), letters.to(device), torch.tensor([[False], [False]], device=device), 0
    )
    assert counts.tolist() == [[0, 0, 0], [2, 3, 0], [0, 0, 0]]


def random_texts(n_texts: int, longest: int, n_flags: int) -> tuple[Ragged, torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(5)
    lengths = torch.from_numpy(random.integers(0, longest, n_texts))
    n = int(lengths.sum())
    parts = torch.from_numpy(random.integers(-1, 17, n).astype(np.int32))
    letters = torch.from_numpy(random.integers(1, 30, n).astype(np.int32))
    flags = torch.from_numpy(random.random((n, n_flags)) < 0.2)
    return Ragged.from_lengths(parts, lengths), letters, flags


def test_many_texts_equal_plain_torch_whatever_the_threads(device):
    parts, letters, flags = random_texts(301, 97, 3)
    with dispatch.use("reference"):
        expected = structural_counts(parts, letters, flags, 17)
    for n_threads in (1, 2):
        usual = torch.get_num_threads()
        torch.set_num_threads(n_threads)
        found = structural_counts(parts.to(device), letters.to(device), flags.to(device), 17)
        torch.set_num_threads(usual)
        torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0)


def test_wrong_arguments_are_named(device):
    parts, letters, flags = (part.to(device) for part in random_texts(3, 9, 2))
    with pytest.raises(GTRError, match="letters must be int32"):
        structural_counts(parts, letters.long(), flags, 17)
    with pytest.raises(GTRError, match="letters must have the shape"):
        structural_counts(parts, letters[1:], flags, 17)
    with pytest.raises(GTRError, match="flags must be bool"):
        structural_counts(parts, letters, flags.int(), 17)
    with pytest.raises(GTRError, match="flags must have at least one column"):
        structural_counts(parts, letters, flags[:, :0], 17)
    with pytest.raises(GTRError, match=r"parts.values must be from -1 to 3"):
        structural_counts(parts, letters, flags, 4)
    with pytest.raises(GTRError, match=r"parts.offsets must go from 0"):
        structural_counts(Ragged(parts.values, parts.offsets + 1), letters, flags, 17)
