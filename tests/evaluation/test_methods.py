"""Each method against other people's code, a plain loop or a case worked by hand."""

import bm25s
import numpy as np
import pytest
import Stemmer
import torch
from hypothesis import given
from hypothesis import strategies as st
from index_fakes import make_queries, make_tables, text_vector
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity
from task_fakes import make_task

from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError
from gtr_gpu.evaluation import coarse_stage
from gtr_gpu.evaluation.coarse_stage import coverage_of
from gtr_gpu.evaluation.corpus import ask, blind
from gtr_gpu.evaluation.methods.expansion import Expansion
from gtr_gpu.evaluation.methods.method import Resources, Scorer, best
from gtr_gpu.evaluation.methods.registry import METHODS, chosen
from gtr_gpu.index import GTRIndex
from gtr_gpu.linearize import heuristic_fields, table_text
from gtr_gpu.progress import ENCODING, LOADING_ENCODER, Silent
from gtr_gpu.ragged import Ragged
from gtr_gpu.tables import Table

TABLES = make_tables(60)
QUERIES = make_queries(TABLES, 12)


def ranked(name, resources, tables=TABLES, queries=QUERIES, k=10):
    method = METHODS[name].make(resources)
    assert method.name == name
    method.index(tables)
    return method.rank(queries, k)


def scores_of(name, resources, tables=TABLES, queries=QUERIES):
    method = METHODS[name].make(resources)
    method.index(tables)
    return method.score(queries)


def words(cells):
    fields = [heuristic_fields(table, Config()) for table in TABLES]
    return [f"{schema}\n{rows}" if cells else schema for schema, rows in fields]


def by_loop(scores, k):
    """The k best of each row, ties by the smaller number, -1 for -inf."""
    rows = []
    for row in scores.tolist():
        order = sorted((place for place in range(len(row)) if row[place] > -np.inf), key=lambda p: (-row[p], p))
        rows.append((order + [-1] * k)[:k])
    return rows


@pytest.mark.parametrize("read", ["schema", "all"])
def test_bm25_as_bm25s_retrieves(read, resources):
    scorer = bm25s.BM25(method="lucene")
    reading = {"stopwords": "en", "stemmer": Stemmer.Stemmer("english"), "show_progress": False}
    scorer.index(bm25s.tokenize(words(read == "all"), **reading), show_progress=False)
    asked = bm25s.tokenize(QUERIES, **reading)
    _, theirs = scorer.retrieve(asked, k=5, show_progress=False)
    ours = ranked(f"bm25-{read}", resources, k=5)
    np.testing.assert_allclose(np.maximum(ours.scores.numpy(), 0), theirs, rtol=1e-5)
    assert (ours.ids < 0).equal(ours.scores == -torch.inf)


def test_bm25_finds_other_forms_of_a_word(resources):
    tables = [Table("t0", "countries", ["nation"], []), Table("t1", "rivers", ["length"], [])]
    assert ranked("bm25-all", resources, tables, ["which country", "the river"], k=1).ids.tolist() == [[0], [1]]


@pytest.mark.parametrize("read", ["schema", "all"])
def test_tfidf_as_scikit_learn(read, resources):
    vectorizer = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    rows = vectorizer.fit_transform(words(read == "all"))
    theirs = cosine_similarity(vectorizer.transform(QUERIES), rows)
    np.testing.assert_allclose(scores_of(f"tfidf-{read}", resources), theirs, atol=1e-6)


@pytest.mark.parametrize("read", ["schema", "all"])
def test_dense_as_a_product(read, resources):
    config = Config(encode_rows=read == "all")
    theirs = np.array(
        [[float(text_vector(q) @ text_vector(table_text(t, config).joined())) for t in TABLES] for q in QUERIES]
    )
    np.testing.assert_allclose(scores_of(f"dense-{read}", resources), theirs, atol=1e-5)


@pytest.mark.parametrize("read", ["schema", "all"])
def test_fusions_by_loops(read, resources):
    bm25, dense = (scores_of(f"{name}-{read}", resources).double().numpy() for name in ("bm25", "dense"))
    mixed, fused = np.zeros_like(bm25), np.zeros_like(bm25)
    for row in range(len(QUERIES)):
        for scores, words_only in ((bm25[row], True), (dense[row], False)):
            mixed[row] += 0.5 * (scores - scores.min()) / (scores.max() - scores.min())
            found = by_loop(np.where(words_only & (scores <= 0), -np.inf, scores)[None], 60)[0]
            for rank, place in enumerate(found, 1):
                if place >= 0:
                    fused[row, place] += 1 / (60 + rank)
    np.testing.assert_allclose(scores_of(f"mix-{read}", resources), mixed, atol=1e-5)
    np.testing.assert_allclose(scores_of(f"rrf-{read}", resources), fused, atol=1e-6)


