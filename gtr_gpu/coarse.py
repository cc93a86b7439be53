"""From a question to candidate tables: representative scores of clusters, lexical postings, or all tables at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError
from gtr_gpu.ops.dispatch import serves
from gtr_gpu.ops.representative import centroid_scores, cluster_scores, members_of, probe
from gtr_gpu.ops.seeds import best_mixed
from gtr_gpu.ops.segments import segment_max, segment_top_k_ragged
from gtr_gpu.ops.transfer import widen
from gtr_gpu.ops.types import Rows
from gtr_gpu.ops.union import union
from gtr_gpu.questions import QueryFeatures
from gtr_gpu.ragged import INDEX_DTYPE, Ragged
from gtr_gpu.snapshot import Snapshot

# Numbers that a search holds at once for each question and table, and for each question and candidate, as measured on
# 20,000 tables, with every choice of `coarse` and `personalization`: with kernels, and in plain torch.
_HELD_BY_KERNELS = (4, 10)
_HELD_BY_TORCH = (17, 18)
# In a small index a question takes more than its scores and candidates: as much as the scores of so many tables.
_LEAST_WIDTH = 1 << 14


@dataclass(frozen=True)
class Candidates:
    """The tables that the fine stage ranks.

    Attributes:
        tables: Table numbers of each query, int32, rising and distinct; values `[T]`.
        scores: What the query gives each of them before the graph is asked, `[T]`, float32; `-inf` for a table that was
            reached along an edge only.
    """

    tables: Ragged
    scores: Tensor


def uses_clusters(snapshot: Snapshot, config: Config) -> bool:
    """Whether the coarse stage probes clusters; otherwise it scores all tables."""
    return config.coarse == "clusters" or (config.coarse == "auto" and snapshot.n_alive > config.flat_limit)


def questions_at_once(snapshot: Snapshot, config: Config, k: int) -> int:
    """How many questions `batch_megabytes` is enough for, to find candidates and to rank k of them; at least 1."""
    n_tables = snapshot.n_tables
    n_candidates = min(max(config.n_seeds, k), n_tables) if config.n_seeds else n_tables
    of_tables, of_candidates = _HELD_BY_KERNELS if serves("best_mixed", snapshot.device) else _HELD_BY_TORCH
    numbers = of_tables * max(n_tables, _LEAST_WIDTH) + of_candidates * n_candidates
    return max(1, config.batch_megabytes * 2**20 // (4 * numbers))


def find_candidates(queries: QueryFeatures, snapshot: Snapshot, config: Config, k: int) -> Candidates:
    """Takes each query's best tables and, by choice, their neighbours.

    Args:
        queries: B questions; the caller bounds B, since lexical and flat scores take `[B, N]` numbers.
        snapshot: The corpus.
        config: `coarse`, `n_probe`, `modalities`, `n_seeds`, `hops`, `personalization` and their kin.
        k: How many results will be asked for; at least as many candidates are kept, unless probed clusters hold fewer.
    """
    n_seeds = max(config.n_seeds, k) if config.n_seeds else snapshot.n_tables
    if uses_clusters(snapshot, config):
        seeds = _from_clusters(queries, snapshot, config, n_seeds)
    else:
        seeds = Candidates(*snapshot.flat.best(queries, config, n_seeds))
    tables = seeds.tables
    for _ in range(config.hops):
        tables = widen(tables, snapshot.graph(config))
    if not config.hops:
        return seeds
    scores = torch.full((tables.values.numel(),), -torch.inf, device=tables.device)
    scores[_places(seeds.tables, tables, snapshot.n_tables)] = seeds.scores
    return Candidates(tables, scores)


def _from_clusters(queries: QueryFeatures, snapshot: Snapshot, config: Config, n_seeds: int) -> Candidates:
    """Scores the members of the clusters that each query probes, and the tables that share most words with it."""
    pools = [_probed(queries, snapshot, config)]
    semantic = lexical = by_words = None
    if config.personalization != "semantic":
        by_words = snapshot.flat.lexical(queries.terms, config)
        if config.query_features == "native" and "heuristic" in config.modalities:
            sharing = by_words.masked_fill(by_words <= 0, -torch.inf)
            pools.append(best_mixed(sharing, None, snapshot.takeable, 1.0, n_seeds)[0].to("cpu"))
    pool = union(pools).to(snapshot.device)
    owner = pool.segment_ids()
    if by_words is not None:
        lexical = by_words[owner, pool.values.long()]
    if config.personalization != "lexical":
        semantic = snapshot.flat.cosines(queries.semantic, pool)
    scores = _mix(semantic, lexical, config.mix, lambda values: segment_max(values, pool.offsets)[owner])
    order, positions = segment_top_k_ragged(scores, pool.values, pool.offsets, n_seeds)
    positions = torch.sort(positions).values
    return Candidates(Ragged(pool.values[positions], order.offsets), scores[positions])


def _probed(queries: QueryFeatures, snapshot: Snapshot, config: Config) -> Ragged:
    """The tables of the clusters that each query probes, on the CPU."""
    hypergraph = snapshot.hypergraph
    pools = []
    for modality in config.modalities:
        hyperedges = hypergraph.hyperedge_range(modality)
        scores = _cluster_scores(queries, snapshot, config, modality).cpu()
        probed = probe(scores, [range(len(hyperedges))], config.n_probe)
        pools.append(members_of(Ragged(probed.values + hyperedges.start, probed.offsets), hypergraph.members))
    return union(pools)


def _cluster_scores(queries: QueryFeatures, snapshot: Snapshot, config: Config, modality: str) -> Tensor:
    """The representative score of each query with each hyperedge of a modality, `[B, K]`; -inf where it has no table.

    Raises:
        GTRError: Centroids are asked for where query and centroid have different features.
    """
    clusters, hypergraph = snapshot.clusters, snapshot.hypergraph
    hyperedges = hypergraph.hyperedge_range(modality)
    own_features = modality == "semantic" or config.query_features == "native"
    if config.cluster_score == "centroid":
        if not own_features:
            raise GTRError(
                f"cluster_score=centroid can't compare semantic features with the {modality} modality's centroids; set "
                "cluster_score=mean or query_features=native"
            )
        features = _own_features(queries, snapshot, modality)
        scores = centroid_scores(features, clusters.centroids(modality).to(snapshot.device))
        members = hypergraph.members.slice(hyperedges.start, hyperedges.stop)
        return scores.masked_fill((members.lengths == 0).to(snapshot.device), -torch.inf)
    typical = hypergraph.typical.slice(hyperedges.start, hyperedges.stop)
    places = Ragged(torch.arange(typical.values.numel(), dtype=INDEX_DTYPE), typical.offsets).to(snapshot.device)
    how: Literal["mean", "best"] = "mean" if config.cluster_score == "mean" else "best"
    if not own_features:
        return cluster_scores(queries.semantic, snapshot.semantic(typical.values), places, how)
    rows = snapshot.rows_of(modality, typical.values)
    return cluster_scores(_own_features(queries, snapshot, modality), rows, places, how)


def _own_features(queries: QueryFeatures, snapshot: Snapshot, modality: str) -> Rows:
    """The queries in the features of a modality."""
    if modality == "semantic":
        return queries.semantic
    if modality == "structural":
        assert queries.structural is not None  # read where the modality is searched by its own features
        return snapshot.clusters.standardize(queries.structural).to(snapshot.device)
    return snapshot.clusters.weigh(queries.terms).to(snapshot.device)


def _mix(semantic: Tensor | None, lexical: Tensor | None, share: float, best: Callable[[Tensor], Tensor]) -> Tensor:
    """The scores of a query with its tables: cosines, BM25, or both, each clamped at 0 and divided by its best.

    Cosines alone stay as they are, since the paper's personalisation and similarity floor are in their unit.
    """
    if lexical is None:
        assert semantic is not None
        return semantic
    lexical = _relative(lexical, best)
    return lexical if semantic is None else share * _relative(semantic, best) + (1 - share) * lexical


def _relative(values: Tensor, best: Callable[[Tensor], Tensor]) -> Tensor:
    values = values.clamp_min(0)
    return values / best(values).clamp_min(torch.finfo(torch.float32).tiny)


def _places(subset: Ragged, tables: Ragged, n_tables: int) -> Tensor:
    """Where the items of a batch lie in a batch that holds all of them; both rise within their rows."""
    keys = tables.segment_ids() * n_tables + tables.values
    return torch.searchsorted(keys, subset.segment_ids() * n_tables + subset.values)
