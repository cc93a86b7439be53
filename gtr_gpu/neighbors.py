"""Typed edges between tables: each table's nearest neighbours by each kind of evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from gtr_gpu.ops.sparse_top_m import sparse_top_m
from gtr_gpu.ops.top_m import dense_top_m, merge_top_m
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix

# Tables whose nearest clusters are looked for at once, which are copied for it.
_QUERIES_TOGETHER = 1 << 16


@dataclass(frozen=True)
class OutEdges:
    """The nearest neighbours of each table by one kind of evidence.

    Attributes:
        ids: Table ids, the nearest first, `[n, m]`, int32, padded by -1.
        similarities: Cosines, `[n, m]`, float32, padded by -inf.
    """

    ids: Tensor
    similarities: Tensor

    def __len__(self) -> int:
        return self.ids.shape[0]

    @classmethod
    def cat(cls, parts: Sequence[OutEdges]) -> OutEdges:
        """The edges of the tables of several parts, one part after the other."""
        return cls(torch.cat([part.ids for part in parts]), torch.cat([part.similarities for part in parts]))

    def above(self, floor: float) -> OutEdges:
        """The edges without those of a similarity below the floor."""
        far = self.similarities < floor
        return OutEdges(self.ids.masked_fill(far, -1), self.similarities.masked_fill(far, -torch.inf))


@dataclass(frozen=True)
class SemanticClusters:
    """Clusters that limit the search for semantic neighbours.

    Attributes:
        assignments: Each table's cluster, `[N]`, int32 or int64.
        centroids: `[K, d]`, float32.
        n_probe: Clusters with the nearest centroids (Euclidean, as in k-means) whose members are compared with a table.
    """

    assignments: Tensor
    centroids: Tensor
    n_probe: int = 8


class Relation(NamedTuple):
    """That two of some tables are neighbours, by which evidence and how near.

    `first` and `second`, the larger of the two, are places in the list of tables that was asked about.
    """

    first: int
    second: int
    kind: str
    similarity: float


def semantic_edges(
    features: Tensor,
    m: int,
    first_new: int = 0,
    alive: Tensor | None = None,
    clusters: SemanticClusters | None = None,
) -> OutEdges:
    """The semantic neighbours of tables: those with the highest cosine, ties to the smaller id.

    Args:
        features: Semantic features of all tables, rows of unit length, `[N, d]`.
        m: Neighbours of a table.
        first_new: The first table whose neighbours are wanted; those before it are only searched.
        alive: Which tables may be neighbours, `[N]`, bool; all by default.
        clusters: Limits the search to the nearest clusters, so that the work does not grow with N²; a neighbour in
            another cluster is missed.

    Returns:
        The edges of tables `first_new` to N - 1.
    """
    queries = features[first_new:]
    own = torch.arange(first_new, features.shape[0], device=features.device)
    pool = torch.arange(features.shape[0], device=features.device) if alive is None else alive.nonzero().flatten()
    if clusters is None:
        rows = features if pool.numel() == features.shape[0] else features[pool]
        places, similarities = dense_top_m(queries, rows, m, _places(own, pool))
        return OutEdges(_picked(pool, places), similarities)
    probes = _nearest_clusters(queries, clusters)
    probing = Ragged.from_segments(
        torch.arange(own.numel(), device=own.device).repeat_interleave(probes.shape[1]),
        probes.flatten().long(),
        clusters.centroids.shape[0],
    )
    members = Ragged.from_segments(pool, clusters.assignments[pool].long(), clusters.centroids.shape[0])
    ids = torch.full((own.numel(), m), -1, dtype=INDEX_DTYPE, device=own.device)
    similarities = torch.full((own.numel(), m), -torch.inf, device=own.device)
    for cluster in range(len(members)):
        asking, inside = probing[cluster], members[cluster]
        places, found = dense_top_m(queries[asking], features[inside], m, _places(own[asking], inside))
        ids[asking], similarities[asking] = merge_top_m(
            ids[asking], similarities[asking], _picked(inside, places), found
        )
    return OutEdges(ids, similarities)


def evidence_edges(
    evidence: Ragged,
    m: int,
    max_common: int,
    first_new: int = 0,
    alive: Tensor | None = None,
    tie_break: Tensor | None = None,
) -> OutEdges:
    """The neighbours of tables by what they share: names, key values, words.

    A piece of evidence that df of n tables hold weighs ln(1 + n / df); rows have unit length, the similarity is their
    dot product over the pieces that at most `max_common` tables hold. So common pieces link no tables, yet two tables
    are less similar for having more of them apart.

    Tables with the same evidence are equally near, however many there are. The tie break makes those neighbours that
    other evidence supports; by id alone, all of them would point to the same m tables.

    Args:
        evidence: Ids of pieces, distinct and rising in each row, of all tables; N rows, int32.
        m: Neighbours of a table.
        max_common: The most tables that a piece may be shared by.
        first_new: The first table whose neighbours are wanted; those before it are only searched.
        alive: Which tables may be neighbours, `[N]`, bool; all by default. The others don't count in df.
        tie_break: Semantic features of all tables `[N, d]`: of equally near tables those with the higher cosine come
            first, then the smaller id.

    Returns:
        The edges of tables `first_new` to N - 1.
    """
    n_tables = len(evidence)
    matrix = _weighted(evidence, max_common, alive)
    features = None if tie_break is None else (tie_break[first_new:], tie_break)
    own = torch.arange(first_new, n_tables, device=evidence.device)
    queries = matrix.slice(first_new, n_tables) if first_new else matrix
    ids, similarities = sparse_top_m(queries, matrix, m, own, features)
    return OutEdges(ids, similarities)


def out_edges(
    kind: str,
    features: Tensor,
    evidence: Ragged | None,
    m: int,
    max_common: int,
    first_new: int = 0,
    alive: Tensor | None = None,
    clusters: SemanticClusters | None = None,
) -> OutEdges:
    """The edges of one kind, from tables `first_new` to N - 1 to all tables.

    Args:
        kind: `semantic` compares `features`; any other compares `evidence` and breaks ties by `features`.
        features: Semantic features of all tables, rows of unit length, `[N, d]`.
        evidence: What each table can share with others; None for `semantic`.
        m: Neighbours of a table.
        max_common: The most tables that a piece of evidence may be shared by.
        first_new: The first table whose neighbours are wanted.
        alive: Which tables may be neighbours, `[N]`, bool; all by default.
        clusters: Limits the search for semantic neighbours.

    Raises:
        ValueError: There is no evidence for a kind that needs some.
    """
    if kind == "semantic":
        return semantic_edges(features, m, first_new, alive, clusters)
    if evidence is None:
        raise ValueError(f"edges of kind {kind} need the evidence of each table, got None")
    return evidence_edges(evidence, m, max_common, first_new, alive, features)


def relations(tables: Sequence[int] | Tensor, edges: Mapping[str, OutEdges]) -> list[Relation]:
    """Which of some tables are neighbours of each other, by which kinds of evidence.

    Args:
        tables: Distinct table ids `[k]`, such as a ranked result; -1 stands for none.
        edges: For each kind the neighbours of tables 0 to N - 1.

    Returns:
        One relation for each pair and kind, in order of the pair, then of the kinds, with the larger similarity of
        both directions.
    """
    ids = torch.as_tensor(tables).long().cpu()
    places = (ids >= 0).nonzero().flatten().tolist()
    found: dict[tuple[int, int, int], float] = {}
    for number, of_kind in enumerate(edges.values()):
        rows = ids[places].to(of_kind.ids.device)
        neighbours, similarities = of_kind.ids[rows].cpu(), of_kind.similarities[rows].cpu()
        sources, columns, targets = (neighbours[:, :, None] == ids[places]).nonzero(as_tuple=True)
        for source, column, target in zip(sources.tolist(), columns.tolist(), targets.tolist(), strict=True):
            if source == target:
                continue
            pair = (*sorted((places[source], places[target])), number)
            similarity = float(similarities[source, column])
            found[pair] = max(found.get(pair, -torch.inf), similarity)
    kinds = list(edges)
    return [
        Relation(first, second, kinds[number], found[first, second, number]) for first, second, number in sorted(found)
    ]


def _nearest_clusters(queries: Tensor, clusters: SemanticClusters) -> Tensor:
    """The `n_probe` clusters with the nearest centroids of each query `[M, d]`, `[M, n_probe]`, int32."""
    centroids = clusters.centroids
    # |x - c|² rises as x·c - |c|² / 2 falls, which is a dot product with one more column.
    longer = torch.cat([centroids, centroids.square().sum(1, keepdim=True) / -2], 1)
    n_probe = min(clusters.n_probe, centroids.shape[0])
    blocks = torch.split(queries, _QUERIES_TOGETHER)
    return torch.cat([dense_top_m(pad(block.float(), (0, 1), value=1), longer, n_probe)[0] for block in blocks])


def _weighted(evidence: Ragged, max_common: int, alive: Tensor | None) -> SparseMatrix:
    """The rows of evidence as unit vectors, without the pieces that too many tables or one alone hold."""
    rows = evidence.segment_ids()
    values, n_alive = evidence.values, len(evidence)
    if alive is not None:
        present, n_alive = alive[rows], int(alive.sum())
        rows, values = rows[present], values[present]
    pieces, columns = torch.unique(values, return_inverse=True)
    frequency = torch.bincount(columns, minlength=pieces.numel())
    idf = torch.log1p(n_alive / frequency.double())[columns]
    squares = torch.zeros(len(evidence), dtype=torch.float64, device=values.device).index_add_(0, rows, idf.square())
    shared = ((frequency > 1) & (frequency <= max_common))[columns]
    rows, columns = rows[shared], columns[shared]
    weights = (idf[shared] / squares.sqrt()[rows]).float()
    lengths = torch.bincount(rows, minlength=len(evidence))
    return SparseMatrix(Ragged.from_lengths(columns.to(INDEX_DTYPE), lengths), weights, pieces.numel())


def _places(ids: Tensor, rising: Tensor) -> Tensor:
    """Where ids stand in a rising list, -1 where they don't; int64."""
    if rising.numel() == 0:
        return torch.full_like(ids, -1)
    places = torch.searchsorted(rising, ids).clamp_max(rising.numel() - 1)
    return places.masked_fill(rising[places] != ids, -1)


def _picked(ids: Tensor, places: Tensor) -> Tensor:
    """`ids[places]`, with -1 for place -1; int32."""
    if ids.numel() == 0:
        return places
    return ids[places.long().clamp_min(0)].to(INDEX_DTYPE).masked_fill(places < 0, -1)
