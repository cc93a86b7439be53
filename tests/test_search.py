"""Searching: batches, odd questions, relations, threads, and corpora in another order."""

import dataclasses
import threading
from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_fakes import fast_config, make_queries, make_tables, same_results

from gtr_gpu import changes
from gtr_gpu.config import MODALITIES, Config
from gtr_gpu.errors import GTRError
from gtr_gpu.index import GTRIndex
from gtr_gpu.results import Edge
from gtr_gpu.tables import Table

pytestmark = pytest.mark.usefixtures("fake_encoder")

TABLES = make_tables(60)
QUERIES = make_queries(TABLES, 12)
WAYS = {
    "flat": {},
    "semantic": {"personalization": "semantic", "n_seeds": 10},
    "lexical": {"personalization": "lexical", "n_seeds": 10},
    "clusters": {"coarse": "clusters", "n_probe": 1, "modalities": MODALITIES},
    "typical nodes": {"coarse": "clusters", "n_probe": 2, "cluster_score": "mean", "modalities": MODALITIES},
    "dense": {"transfer": "dense", "similarity_floor": 0.2, "hops": 2, "keep": (20, 10)},
    "paper": {},
}


def config_of(way):
    preset = Config.preset("paper" if way == "paper" else "default")
    return preset.override({"spacy_model": "blank:en", "n_clusters": 6, "n_typical": 5, **WAYS[way]})


@pytest.fixture(scope="module")
def path(fake_encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("search") / "index"
    index = GTRIndex.build(TABLES[:50], path, config=fast_config(n_clusters=6))
    index.add(TABLES[50:])
    index.remove(["t7", "t11"])
    return path


@pytest.fixture
def index(path):
    return GTRIndex.load(path)


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_gives_what_its_queries_give_one_by_one(index, way):
    config = config_of(way)
    batch = index.search(QUERIES, 8, config=config, edges=True)
    assert len(batch) == len(QUERIES)
    for row, query in enumerate(QUERIES):
        alone = index.search([query], 8, config=config, edges=True)
        torch.testing.assert_close(batch.scores[row : row + 1], alone.scores, rtol=0, atol=1e-5)
        assert alone.table_ids[0] == batch.table_ids[row]
        assert torch.equal(alone.candidates[0], batch.candidates[row])
        assert abs(int(alone.iterations[0]) - int(batch.iterations[row])) <= 1
        assert alone.edges[0] == batch.edges[row]
        assert bool(alone.converged[0]) == bool(batch.converged[row])


@pytest.mark.parametrize("way", ["flat", "clusters", "paper"])
def test_memory_for_a_batch_changes_nothing(index, way, monkeypatch):
    expected = index.search(QUERIES, 8, config=config_of(way), edges=True)
    monkeypatch.setattr("gtr_gpu.index.questions_at_once", lambda *_: 5)
    found = index.search(QUERIES, 8, config=config_of(way), edges=True)
    same_results(found, expected)
    assert found.edges == expected.edges


@pytest.mark.parametrize("way", WAYS)
def test_scores_are_the_shares_of_a_walk(index, way):
    result = index.search(QUERIES, 58, config=config_of(way))
    for row in range(len(result)):
        scores = result.scores[row][result.scores[row] > -torch.inf]
        assert len(scores) == len(result.table_ids[row]) == len(set(result.table_ids[row]))
        assert (scores >= 0).all() and (scores.diff() <= 0).all()
        # All candidates are returned here, so nothing of the walk is missing.
        kept = min([58, *map(lambda size: max(size, 58), config_of(way).keep)])
        if int(result.candidates[row]) <= kept:
            assert float(scores.sum()) == pytest.approx(1, abs=1e-5)
        assert not {"t7", "t11"} & set(result.table_ids[row])


@pytest.mark.parametrize("way", ["flat", "clusters", "typical nodes", "paper"])
def test_the_order_of_the_corpus_changes_nothing(tmp_path, monkeypatch, way):
    # Many tables tie in structural features, and ties for a typical node go by number; here all members are typical.
    config = config_of(way).override({"n_typical": 60})
    order = torch.randperm(len(TABLES), generator=torch.Generator().manual_seed(1)).tolist()
    first = GTRIndex.build(TABLES, tmp_path / "first", config=config)
    clusters = first._snapshot.clusters
    words = first._snapshot.vocabulary.to_list()

    def the_same_clusters(segments, *_):
        numbers = {word: n for n, word in enumerate(word for s in segments for word in s.new_terms)}
        terms = torch.tensor([numbers[words[term]] for term in clusters.terms.tolist()])
        terms, places = torch.sort(terms)
        moved = dataclasses.replace(
            clusters,
            heuristic=clusters.heuristic[:, places],
            terms=terms,
            document_frequency=clusters.document_frequency[places],
        )
        return moved, []

    monkeypatch.setattr(changes, "make_clusters", the_same_clusters)
    second = GTRIndex.build([TABLES[place] for place in order], tmp_path / "second", config=config)
    assert [table.table_id for table in second] == [f"t{place}" for place in order]
    same_results(second.search(QUERIES, 10), first.search(QUERIES, 10))


def test_more_than_there_is(index):
    result = index.search(QUERIES[:2], 100, edges=True)
    assert result.ids.shape == result.scores.shape == (2, 100)
    assert [len(names) for names in result.table_ids] == [58, 58]
    assert (result.ids[:, 58:] == -1).all() and (result.scores[:, 58:] == -torch.inf).all()
    assert (result.ids[:, :58] >= 0).all() and torch.isfinite(result.scores[:, :58]).all()
    assert result.notes == ["k is 100, but the index holds 58 tables"]


def test_k_above_the_seeds(index):
    result = index.search(QUERIES[:3], 40, config=fast_config(n_seeds=5, hops=0))
    assert [len(names) for names in result.table_ids] == [40] * 3
    assert (result.candidates == 40).all()
    fewer = index.search(QUERIES[:3], 3, config=fast_config(n_seeds=5, hops=0))
    assert (fewer.candidates == 5).all()
    rounds = index.search(QUERIES[:3], 40, config=fast_config(keep=(20, 10)))
    assert [len(names) for names in rounds.table_ids] == [40] * 3


def test_fewer_candidates_than_k(index):
    """Probed clusters may hold fewer tables than were asked for; the rest of a row is padded."""
    config = fast_config(coarse="clusters", n_probe=1, modalities=("semantic",), hops=0, personalization="semantic")
    result = index.search(QUERIES, 50, config=config)
    assert ((result.candidates > 0) & (result.candidates < 50)).all()
    for row, n in enumerate(result.candidates.tolist()):
        assert len(result.table_ids[row]) == n
        assert (result.ids[row, n:] == -1).all() and (result.scores[row, n:] == -torch.inf).all()
    assert result.notes == [
        f"{len(QUERIES)} questions probed clusters of fewer tables than were asked for; raise n_probe"
    ]


@pytest.mark.parametrize("edges", [True, False])
def test_no_questions(index, edges):
    result = index.search([], 5, edges=edges)
    assert len(result) == 0
    assert result.ids.shape == result.scores.shape == (0, 5)
    assert (result.table_ids, result.edges, result.notes) == ([], [] if edges else None, [])
    assert result.ids.dtype == index.search(QUERIES[:1], 5).ids.dtype == torch.int64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["bagist", ""],), "question 2 of 2 is empty"),
        ((["bagist", " \n\t\u3000"],), "question 2 of 2 is empty"),
        (("bagist kedarn",), "queries must be a list of questions"),
        ((["bagist"], 0), "k must be at least 1, got 0"),
        ((["bagist"], -3), "k must be at least 1, got -3"),
    ],
)
def test_mistakes(index, arguments, message):
    with pytest.raises(GTRError, match=message):
        index.search(*arguments)


