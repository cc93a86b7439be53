"""Term counts and BM25, beside a counter of Python's and the package bm25s."""

from collections import Counter

import bm25s
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import dispatch
from gtr_gpu.ops.lexical import bm25_scores, bm25_weights, posting_scores, term_counts
from gtr_gpu.ragged import Ragged, SparseMatrix

ROWS = st.lists(st.lists(st.integers(0, 12), max_size=20), min_size=1, max_size=12)


@given(rows=ROWS)
def test_term_counts_are_those_of_a_counter(device, rows):
    tokens = Ragged.from_rows(rows).to(device)
    marked = tokens.values % 2 == 0
    counts, marks = term_counts(tokens, 13, marked)
    assert counts.shape == (len(rows), 13)
    for row, terms in enumerate(rows):
        expected = Counter(terms)
        assert counts.columns[row].tolist() == sorted(expected)
        start = int(counts.columns.offsets[row])
        weights = counts.weights[start : start + len(expected)].tolist()
        assert weights == [expected[term] for term in sorted(expected)]
        in_marked = marks[start : start + len(expected)].tolist()
        assert in_marked == [expected[term] if term % 2 == 0 else 0 for term in sorted(expected)]


def test_term_counts_of_nothing(device):
    counts, marks = term_counts(Ragged.from_rows([[], []]).to(device), 0)
    assert counts.shape == (2, 0)
    assert counts.weights.numel() == marks.numel() == 0


def random_corpus(n_tables: int, n_terms: int, seed: int) -> list[list[int]]:
    """Rows of tokens with a few very common and many rare terms."""
    random = np.random.default_rng(seed)
    return [np.minimum(random.zipf(1.3, random.integers(1, 60)) - 1, n_terms - 1).tolist() for _ in range(n_tables)]


def own_scores(
    device: torch.device, corpus: list[list[int]], queries: list[list[int]], n_terms: int, **options: float
) -> torch.Tensor:
    counts, _ = term_counts(Ragged.from_rows(corpus).to(device), n_terms)
    query_terms, _ = term_counts(Ragged.from_rows(queries).to(device), n_terms)
    lengths = torch.tensor([len(row) for row in corpus], device=device)
    frequency = torch.bincount(counts.columns.values, minlength=n_terms)
    average = float(lengths.double().mean())
    scores = bm25_scores(query_terms, counts.transpose(), lengths, frequency, len(corpus), average, **options)
    return scores.cpu()


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (1.5, 0.0), (0.4, 1.0)])
def test_scores_are_those_of_bm25s(device, k1, b):
    n_terms = 80
    corpus = random_corpus(150, n_terms, seed=1)
    queries = [sorted(set(query)) for query in random_corpus(20, n_terms, seed=2)]
    oracle = bm25s.BM25(method="lucene", k1=k1, b=b, dtype="float64")
    vocabulary = {str(term): term for term in range(n_terms)}
    oracle.index((corpus, vocabulary), show_progress=False, create_empty_token=False)
    expected = torch.stack([torch.as_tensor(oracle.get_scores([str(t) for t in query])) for query in queries])
    assert int((expected > 0).sum()) > 500
    torch.testing.assert_close(
        own_scores(device, corpus, queries, n_terms, k1=k1, b=b).double(), expected, atol=1e-5, rtol=1e-5
    )


def test_a_hand_worked_score(device):
    # Two tables, the term in one of them: idf = ln(1 + 1.5 / 1.5), tf = 2, length 2 where the mean is 3.
    scores = own_scores(device, [[0, 0], [1, 1, 1, 1]], [[0], [0, 0]], 2, k1=1.2, b=0.75)
    expected = np.log(2) * 2 / (2 + 1.2 * (0.25 + 0.75 * 2 / 3))
    torch.testing.assert_close(scores, torch.tensor([[expected, 0], [2 * expected, 0]]).float())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), max_expanded=st.integers(1, 300))
def test_blocks_and_batches_change_nothing(device, seed, max_expanded):
    corpus, queries = random_corpus(70, 40, seed), random_corpus(6, 40, seed + 1)
    whole = own_scores(device, corpus, queries, 40)
    torch.testing.assert_close(
        own_scores(device, corpus, queries, 40, max_expanded=max_expanded), whole, atol=1e-5, rtol=0
    )
    for row, query in enumerate(queries):
        torch.testing.assert_close(own_scores(device, corpus, [query], 40)[0], whole[row], atol=1e-5, rtol=0)