class Given(Scorer):
    """Scores that are given."""

    def __init__(self, scores, resources):
        super().__init__(resources)
        self.scores = scores

    def index(self, tables):
        self.n_tables = len(tables)

    def score(self, queries):
        return self.scores[[int(query) for query in queries]]


def test_expansion_by_hand(resources):
    captions = ["a", "", "B ", "a", "", "b", "c", "A"]
    tables = [Table(f"t{row}", caption, ["x"], []) for row, caption in enumerate(captions)]
    scores = torch.tensor([[0.1, 0.8, 0.9, 0.7, 0.2, 0.0, 0.75, 0.3]])
    method = Expansion("expanded", Given(scores, resources), "caption", resources)
    method.index(tables)
    # b first with both its tables; the two without a caption stay alone; a's best is its third table.
    assert method.rank(["0"], 8).ids.tolist() == [[2, 5, 1, 6, 3, 7, 0, 4]]
    assert method.rank(["0"], 3).ids.tolist() == [[2, 5, 1]]


@given(st.data())
def test_expansion_by_loops(data):
    n = data.draw(st.integers(1, 14))
    captions = data.draw(st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=n, max_size=n))
    numbers = st.sampled_from([-np.inf, 0.0, 0.25, 0.5, 1.0])
    row = data.draw(st.lists(numbers, min_size=n, max_size=n))
    k = data.draw(st.integers(1, 16))
    tables = [Table(f"t{place}", caption, [], []) for place, caption in enumerate(captions)]
    quiet = Resources(None, None, Silent())
    method = Expansion("expanded", Given(torch.tensor([row]), quiet), "caption", quiet)
    method.index(tables)
    names = [caption or place for place, caption in enumerate(captions)]
    numbering = {name: number for number, name in reversed(list(enumerate(dict.fromkeys(names))))}
    top = {name: max(score for score, of in zip(row, names, strict=True) if of == name) for name in names}
    order = sorted(
        (place for place in range(n) if top[names[place]] > -np.inf),
        key=lambda place: (-top[names[place]], numbering[names[place]], -row[place], place),
    )
    assert method.rank(["0"], k).ids.tolist() == [(order + [-1] * k)[:k]]


def test_expansion_by_header(resources):
    tables = [Table(f"t{row}", "same", header, []) for row, header in enumerate([["a", "b"], ["b", "a"], ["A ", "b"]])]
    method = Expansion("expanded", Given(torch.tensor([[0.5, 0.4, 0.1]]), resources), "header", resources)
    method.index([*tables, Table("t3", "same", ["", ""], []), Table("t4", "same", ["", ""], [])])
    method._of.scores = torch.tensor([[0.5, 0.4, 0.1, 0.45, 0.05]])
    assert method.rank(["0"], 5).ids.tolist() == [[0, 2, 3, 1, 4]]


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 12), st.randoms(use_true_random=False))
def test_best_by_loops(n_queries, n_tables, k, rng):
    rows = [[rng.choice([-np.inf, 0.0, 0.5, 1.0]) for _ in range(n_tables)] for _ in range(n_queries)]
    assert best(torch.tensor(rows), k).ids.tolist() == by_loop(np.array(rows), k)


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_gtr_as_the_index_finds(preset, resources, tmp_path):
    index = GTRIndex.build(TABLES, tmp_path / "index", config=Config.preset(preset))
    expected = index.search(QUERIES, 20)
    ours = ranked(f"gtr-{preset}", resources, k=20)
    assert ours.ids.equal(expected.ids) and ours.scores.equal(expected.scores)


def test_the_papers_last_round_keeps_what_it_keeps(resources):
    """Asked for 60, the walk would rank its best 60 anew and not its best 50."""
    ours = ranked("gtr-paper", resources, k=60)
    assert ours.ids.shape == (12, 60) and (ours.ids[:, 50:] == -1).all()
    assert ours.ids[:, :50].equal(ranked("gtr-paper", resources, k=50).ids)


@pytest.mark.parametrize("modality", ["semantic", "structural", "heuristic"])
def test_clusters_of_one_modality(modality, resources):
    """The found tables are members of probed clusters, in the order of their cosines."""
    method = METHODS[f"clusters-{modality}"].make(resources)
    method.config = method.config.override({"n_probe": 2})
    method.index(TABLES)
    ours = method.rank(QUERIES, 60)
    cosines = scores_of("dense-all", resources)
    stage = method.coarse_stage()
    candidates = stage.candidates(QUERIES, method.config, 1)
    labels = torch.cat([segment.relations.labels[modality] for segment in stage.snapshot.segments])
    for row in range(len(QUERIES)):
        found = ours.ids[row][ours.ids[row] >= 0]
        assert sorted(found.tolist()) == candidates[row].tolist()
        assert 0 < len(set(labels[found].tolist())) <= 2 and len(found) < 60
        inside = set(labels[found].tolist())
        assert len(found) == sum(label in inside for label in labels.tolist()), "whole clusters"
        assert (cosines[row][found].diff() <= 1e-6).all()