ODD = {
    "unknown words": "qwertz uiop",
    "stop words": "which of these are the",
    "no words": "?!",
    "Chinese": "\u4e2d\u6587\u8868\u683c",
    "Arabic": "\u062c\u062f\u0648\u0644",
    "half a pair": "bagist \ud800",
    "half a pair alone": "\udfff",
    "a nul": "bagist\0kedarn",
    "only a nul": "\0",
    "zero width": "\u200b",
    "one long word": "x" * 100_000,
    "markup": "[Table] <answer> </table1>",
}


@pytest.mark.parametrize("way", ["flat", "lexical", "clusters", "typical nodes", "paper"])
def test_odd_questions(index, way):
    config = config_of(way)
    result = index.search([*ODD.values(), QUERIES[0]], 5, config=config, edges=True)
    for row, name in enumerate(ODD):
        n = len(result.table_ids[row])
        assert n == min(5, int(result.candidates[row])) > 0, name
        assert torch.isfinite(result.scores[row, :n]).all(), name
    assert result.converged.all()
    same_results(index.search([QUERIES[0]], 5, config=config), index.search(QUERIES[:1], 5, config=config))
    alone = index.search([QUERIES[0]], 5, config=config)
    assert alone.table_ids[0] == result.table_ids[-1], "odd neighbours in a batch change nothing"
    torch.testing.assert_close(alone.scores[0], result.scores[-1], rtol=0, atol=1e-5)


def test_half_a_pair_counts_for_nothing_else(index):
    halved = index.search(["bagist kedarn \ud800", "bagist\0kedarn"], 5, config=config_of("lexical"))
    plain = index.search(["bagist kedarn"], 5, config=config_of("lexical"))
    for row in range(2):
        torch.testing.assert_close(halved.scores[row], plain.scores[0], rtol=0, atol=1e-5)


