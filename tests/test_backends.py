"""The compiled kernels and plain torch, stage by stage from the same inputs, on the five real sets.

Scores may differ by 1e-5, and tables may change places only where their scores differ by less; such near-ties are
counted and printed.
"""

import io
import json
from collections.abc import Iterator

import pytest
import torch
import zstandard
from index_fakes import install

from gtr_gpu.config import MODALITIES, Config
from gtr_gpu.features.heuristic import count_queries
from gtr_gpu.index import GTRIndex
from gtr_gpu.neighbors import out_edges
from gtr_gpu.ops import dispatch, native
from gtr_gpu.ops.kmeans import assign, distances_to, update
from gtr_gpu.ops.top_m import dense_top_m
from gtr_gpu.tables.report import ReadReport
from gtr_gpu.tables.sources import read_sources

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(native.extension() is None, reason="installed without a C++ compiler"),
]
N_QUERIES = 200
TOLERANCE = 1e-5
SEARCHES = [
    Config(),
    Config(coarse="clusters"),
    Config(coarse="clusters", query_features="native", cluster_score="best"),
    Config.preset("paper"),
]


class Both:
    """What one function gives on both backends."""

    def __init__(self) -> None:
        self.near_ties = 0

    def of(self, function):
        with dispatch.use("reference"):
            expected = function()
        return function(), expected

    def ordered(self, found: tuple[torch.Tensor, torch.Tensor], expected: tuple[torch.Tensor, torch.Tensor]) -> None:
        """Compares ids `[n, m]` with scores `[n, m]`, best first: ids may differ only where scores are near."""
        (ids, scores), (other_ids, other_scores) = found, expected
        torch.testing.assert_close(scores, other_scores, rtol=0, atol=TOLERANCE)
        rows, places = (ids != other_ids).nonzero(as_tuple=True)
        for row, place in zip(rows.tolist(), places.tolist(), strict=True):
            # Another table stands here: its neighbours in the order must be near, or the list ends here.
            own = scores[row]
            near = [abs(float(own[place] - own[other])) for other in (place - 1, place + 1) if 0 <= other < len(own)]
            assert place == len(own) - 1 or min(near) <= 2 * TOLERANCE, (row, place, own.tolist())
        self.near_ties += len(rows)


@pytest.fixture(scope="module", params=["tabfact", "hybridqa", "wtq", "sqa", "tatqa"])
def corpus(request, shared_data, tmp_path_factory) -> Iterator[tuple[GTRIndex, list[str]]]:
    source = shared_data / request.param
    with pytest.MonkeyPatch.context() as patch:
        install(patch)
        config = Config(spacy_model="blank:en")
        stream = read_sources([source / "tables.jsonl.zst"], config=config, report=ReadReport())
        index = GTRIndex.build(stream, tmp_path_factory.mktemp(request.param) / "index", config=config)
        with (source / "queries.jsonl.zst").open("rb") as file:
            lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8")
            queries = [json.loads(line)["query"] for line, _ in zip(lines, range(N_QUERIES), strict=False)]
        yield index, queries


def test_searches_agree(corpus):
    index, queries = corpus
    both = Both()
    for config in SEARCHES:
        found, expected = both.of(lambda config=config: index.search(queries, k=10, config=config))
        both.ordered((found.ids, found.scores), (expected.ids, expected.scores))
    print(f"{len(index):,} tables, {both.near_ties} near-ties")  # noqa: T201


def test_lexical_scores_agree(corpus):
    index, queries = corpus
    snapshot = index._snapshot
    counted = count_queries(queries, snapshot.vocabulary)
    found, expected = Both().of(lambda: snapshot.flat.lexical(counted, index.config))
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_clusters_agree(corpus):
    index, _ = corpus
    snapshot = index._snapshot
    every = torch.arange(snapshot.n_tables)
    near_ties = 0
    for modality in MODALITIES:
        rows, centroids = snapshot.rows_of(modality, every), snapshot.clusters.centroids(modality)
        (labels, distances), (other, expected) = Both().of(lambda r=rows, c=centroids: assign(r, c))
        torch.testing.assert_close(distances, expected, rtol=TOLERANCE, atol=TOLERANCE)
        changed = (labels != other).nonzero().flatten()
        here = distances_to(rows, centroids, labels)[changed]
        torch.testing.assert_close(here, distances_to(rows, centroids, other)[changed], rtol=TOLERANCE, atol=TOLERANCE)
        near_ties += changed.numel()
        found, expected = Both().of(lambda r=rows, c=centroids, at=other: update(r, at, len(c)))
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    print(f"{snapshot.n_tables:,} tables, {near_ties} near-ties")  # noqa: T201


def test_neighbours_agree(corpus):
    index, _ = corpus
    snapshot, config = index._snapshot, index.config
    (segment,) = snapshot.segments
    both = Both()
    for kind in config.edge_kinds:
        evidence = None if kind == "semantic" else segment.evidence(kind)
        found, expected = both.of(
            lambda kind=kind, evidence=evidence: out_edges(
                kind, segment.semantic, evidence, config.n_neighbors, config.max_common
            )
        )
        both.ordered((found.ids, found.similarities), (expected.ids, expected.similarities))
    print(f"{snapshot.n_tables:,} tables, {both.near_ties} near-ties")  # noqa: T201


def test_the_best_by_dense_scores_agree(corpus):
    index, queries = corpus
    features = index._snapshot.segments[0].semantic
    asked, _ = index.encoder.encode_queries(queries)
    both = Both()
    found, expected = both.of(lambda: dense_top_m(asked, features, 50))
    both.ordered(found, expected)