def test_oracle_prunes_as_the_authors_did(resources):
    """A modality's cluster stays where it holds all gold tables; where none does, all stay."""
    task = make_task()
    corpus = blind(task)
    asked = ask(task, corpus, "built", "all")
    oracle, plain = METHODS["oracle-pruned"].make(resources), METHODS["gtr-paper"].make(resources)
    oracle.index(corpus.tables)
    plain.index(corpus.tables)
    pruned, free = oracle.rank_with_gold(asked.texts, asked.gold, 50), plain.rank(asked.texts, 50)
    stage, modalities = oracle.coarse_stage(), oracle.config.modalities
    pools = [stage.candidates(asked.texts, oracle.config.override({"modalities": (one,)}), 1) for one in modalities]
    n_pruned = n_free = 0
    for row in range(len(asked)):
        gold = set(asked.gold[row].tolist())
        clusters = [set(pool[row].tolist()) for pool in pools]
        right = [cluster for cluster in clusters if gold <= cluster]
        left = set.union(*(right or clusters))
        found = {table for table in pruned.ids[row].tolist() if table >= 0}
        assert found <= left and len(found) == min(50, len(left))
        if left == set.union(*clusters):
            n_free += 1
            assert found == {table for table in free.ids[row].tolist() if table >= 0}
            torch.testing.assert_close(pruned.scores[row], free.scores[row])
        else:
            n_pruned += 1
    assert n_pruned and n_free


def test_blocks_of_the_coarse_stage_change_nothing(resources, monkeypatch):
    task = make_task()
    corpus = blind(task)
    asked = ask(task, corpus, "built", "all")
    oracle = METHODS["oracle-pruned"].make(resources)
    oracle.index(corpus.tables)
    stage = oracle.coarse_stage()

    def found():
        return oracle.rank_with_gold(asked.texts, asked.gold, 50).ids, stage.coverage(asked.texts, asked.gold, 50)

    ids, covered = found()
    monkeypatch.setattr(coarse_stage, "questions_at_once", lambda *_: 5)
    assert len(list(stage.read(asked.texts, oracle.config, 50))) == 5
    parted, covered_by_parts = found()
    assert parted.equal(ids) and covered_by_parts == covered


def test_seconds_of_a_build_leave_the_encoder_out(resources):
    method = METHODS["gtr-default"].make(resources)
    method.index(TABLES)
    seconds = method._index.summary["seconds"]
    assert {LOADING_ENCODER, ENCODING} < set(seconds)
    others = sum(taken for stage, taken in seconds.items() if stage not in ("Loading the encoder", "Encoding"))
    assert method.facts["build_seconds"] == round(others, 3)


def test_coverage_by_hand():
    gold = Ragged.from_rows([[1, 2], [3], [0, 4]])
    candidates = Ragged.from_rows([[1, 2, 3], [0], [0]])
    found = coverage_of(candidates, gold, 10, "n_seeds=1", True)
    assert (found.all_gold, found.recall) == (pytest.approx(1 / 3), pytest.approx((1 + 0 + 0.5) / 3))
    assert (found.candidates, found.kept) == (pytest.approx(5 / 3), pytest.approx(5 / 30))


@pytest.mark.parametrize("name", [name for name, entry in METHODS.items() if entry.kind != "oracle"])
def test_corpora_with_nothing_to_read(name, resources):
    """No caption, no name, no cell; one table; a question without any word."""
    blank = [Table(f"t{row}", "", ["", ""], [["", ""]]) for row in range(4)]
    found = ranked(name, resources, blank, ["which river", "???"], k=3)
    assert found.ids.shape == (2, 3) and ((found.ids >= -1) & (found.ids < 4)).all()
    one = ranked(name, resources, TABLES[:1], ["which river", "???"], k=1)
    assert one.ids.shape == (2, 1)


@pytest.mark.parametrize("name", ["bm25-all", "tfidf-all", "mix-all", "rrf+caption", "gtr-default"])
def test_blocks_change_nothing(name, resources, monkeypatch):
    from gtr_gpu.evaluation.methods import gtr, method

    whole = ranked(name, resources)
    monkeypatch.setattr(method, "_SCORES_TOGETHER", 150)
    monkeypatch.setattr(gtr, "_TOGETHER", 5)
    parted = ranked(name, resources)
    assert parted.ids.equal(whole.ids)
    torch.testing.assert_close(parted.scores, whole.scores)


def test_names():
    assert chosen("all") == list(METHODS)
    assert chosen("gtr-default, bm25-all") == ["bm25-all", "gtr-default"]
    with pytest.raises(GTRError, match="there is no method 'bm25'; did you mean bm25-all"):
        chosen("bm25")
    with pytest.raises(GTRError, match="methods is empty; give all, or some of bm25-schema"):
        chosen(" , ")