def test_a_question_without_known_words_starts_everywhere(index):
    """All scores are 0, so h is uniform and the walk prefers well-linked tables only."""
    config = fast_config(personalization="lexical", damping=0.0)
    scores = index.search(["qwertz"], 58, config=config).scores[0]
    torch.testing.assert_close(scores, torch.full((58,), 1 / 58))


def test_a_long_question_is_cut_with_a_note(index, fake_encoder):
    words = QUERIES[0].split()
    long = " ".join(words + ["qwertz"] * (512 - len(words)) + TABLES[50].caption.split() * 2000)
    result = index.search([long, QUERIES[1], long], 5, config=fast_config(personalization="lexical"))
    assert result.notes == ["2 questions were cut to the first 512 words"]
    same_results(
        index.search([long], 5, config=fast_config(personalization="lexical")),
        index.search([QUERIES[0]], 5, config=fast_config(personalization="lexical")),
    )
    beyond_window = " ".join(["bagist"] * 300)
    result = index.search([beyond_window, QUERIES[1]], 5)
    assert result.notes == ["1 question was cut to the encoder's window of 256 tokens"]
    assert index.search([QUERIES[1]], 5).notes == []


def test_relations_of_a_hand_made_corpus(tmp_path):
    """What two tables share is worth 1 where it is all they hold, and less where they hold more."""
    tables = [
        Table("a", "quiet rivers", ["ship", "flag"], [["Vega", "1"]]),
        Table("b", "loud towers", ["ship", "flag"], [["Rigel", "2"], ["Deneb", "3"]]),
        Table("c", "old bridges", ["moon", "tide"], [["Rigel", "4"], ["Mira", "5"]]),
        Table("d", "quiet rivers", ["gate", "lock"], [["Altair", "6"]]),
        Table("e", "none", ["stone"], [["Sirius"]]),
    ]
    index = GTRIndex.build(tables, tmp_path / "index", config=fast_config(edge_kinds=("header", "key", "caption")))
    result = index.search(["quiet rivers"], 5, edges=True)
    rank = {name: place for place, name in enumerate(result.table_ids[0])}
    # Rigel is in two of five tables, the other two keys of b and c in one each.
    shared, own = torch.log1p(torch.tensor(5 / 2)).item() ** 2, torch.log1p(torch.tensor(5.0)).item() ** 2
    expected = {("a", "b", "header"): 1.0, ("b", "c", "key"): shared / (shared + own), ("a", "d", "caption"): 1.0}
    assert {edge.kind for edge in result.edges[0]} == {"header", "key", "caption"}
    assert len(result.edges[0]) == len(expected)
    for (first, second, kind), score in expected.items():
        source, target = sorted((rank[first], rank[second]))
        (edge,) = [edge for edge in result.edges[0] if edge.kind == kind]
        assert edge == Edge(source, target, kind, pytest.approx(score, abs=1e-5))
    # Only relations among the tables of the result are told.
    (few,) = index.search(["quiet rivers"], 2, edges=True).edges
    assert {edge.kind for edge in few} == {"caption"}
    assert index.search(["quiet rivers"], 2).edges is None
    assert index.search(["quiet rivers"], 1, edges=True).edges == [[]]


def test_related_tables_are_found_through_the_graph(tmp_path):
    """A table without a word of the question comes before unrelated ones, as a neighbour shares its key values."""
    keys = [["Vega"], ["Rigel"], ["Deneb"]]
    tables = [Table(f"x{n}", "old bridges", [f"c{n}"], [[f"z{n}"]]) for n in range(8)]
    tables += [Table("asked", "quiet rivers", ["ship"], keys), Table("linked", "nothing alike", ["moon"], keys)]
    config = fast_config(edge_kinds=("key", "column"), personalization="lexical")
    index = GTRIndex.build(tables, tmp_path / "index", config=config)
    assert index.search(["quiet rivers"], 2).table_ids == [["asked", "linked"]]
    without = index.search(["quiet rivers"], 2, config=config.override({"weight_key": 0.0, "weight_column": 0.0}))
    assert without.table_ids == [["asked", "x0"]]


