"""The metrics against trec_eval's own code, and by hand."""

import pytest
import pytrec_eval
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.evaluation.metrics import acc_at_k, measure, mrr, ndcg_at_k, recall_at_k
from gtr_gpu.evaluation.metrics.hits import hits
from gtr_gpu.ragged import Ragged

CUTS = (1, 2, 5, 10)


@st.composite
def rankings(draw):
    n_tables, width = draw(st.integers(1, 25)), draw(st.integers(1, 12))
    ids, gold = [], []
    for _ in range(draw(st.integers(1, 6))):
        found = draw(st.permutations(range(n_tables)))[: draw(st.integers(0, width))]
        ids.append(list(found) + [-1] * (width - len(found)))
        gold.append(draw(st.permutations(range(n_tables)))[: draw(st.integers(1, n_tables))])
    return torch.tensor(ids), gold


@given(rankings())
def test_as_trec_eval(case):
    ids, gold = case
    runs = {
        f"q{q}": {f"t{table}": float(1000 - place) for place, table in enumerate(row) if table >= 0}
        for q, row in enumerate(ids.tolist())
    }
    names = {f"recall.{','.join(map(str, CUTS))}", f"ndcg_cut.{','.join(map(str, CUTS))}", "recip_rank"}
    judged = {f"q{q}": {f"t{table}": 1 for table in row} for q, row in enumerate(gold)}
    theirs = pytrec_eval.RelevanceEvaluator(judged, names).evaluate({q: run for q, run in runs.items() if run})
    ours = measure(ids, Ragged.from_rows(gold), CUTS)
    for q, row in enumerate(gold):
        expected = theirs.get(f"q{q}")  # it knows nothing of a question without any result
        for k in CUTS:
            recall = expected[f"recall_{k}"] if expected else 0.0
            assert ours[f"Recall@{k}"][q].item() == pytest.approx(recall)
            assert ours[f"nDCG@{k}"][q].item() == pytest.approx(expected[f"ndcg_cut_{k}"] if expected else 0.0)
            assert ours[f"Acc@{k}"][q].item() == (set(row) <= set(ids[q, :k].tolist()))
        assert ours["MRR"][q].item() == pytest.approx(expected["recip_rank"] if expected else 0.0)


def test_by_hand():
    ids = torch.tensor([[4, 2, 9, 7], [1, 3, -1, -1], [8, 5, 6, 0]])
    gold = Ragged.from_rows([[2, 7], [3], [1, 2, 3, 4, 5]])
    assert acc_at_k(ids, gold, 3).tolist() == [0, 1, 0]
    assert acc_at_k(ids, gold, 4).tolist() == [1, 1, 0]
    assert recall_at_k(ids, gold, 3).tolist() == [0.5, 1, 0.2]
    assert mrr(ids, gold, 4).tolist() == [0.5, 0.5, 0.5]
    assert mrr(ids, gold, 1).tolist() == [0, 0, 0]
    log3 = torch.log2(torch.tensor(3.0, dtype=torch.float64))
    torch.testing.assert_close(ndcg_at_k(ids, gold, 2)[1], 1 / log3)
    torch.testing.assert_close(ndcg_at_k(ids, gold, 2)[0], (1 / log3) / (1 + 1 / log3))
    # Five gold tables, of which two places can hold two at most.
    torch.testing.assert_close(ndcg_at_k(ids, gold, 2)[2], (1 / log3) / (1 + 1 / log3))


def test_padding_is_never_a_hit():
    assert not hits(torch.tensor([[-1, -1]]), Ragged.from_rows([[0]]), 2).any()
    # -1 of the second question must not be taken for the last table of the first one.
    assert not hits(torch.tensor([[0], [-1]]), Ragged.from_rows([[2], [1]]), 1).any()


def test_what_can_not_be_measured():
    ids = torch.tensor([[0, 1]])
    with pytest.raises(ValueError, match="question 0 has no gold table"):
        recall_at_k(ids, Ragged.from_rows([[]]), 1)
    with pytest.raises(ValueError, match="question 0 has no gold table"):
        mrr(ids, Ragged.from_rows([[]]), 1)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        acc_at_k(ids, Ragged.from_rows([[0]]), 0)
    with pytest.raises(ValueError, match="one ranking for each of 2 questions, got 1"):
        ndcg_at_k(ids, Ragged.from_rows([[0], [1]]), 1)


def test_no_question_and_no_place():
    nothing = measure(torch.zeros(0, 3, dtype=torch.int64), Ragged.from_rows([]), (1, 10))
    assert all(values.shape == (0,) for values in nothing.values())
    empty = measure(torch.zeros(2, 0, dtype=torch.int64), Ragged.from_rows([[0], [1, 2]]), (1, 10))
    assert all(values.tolist() == [0, 0] for values in empty.values())
