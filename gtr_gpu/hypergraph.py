"""The heterogeneous hypergraph: each cluster of each modality is a hyperedge, with its tables and typical nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops.kmeans import assign
from gtr_gpu.ops.segments import segment_sum, segment_top_k_ragged
from gtr_gpu.ops.types import Rows
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix

_TILE_ROWS = 8_192


@dataclass(frozen=True)
class Hypergraph:
    """Incidence in both directions. Hyperedges are numbered modality after modality.

    Attributes:
        modalities: The M modalities, in the order of the hyperedges.
        memberships: The hyperedge of each table in each modality, `[N, M]`, int32; -1 where it has none.
        members: The tables of each of E hyperedges, rising, int32.
        typical: The typical nodes V_typ of each hyperedge, best first, int32.
        modality_of: The place of each hyperedge's modality in `modalities`, `[E]`, int32.
    """

    modalities: tuple[str, ...]
    memberships: Tensor
    members: Ragged
    typical: Ragged
    modality_of: Tensor

    def hyperedge_range(self, modality: str) -> range:
        """The numbers of a modality's hyperedges.

        Raises:
            GTRError: The hypergraph has no such modality.
        """
        if modality not in self.modalities:
            raise GTRError(f"modality must be one of {', '.join(self.modalities)}, got {modality!r}")
        place = self.modalities.index(modality)
        before, own = int((self.modality_of < place).sum()), int((self.modality_of == place).sum())
        return range(before, before + own)


def build_hypergraph(
    labels: Mapping[str, Tensor],
    scores: Mapping[str, Tensor],
    n_clusters: Mapping[str, int],
    n_typical: int,
    alive: Tensor | None = None,
) -> Hypergraph:
    """Makes hyperedges of the clusters of all modalities.

    Args:
        labels: The cluster of each of N tables for each modality, `[N]`, any integer type; -1 where it has none.
        scores: The representative score of each table in its cluster for each modality, `[N]`, float32.
        n_clusters: K of each modality.
        n_typical: Typical nodes of a hyperedge at most: its members with the highest scores, ties to the smaller table.
        alive: Which tables count, `[N]`, bool; the others are members of nothing.

    Raises:
        GTRError: Arguments of different lengths, or labels of K and above.
    """
    modalities = tuple(labels)
    lengths = {tensor.numel() for name in modalities for tensor in (labels[name], scores[name])}
    if len(lengths) != 1 or (alive is not None and alive.numel() not in lengths):
        raise GTRError(f"labels, scores and alive must have one length in all modalities, got {sorted(lengths)}")
    (n_tables,) = lengths
    columns: list[Tensor] = []
    first = 0
    for name in modalities:
        own = labels[name].to(INDEX_DTYPE)
        if n_tables and int(own.max()) >= n_clusters[name]:
            raise GTRError(f"labels of {name} must be below {n_clusters[name]}, got {int(own.max())}")
        present = own >= 0 if alive is None else (own >= 0) & alive
        columns.append(torch.where(present, own + first, -1))
        first += n_clusters[name]
    memberships = torch.stack(columns, 1)
    edge_of = memberships.T.flatten()
    present = edge_of >= 0
    tables = torch.arange(n_tables, dtype=INDEX_DTYPE, device=edge_of.device).repeat(len(modalities))[present]
    # Tables rise within each modality, and grouping keeps their order.
    places = Ragged.from_segments(torch.arange(tables.numel(), device=edge_of.device), edge_of[present].long(), first)
    members = Ragged(tables[places.values], places.offsets)
    representative = torch.cat([scores[name] for name in modalities])[present][places.values]
    typical, _ = segment_top_k_ragged(representative, members.values, members.offsets, n_typical)
    sizes = torch.tensor([n_clusters[name] for name in modalities], device=edge_of.device)
    modality_of = torch.repeat_interleave(torch.arange(len(modalities), device=edge_of.device), sizes).to(INDEX_DTYPE)
    return Hypergraph(modalities, memberships, members, typical, modality_of)


def representative_scores(rows: Rows, labels: Tensor, centroids: Tensor) -> Tensor:
    """The cosine of each table's features with the centroid of its cluster.

    Args:
        rows: Features of N tables, dense `[N, d]` or sparse.
        labels: The cluster of each table, `[N]`, any integer type; -1 where it has none.
        centroids: `[K, d]`.

    Returns:
        Scores `[N]`, float32; 0 for a table whose features are all zero or that has no cluster.
    """
    scores = torch.zeros(rows.shape[0], dtype=torch.float32, device=centroids.device)
    lengths = torch.linalg.vector_norm(centroids, dim=1)
    tiny = torch.finfo(lengths.dtype).tiny
    for start in range(0, rows.shape[0], _TILE_ROWS):
        stop = min(start + _TILE_ROWS, rows.shape[0])
        wanted = labels[start:stop].long()
        own = wanted.clamp_min(0)
        if isinstance(rows, SparseMatrix):
            tile = rows.slice(start, stop)
            offsets = tile.columns.offsets
            weights = tile.weights.to(centroids.dtype)
            products = segment_sum(weights * centroids[own[tile.row_ids()], tile.columns.values.long()], offsets)
            norms = segment_sum(weights.square(), offsets).sqrt()
        else:
            dense = rows[start:stop].to(centroids.dtype)
            products = (dense * centroids[own]).sum(1)
            norms = torch.linalg.vector_norm(dense, dim=1)
        cosines = products / norms.clamp_min(tiny) / lengths[own].clamp_min(tiny)
        scores[start:stop] = torch.where(wanted >= 0, cosines, 0.0)
    return scores


def join(rows: Rows, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """Puts new tables into the nearest clusters.

    Args:
        rows: Features of N tables, dense `[N, d]` or sparse.
        centroids: `[K, d]`.

    Returns:
        Labels `[N]`, int32, and representative scores `[N]`, float32.
    """
    labels, _ = assign(rows, centroids)
    return labels, representative_scores(rows, labels, centroids)