KNOB_VALUES = {
    "coarse": st.sampled_from(["auto", "flat", "clusters"]),
    "flat_limit": st.sampled_from([0, 200_000]),
    "modalities": st.lists(st.sampled_from(MODALITIES), min_size=1, unique=True).map(tuple),
    "query_features": st.sampled_from(["native", "semantic"]),
    "n_probe": st.sampled_from([1, 3, 2**61]),
    "n_seeds": st.sampled_from([0, 1, 5, 2**61]),
    "hops": st.integers(0, 3),
    "transfer": st.sampled_from(["graph", "dense"]),
    "similarity_floor": st.floats(-1, 1),
    "weight_semantic": st.floats(0, 1e18),
    "weight_key": st.floats(0, 1e18),
    "personalization": st.sampled_from(["semantic", "lexical", "mixed", "pooled"]),
    "pooled_bm25": st.floats(0, 1e18),
    "pooled_words": st.floats(0, 1e18),
    "pooled_cosine": st.floats(0, 1e18),
    "mix": st.floats(0, 1),
    "temperature": st.floats(0, 1e18),
    "damping": st.floats(0, 0.999),
    "tolerance": st.floats(0, 1e18),
    "max_iterations": st.integers(1, 300),
    "keep": st.lists(st.sampled_from([1, 7, 2**61]), max_size=3).map(tuple),
    "bm25_k1": st.floats(0, 1e18),
    "bm25_b": st.floats(0, 1),
    "max_query_words": st.sampled_from([1, 5, 2**61]),
    "batch_megabytes": st.sampled_from([1, 2**61]),
}


# Centroids with semantic questions are refused, as the next tests say.
SCORES = {"cluster_score": st.sampled_from(["mean", "best"])}


@given(st.fixed_dictionaries(SCORES, optional=KNOB_VALUES), st.sampled_from([1, 5, 58]))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_setting_gives_an_answer(path, knobs, k):
    """No allowed value of a knob ends in an error, a NaN, a table twice or a lost share of the walk."""
    index = opened(path)
    result = index.search([QUERIES[0], "qwertz", "which"], k, config=fast_config(**knobs))
    for row, names in enumerate(result.table_ids):
        assert 0 < len(names) == len(set(names)) <= k
        scores = result.scores[row, : len(names)]
        assert torch.isfinite(scores).all() and (scores >= 0).all() and (scores.diff() <= 0).all()
        if int(result.candidates[row]) <= k:
            assert float(scores.sum()) == pytest.approx(1, abs=1e-5)


opened = cache(GTRIndex.load)


def test_search_knobs_and_build_knobs(index):
    """A search takes search knobs from its config and never build knobs."""
    other = Config(encoder="nobody/has-this", text_style="tagged", n_clusters=1, temperature=0.2)
    expected = index.search(QUERIES, 5, config=index.config.override({"temperature": 0.2}))
    found = index.search(QUERIES, 5, config=other)
    assert torch.equal(found.scores, expected.scores)
    assert not torch.equal(found.scores, index.search(QUERIES, 5).scores)


def test_centroids_need_features_of_their_own(index):
    config = config_of("clusters").override({"query_features": "semantic"})
    with pytest.raises(GTRError, match=r"set cluster_score=mean or query_features=native"):
        index.search(QUERIES, 5, config=config)
    index.search(QUERIES, 5, config=config.override({"modalities": ("semantic",)}))


def test_what_info_says(index, path):
    info = index.info()
    assert (info["tables"], info["removed"], info["segments"], info["generation"]) == (58, 2, 2, 3)
    assert (info["search"], info["how"]) == ("flat", "scores all 58 tables and skips the coarse stage")
    assert sum(info["bytes"].values()) == sum(
        file.stat().st_size for file in path.iterdir() if file.suffix in (".arrow", ".safetensors")
    )
    assert info["terms"] == len({word for table in index for word in words_of(table)})
    assert set(info["clusters"]) == set(MODALITIES) and info["clusters"]["semantic"] == 6


def words_of(table):
    texts = [table.caption, *table.header, *(cell for row in table.rows for cell in row)]
    return [word for text in texts for word in text.split()]


def test_threads_share_an_index(path):
    """The first searches of many threads build the graph and all else once, or harmlessly twice."""
    expected = {way: GTRIndex.load(path).search(QUERIES, 8, config=config_of(way)) for way in WAYS}
    index = GTRIndex.load(path)
    start, failures = threading.Barrier(8), []

    def work(number):
        try:
            start.wait()
            for step in range(6):
                way = list(WAYS)[(number + step) % len(WAYS)]
                result = index.search(QUERIES, 8, config=config_of(way), edges=True)
                assert torch.equal(result.scores, expected[way].scores), way
                assert result.table_ids == expected[way].table_ids, way
        except BaseException as error:  # a thread's error would be lost
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_searching_while_the_index_changes(tmp_path):
    """A thread that searches through a handle sees whole states only while another one changes it."""
    index = GTRIndex.build(TABLES[:30], tmp_path / "index", config=fast_config())
    done, failures = threading.Event(), []

    def search():
        try:
            while not done.is_set():
                result = index.search(QUERIES[:2], 100)
                assert {len(names) for names in result.table_ids} <= {29, 30}
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(4):
        index.remove([f"t{number}"])
        index.add([TABLES[number]])
    index.rebuild()
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