def test_segments_score_like_the_whole(device):
    corpus, queries = random_corpus(100, 50, seed=3), random_corpus(5, 50, seed=4)
    counts, _ = term_counts(Ragged.from_rows(corpus).to(device), 50)
    query_terms, _ = term_counts(Ragged.from_rows(queries).to(device), 50)
    lengths = torch.tensor([len(row) for row in corpus], device=device)
    frequency = torch.bincount(counts.columns.values, minlength=50)
    average = float(lengths.double().mean())
    whole = bm25_scores(query_terms, counts.transpose(), lengths, frequency, 100, average)
    parts = []
    together = torch.full((5, 103), -1.0, device=device)
    for start, stop in ((0, 30), (30, 100)):
        part = counts.slice(start, stop)
        # A segment ends its vocabulary at the last term that it knows.
        width = int(part.columns.values.max()) + 1
        postings = SparseMatrix(part.columns, part.weights, width).transpose()
        parts.append(bm25_scores(query_terms, postings, lengths[start:stop], frequency, 100, average))
        weighted = bm25_weights(postings, lengths[start:stop], average)
        posting_scores(query_terms, weighted, frequency, 100, out=together, first_column=start + 2)
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=0)
    torch.testing.assert_close(together[:, 2:102], whole, atol=1e-5, rtol=0)
    assert (together[:, [0, 1, 102]] == -1).all(), "columns of other tables were written"


def test_no_queries_no_tables_no_shared_terms(device):
    assert own_scores(device, [[0], [1]], [], 3).shape == (0, 2)
    assert own_scores(device, [[0], [1]], [[2], []], 3).tolist() == [[0, 0], [0, 0]]
    none = SparseMatrix(Ragged.from_rows([]), torch.zeros(0, dtype=torch.int32), 3).to(device)
    query_terms, _ = term_counts(Ragged.from_rows([[0, 2]]).to(device), 3)
    nothing, frequency = torch.zeros(0, device=device), torch.zeros(3, dtype=torch.int64, device=device)
    assert bm25_scores(query_terms, none.transpose(), nothing, frequency, 0, 0.0).shape == (1, 0)


def test_many_tokens_and_questions_equal_plain_torch_whatever_the_threads(device):
    corpus, queries = random_corpus(700, 900, 7), random_corpus(33, 900, 8)
    corpus[5] = list(range(899, -1, -1)) * 2
    with dispatch.use("reference"):
        expected_counts, expected_marks = term_counts(Ragged.from_rows(corpus), 900, odd(corpus))
        expected = own_scores(torch.device("cpu"), corpus, queries, 900)
    found = []
    for n_threads in (1, 2):
        usual = torch.get_num_threads()
        torch.set_num_threads(n_threads)
        counts, marks = term_counts(Ragged.from_rows(corpus).to(device), 900, odd(corpus).to(device))
        found.append(own_scores(device, corpus, queries, 900))
        torch.set_num_threads(usual)
        for mine, theirs in (
            (counts.columns.values, expected_counts.columns.values),
            (counts.columns.offsets, expected_counts.columns.offsets),
            (counts.weights, expected_counts.weights),
            (marks, expected_marks),
        ):
            assert torch.equal(mine.cpu(), theirs)
    assert torch.equal(*found)
    torch.testing.assert_close(found[0], expected, atol=1e-5, rtol=0)


def odd(rows: list[list[int]]) -> torch.Tensor:
    return torch.tensor([token % 2 == 1 for row in rows for token in row])


def test_wrong_arguments_are_named(device):
    tokens = Ragged.from_rows([[0, 2], [1]]).to(device)
    counts, _ = term_counts(tokens, 3)
    postings, lengths = counts.transpose(), torch.ones(2, device=device)
    weighted = bm25_weights(postings, lengths, 1.5)
    frequency = torch.ones(3, dtype=torch.int64, device=device)
    with pytest.raises(GTRError, match=r"tokens.values must be from 0 to 1, got 2"):
        term_counts(tokens, 2)
    with pytest.raises(GTRError, match=r"tokens.values must be int32"):
        term_counts(Ragged(tokens.values.long(), tokens.offsets), 3)
    with pytest.raises(GTRError, match="marked must be bool"):
        term_counts(tokens, 3, tokens.values)
    with pytest.raises(GTRError, match=r"lengths must have the shape \[2\]"):
        bm25_weights(postings, lengths[1:], 1.5)
    with pytest.raises(GTRError, match=r"postings.weights must be int32"):
        bm25_weights(weighted, lengths, 1.5)
    with pytest.raises(GTRError, match=r"query_terms.weights must be int32"):
        posting_scores(weighted.transpose(), weighted, frequency, 2)
    with pytest.raises(GTRError, match=r"weighted.weights must be float32"):
        posting_scores(counts, postings, frequency, 2)
    with pytest.raises(GTRError, match="document_frequency must have one number for each of 3 terms, got 2"):
        posting_scores(counts, weighted, frequency[1:], 2)
    with pytest.raises(GTRError, match="document_frequency must be int64"):
        posting_scores(counts, weighted, frequency.int(), 2)
    with pytest.raises(GTRError, match=r"out must have the shape \[2, any\]"):
        posting_scores(counts, weighted, frequency, 2, out=torch.ones(3, 2, device=device))
    with pytest.raises(GTRError, match="out must be contiguous and have 2 columns from first_column=1 on"):
        posting_scores(counts, weighted, frequency, 2, out=torch.ones(2, 2, device=device), first_column=1)
