"""A segment's features: what goes into its arrays comes back."""

from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.features.heuristic import TermCounts
from gtr_gpu.ragged import Ragged, SparseMatrix
from gtr_gpu.segment import Features, Segment, features_layout
from gtr_gpu.storage.arrays import check_arrays

HASHES = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)


@given(st.lists(st.sets(HASHES, max_size=5), max_size=6))
def test_phrases_come_back(rows):
    """By phrase they rise, and so do the tables of each, which searches rely on; by table they are what they were."""
    n = len(rows)
    nothing = torch.empty(0, dtype=torch.int32)
    counts = SparseMatrix(Ragged.from_rows([[]] * n), nothing, 0)
    phrases = Ragged.from_rows([sorted(row) for row in rows], torch.int64)
    features = Features(torch.ones(n, 2), torch.ones(n, 1), TermCounts(counts, nothing), [], {}, phrases)
    arrays = features.to_arrays()
    check_arrays(Path("features"), arrays, features_layout(()), {"n": n})
    segment = Segment([], Path("features"), arrays, {}, 0)
    hashes, postings = segment.phrase_postings
    assert hashes.tolist() == sorted(set().union(*rows))
    assert postings.to_lists() == [[n for n, row in enumerate(rows) if one in row] for one in hashes.tolist()]
    assert segment.phrases.to_lists() == phrases.to_lists()
    assert torch.equal(segment.phrases.offsets, phrases.offsets)
