"""Scores with all tables at once: the numbers themselves, what is kept from one search to the next, and batches."""

import threading
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gtr_gpu import flat as flat_module
from gtr_gpu import index as index_module
from gtr_gpu.coarse import questions_at_once
from gtr_gpu.config import Config
from gtr_gpu.flat import FlatScores
from gtr_gpu.ops import dispatch, native
from gtr_gpu.ops.lexical import bm25_scores
from gtr_gpu.questions import QueryFeatures
from gtr_gpu.ragged import Ragged, SparseMatrix

N, N_TERMS, DIM, B = 700, 40, 24, 9
BACKENDS = ["reference", *(["native"] if native.extension() else [])]
CPU = torch.device("cpu")


def random(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


FEATURES = torch.nn.functional.normalize(random(N, DIM, seed=1))
COUNTS = ((random(N, N_TERMS, seed=2) - 1).clamp_min(0) * 2).ceil().int()
QUESTIONS = QueryFeatures(
    torch.nn.functional.normalize(random(B, DIM, seed=3)),
    None,
    SparseMatrix.from_entries(
        torch.arange(B).repeat(3), torch.arange(3 * B) % N_TERMS, torch.ones(3 * B, dtype=torch.int32), (B, N_TERMS)
    ),
)


def sparse(counts):
    rows, columns = counts.nonzero(as_tuple=True)
    return SparseMatrix.from_entries(rows, columns, counts[rows, columns], tuple(counts.shape))


def scores_of(bounds=(0, 500, N)):
    """The scores of a corpus that is cut into segments."""
    segments = [
        SimpleNamespace(
            start=start,
            stop=stop,
            semantic=FEATURES[start:stop],
            n_terms=N_TERMS,
            postings=lambda n_terms, part=COUNTS[start:stop]: sparse(part.T),
            lengths=COUNTS[start:stop].sum(1),
            not_finite=lambda start=start: ArithmeticError(f"segment from {start}"),
        )
        for start, stop in pairwise(bounds)
    ]
    lengths = COUNTS.sum(1)
    snapshot = SimpleNamespace(
        device=CPU,
        n_tables=N,
        n_alive=N,
        takeable=None,
        segments=segments,
        average_length=float(lengths.float().mean()),
    )
    snapshot.document_frequency = (COUNTS > 0).sum(0)
    return FlatScores(snapshot)


def expected(personalization, n):
    """The best tables of each question, by NumPy."""
    cosines = (QUESTIONS.semantic.double() @ FEATURES.double().T).numpy()
    lengths, frequency = COUNTS.sum(1), (COUNTS > 0).sum(0)
    words = bm25_scores(QUESTIONS.terms, sparse(COUNTS.T), lengths, frequency, N, float(lengths.float().mean()))
    words = words.double().numpy()
    if personalization == "semantic":
        scores = cosines
    else:
        scores = words / words.max(1, keepdims=True)
        if personalization == "mixed":
            cosines = cosines.clip(min=0)
            scores = 0.5 * scores + 0.5 * cosines / cosines.max(1, keepdims=True)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return [sorted(row) for row in order.tolist()], scores


@pytest.fixture(params=BACKENDS)
def backend(request):
    with dispatch.use(request.param):
        yield request.param


def config_of(personalization="mixed"):
    return Config(personalization=personalization, mix=0.5)


@pytest.mark.parametrize("rough", [True, False])
@pytest.mark.parametrize("n", [1, 20, N])
@pytest.mark.parametrize("personalization", ["semantic", "lexical", "mixed"])
@pytest.mark.parametrize("bounds", [(0, N), (0, 500, N), (0, 1, 2, N)])
def test_the_best_are_numpys(backend, personalization, n, bounds, rough, monkeypatch):
    if rough and backend == "reference":
        pytest.skip("plain torch knows no rough scores")
    monkeypatch.setattr(flat_module, "multiplies_bf16", lambda device: rough)
    tables, scores = scores_of(bounds).best(QUESTIONS, config_of(personalization), n)
    wanted, exact = expected(personalization, n)
    assert tables.to_lists() == wanted
    at = exact[tables.segment_ids().numpy(), tables.values.numpy()]
    np.testing.assert_allclose(scores.numpy(), at, atol=1e-5)


def test_room_is_used_again_by_smaller_and_equal_batches(backend):
    scores, config = scores_of(), config_of()
    whole = scores.best(QUESTIONS, config, 20)
    room = scores._room
    assert room.shape == (2, B * N)
    kept = [part.clone() for part in (whole[0].values, whole[0].offsets, whole[1])]
    for n_questions in (B, 2, 1, 5):
        found = scores.best(QUESTIONS.slice(0, n_questions), config, 20)
        assert scores._room is room, "a batch that fits takes no fresh memory"
        assert found[0].to_lists() == whole[0].to_lists()[:n_questions]
        torch.testing.assert_close(found[1], whole[1][: found[1].numel()], rtol=0, atol=1e-5)
    for before, now in zip(kept, (whole[0].values, whole[0].offsets, whole[1]), strict=True):
        assert torch.equal(before, now), "results don't lie in the room"


def test_room_grows_with_a_larger_batch(backend):
    scores, config = scores_of(), config_of()
    small = scores.best(QUESTIONS.slice(0, 2), config, 20)
    assert scores._room.shape == (2, 2 * N)
    large = scores.best(QUESTIONS, config, 20)
    assert scores._room.shape == (2, B * N)
    assert large[0].to_lists()[:2] == small[0].to_lists()


def spans(buffers):
    """Where each buffer begins and ends in memory."""
    return [(part.data_ptr(), part.data_ptr() + part.numel() * part.element_size()) for part in buffers]


def test_two_searches_at_once_share_no_room():
    scores = scores_of()
    with scores._buffers(4):
        pass
    with scores._buffers(4) as one, scores._buffers(3) as other, scores._buffers(5) as third:
        places = sorted(spans(one) + spans(other) + spans(third))
        assert all(end <= start for (_, end), (start, _) in pairwise(places))
        assert [tuple(part.shape) for part in (*one, *other)] == [(4, N)] * 2 + [(3, N)] * 2
    assert scores._room.shape == (2, 5 * N), "the largest is kept"


def test_a_search_that_fails_harms_no_other(backend, monkeypatch):
    scores, config = scores_of(), config_of()
    wanted = scores.best(QUESTIONS, config, 20)
    with monkeypatch.context() as patch:
        patch.setattr(scores, "lexical", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            scores.best(QUESTIONS, config, 20)
    found = scores.best(QUESTIONS, config, 20)
    assert found[0].to_lists() == wanted[0].to_lists()
    assert torch.equal(found[1], wanted[1])


@pytest.mark.parametrize("name", BACKENDS)
def test_threads_get_what_each_gets_alone(name):
    scores, config = scores_of(), config_of()
    parts = [QUESTIONS.slice(first, first + 3) for first in (0, 3, 6)]
    with dispatch.use(name):
        wanted = [scores.best(part, config, 20) for part in parts]
    wrong: list[int] = []
    ready = threading.Barrier(len(parts))

    def search(number):
        ready.wait()
        with dispatch.use(name):
            for _ in range(30):
                tables, found = scores.best(parts[number], config, 20)
                same = torch.equal(tables.values, wanted[number][0].values) and torch.equal(found, wanted[number][1])
                wrong.extend([] if same else [number])

    threads = [threading.Thread(target=search, args=(number,)) for number in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_weights_of_postings_are_kept_for_two_settings(monkeypatch):
    scores, made = scores_of(), []
    monkeypatch.setattr(
        flat_module,
        "bm25_weights",
        lambda postings, lengths, average, k1, b: made.append(k1) or postings.with_weights(postings.weights.float()),
    )
    for k1 in (1.0, 1.0, 2.0, 1.0, 2.0, 3.0, 3.0, 1.0):
        scores.lexical(QUESTIONS.terms, Config(bm25_k1=k1))
    # Two segments each time; the third setting drove out the first.
    assert made == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 1.0, 1.0]


@pytest.mark.parametrize("rough", [True, False])
@pytest.mark.parametrize("damaged", [0, 499, 500, N - 1])
def test_damaged_features_name_their_segment(damaged, rough, backend, monkeypatch):
    if rough and backend == "reference":
        pytest.skip("plain torch knows no rough scores")
    monkeypatch.setattr(flat_module, "multiplies_bf16", lambda device: rough)
    scores = scores_of()
    features = FEATURES.clone()
    features[damaged, 3] = torch.nan
    for segment in scores._snapshot.segments:
        segment.semantic = features[segment.start : segment.stop]
    with pytest.raises(ArithmeticError, match=f"segment from {500 if damaged >= 500 else 0}$"):
        scores.best(QUESTIONS, config_of("semantic"), 20)


# Of six tables in three segments the phrases, of which tables 1 and 5 are gone.
HELD = [{-7, 3}, {3, 9}, {2**62}, set(), {3, -(2**63)}, {5}]


def phrases_of(held=HELD, bounds=(0, 3, 4, 6), gone=(1, 5)):
    """The scores of a corpus that has nothing but phrases."""
    segments = []
    for start, stop in pairwise(bounds):
        hashes = sorted(set().union(*held[start:stop]))
        tables = [[n - start for n in range(start, stop) if one in held[n]] for one in hashes]
        postings = torch.tensor(hashes, dtype=torch.int64), Ragged.from_rows(tables)
        segments.append(Part(start, stop, postings))
    alive = torch.tensor([n not in gone for n in range(len(held))])
    takeable = None if alive.all() else alive
    counts = {"n_tables": len(held), "n_alive": int(alive.sum())}
    return FlatScores(SimpleNamespace(device=CPU, segments=segments, alive=alive, takeable=takeable, **counts))


class Part:
    """A segment's phrases."""

    def __init__(self, start, stop, postings):
        self.start, self.stop, self.phrase_postings = start, stop, postings

    def __len__(self):
        return self.stop - self.start


@pytest.mark.parametrize("gone", [(), (1, 5), (0, 2, 3)])
@pytest.mark.parametrize("bounds", [(0, 6), (0, 3, 4, 6), (0, 1, 2, 3, 4, 5, 6)])
def test_phrases_of_candidates_by_plain_python(backend, bounds, gone):
    asked = [[-(2**63), 3, 5, 6], [], [7, 8], [-7, 9, 2**62], [3]]
    tables = [[n for n in row if n not in gone] for row in ([0, 1, 2, 4], [0, 3], [2], [0, 1, 2, 3, 4, 5], [])]
    weights, matrix, idf = phrases_of(bounds=bounds, gone=gone).phrase_weights(
        Ragged.from_rows(asked, torch.int64), Ragged.from_rows(tables)
    )
    left = [phrases for n, phrases in enumerate(HELD) if n not in gone]
    frequency = {one: sum(one in phrases for phrases in left) for one in sorted(set().union(*asked))}
    known = [one for one, df in frequency.items() if df]
    assert matrix.columns.to_lists() == [[known.index(one) for one in row if one in known] for row in asked]
    assert matrix.weights.tolist() == [1] * matrix.columns.values.numel()
    assert matrix.n_columns == len(known)
    rarity = [np.log(1 + (len(left) - frequency[one] + 0.5) / (frequency[one] + 0.5)) for one in known]
    np.testing.assert_allclose(idf, rarity, rtol=1e-6)
    held = [
        float(one in HELD[n])
        for row, near in zip(asked, tables, strict=True)
        for n in near
        for one in row
        if one in known
    ]
    assert weights.tolist() == held


def test_nobody_has_a_phrase(backend):
    for scores, asked in ((phrases_of(), [[1, 2]]), (phrases_of(), [[]]), (phrases_of([set()], (0, 1), ()), [[3]])):
        weights, matrix, idf = scores.phrase_weights(Ragged.from_rows(asked, torch.int64), Ragged.from_rows([[0]]))
        assert (weights.numel(), matrix.shape, idf.numel()) == (0, (1, 0), 0)


@pytest.mark.parametrize("bounds", [(0, N), (0, 500, N)])
def test_cosines_of_candidates(bounds):
    """Of several segments no more features are read than those of the tables, unless all are there already."""
    scores = scores_of(bounds)
    scores._snapshot.semantic = lambda tables: FEATURES[tables.long()]
    tables = Ragged.from_rows([[3, 499, 500], *[[]] * 7, [0, N - 1]])
    wanted = (QUESTIONS.semantic[tables.segment_ids()].double() * FEATURES[tables.values.long()].double()).sum(1)
    for kept in (len(bounds) == 2, True):
        torch.testing.assert_close(scores.cosines(QUESTIONS.semantic, tables), wanted.float(), rtol=0, atol=1e-6)
        assert ("_features" in vars(scores)) == kept
        scores.dense(QUESTIONS.semantic)


@pytest.mark.parametrize("n_questions", [0, 1, 7, 8, 9, 17, 100, 101])
def test_batches_are_of_one_size(n_questions, monkeypatch):
    sizes = []

    def noted(queries, snapshot, config, n_found, k, edges):
        sizes.append(len(queries))
        return index_module._nothing(k, edges, [])

    reader = SimpleNamespace(read=lambda queries, *_: (Questions(len(queries)), []))
    snapshot = SimpleNamespace(n_tables=N, n_alive=N, device=CPU, config=Config(), seeds=None)
    self = SimpleNamespace(_snapshot=snapshot, _reader=reader, encoder=None)
    monkeypatch.setattr(index_module, "_search_batch", noted)
    monkeypatch.setattr(index_module, "questions_at_once", lambda *_: 8)
    result = index_module.GTRIndex.search(self, ["a"] * n_questions, 3)
    assert len(result) == 0
    assert sum(sizes) == n_questions
    assert len(sizes) == -(-n_questions // 8)
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


class Questions:
    """So many questions, without features."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def slice(self, start, stop):
        return Questions(stop - start)


@pytest.mark.parametrize(("name", "tables", "seeds"), [("native", 4, 10), ("reference", 17, 18)])
def test_as_many_questions_at_once_as_fit(name, tables, seeds):
    if name not in BACKENDS:
        pytest.skip("installed without a C++ compiler")
    snapshot = SimpleNamespace(n_tables=1 << 18, device=CPU)
    config = Config(batch_megabytes=1_000, n_seeds=1 << 16)
    with dispatch.use(name):
        n = questions_at_once(snapshot, config, 10)
        assert n == 1_000 * 2**20 // (4 * ((tables << 18) + (seeds << 16)))
        assert questions_at_once(snapshot, config, 1 << 17) < n, "more candidates than seeds"
        assert questions_at_once(snapshot, config.override({"n_seeds": 0}), 10) < n / 1.4, "all are candidates"
        assert questions_at_once(snapshot, config.override({"batch_megabytes": 1}), 10) == 1
        small = SimpleNamespace(n_tables=10, device=CPU)
        assert questions_at_once(small, config, 10) == 1_000 * 2**20 // (4 * ((tables << 14) + 10 * seeds))
