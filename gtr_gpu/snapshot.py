"""What a search reads: one generation of an index, its segments seen as one corpus."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from gtr_gpu.config import EDGE_KINDS, MODALITIES, Config
from gtr_gpu.errors import GTRError, IndexFormatError
from gtr_gpu.features.evidence import EVIDENCE_KINDS
from gtr_gpu.features.heuristic import Vocabulary, tfidf
from gtr_gpu.flat import FlatScores
from gtr_gpu.graph import believed_graph, signatures_of
from gtr_gpu.hypergraph import Hypergraph, build_hypergraph
from gtr_gpu.neighbors import OutEdges
from gtr_gpu.ops.types import Rows
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix, stack_sparse
from gtr_gpu.segment import Arrays, Segment, features_layout, relations_layout
from gtr_gpu.storage import IndexFolder, Layout, Manifest, check_arrays, read_arrays
from gtr_gpu.tables import Table, TableStore

# Neighbour graphs that are kept for searches to come, one for each set of weights.
_KEPT_GRAPHS = 4

_CLUSTERS_LAYOUT: Layout = {
    "semantic": ([torch.float32], ["semantic", "d"]),
    "structural": ([torch.float32], ["structural", "s"]),
    # Without any term there is one column.
    "heuristic": ([torch.float32], ["heuristic", "columns"]),
    "mean": ([torch.float32], ["s"]),
    "scale": ([torch.float32], ["s"]),
    "terms": ([torch.int64], ["terms"]),
    "document_frequency": ([torch.int64], ["terms"]),
    "n_documents": ([torch.int64], []),
    "sublinear": ([torch.bool], []),
}


@dataclass(frozen=True)
class Clusters:
    """The clusters of each modality, as they were when they were last made.

    Attributes:
        semantic: Centroids, `[K, d]`, float32.
        structural: Centroids of the standardised features, `[K, s]`, float32.
        heuristic: Centroids over the terms below, `[K, T]`, float32.
        mean: Subtracted from structural features, `[s]`, float32.
        scale: Structural features are divided by it, `[s]`, float32.
        terms: The terms that heuristic features use, `[T]`, int64, rising.
        document_frequency: In how many tables each of those terms was, `[T]`, int64.
        n_documents: How many tables there were.
        sublinear: Whether a repeated word counts 1 + ln(count) times.
    """

    semantic: Tensor
    structural: Tensor
    heuristic: Tensor
    mean: Tensor
    scale: Tensor
    terms: Tensor
    document_frequency: Tensor
    n_documents: int
    sublinear: bool

    def to_arrays(self) -> Arrays:
        """The arrays to store."""
        return {name: torch.as_tensor(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def open(cls, path: Path, sizes: Mapping[str, int]) -> Clusters:
        """The clusters that `to_arrays` gave to a file.

        Args:
            path: The file.
            sizes: The lengths d and s of the features.

        Raises:
            IndexFormatError: The file is damaged.
        """
        arrays = read_arrays(path)
        check_arrays(path, arrays, _CLUSTERS_LAYOUT, dict(sizes))
        numbers = {"n_documents": int(arrays["n_documents"]), "sublinear": bool(arrays["sublinear"])}
        return cls(**{**arrays, **numbers})  # type: ignore[arg-type]

    def centroids(self, modality: str) -> Tensor:
        """The centroids of one modality, `[K, ...]`."""
        centroids: Tensor = getattr(self, modality)
        return centroids

    def standardize(self, structural: Tensor) -> Tensor:
        """Structural features `[n, s]` as they are clustered."""
        return (structural - self.mean) / self.scale

    def weigh(self, counts: SparseMatrix) -> SparseMatrix:
        """Term counts `[n, V]` as TF-IDF over the clusters' terms, `[n, T]`, unit rows; other terms are left out."""
        n_terms = self.terms.numel()
        places = torch.searchsorted(self.terms, counts.columns.values).clamp_max_(max(n_terms - 1, 0))
        known = self.terms[places] == counts.columns.values if n_terms else torch.zeros_like(places, dtype=torch.bool)
        lengths = torch.bincount(counts.row_ids()[known], minlength=len(counts.columns))
        columns = Ragged.from_lengths(places[known].to(INDEX_DTYPE), lengths)
        # Where no table has a word there is one column, all zero, so that clusters have something to compare.
        kept = SparseMatrix(columns, counts.weights[known], max(n_terms, 1))
        return tfidf(kept, self.document_frequency, self.n_documents, self.sublinear)


class Snapshot:
    """The segments of one generation as one corpus of N tables, numbered through from 0.

    Tables that were removed keep their numbers and are never alive again. Nothing here changes after the start, so any
    number of threads may search.
    """

    def __init__(
        self,
        config: Config,
        segments: Sequence[Segment],
        clusters: Clusters,
        removed: Tensor,
        spacy_pipeline: str,
        device: torch.device,
    ) -> None:
        self.config = config
        self.segments = list(segments)
        self.clusters = clusters
        self.spacy_pipeline = spacy_pipeline
        self.device = device
        self.n_tables = self.segments[-1].stop if self.segments else 0
        self.removed = removed
        self.alive = torch.ones(self.n_tables, dtype=torch.bool)
        self.alive[removed] = False
        self.n_alive = int(self.alive.sum())
        self._starts = [segment.start for segment in self.segments]
        self._graphs: dict[tuple[object, ...], SparseMatrix] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: IndexFolder, manifest: Manifest, device: torch.device) -> Snapshot:
        """Maps the files of a manifest into memory.

        Raises:
            FileNotFoundError: A writer deleted a file meanwhile; there is a newer manifest.
            IndexFormatError: A file is damaged, or the config is that of another version.
        """
        try:
            config = Config.from_json(manifest.config)
        except GTRError as error:
            raise IndexFormatError(
                f"{folder.path} was written by gtr-gpu {manifest.library_version} with a setting that this library "
                f"doesn't take ({error}); build the index anew from its sources, or use that version or a newer one"
            ) from None
        if not manifest.segments:
            raise IndexFormatError(f"{folder.path} holds an index of no tables; build it anew from its sources")
        try:
            segments: list[Segment] = []
            shared: dict[str, int] = {}
            for entry in manifest.segments:
                files = {role: folder.file(file) for role, file in entry.files.items()}
                start = segments[-1].stop if segments else 0
                tables = TableStore.open(files["tables"])
                features, relations = read_arrays(files["features"]), read_arrays(files["relations"])
                if len(tables) != entry.n_tables:
                    raise IndexFormatError(
                        f"{files['tables']} is damaged: it must hold {entry.n_tables:,} tables but holds "
                        f"{len(tables):,}; `gtr verify` lists all damage"
                    )
                # Lengths that one segment has are its own, apart from those that all share.
                own = {"n": len(tables), **shared}
                check_arrays(files["features"], features, features_layout(config.edge_kinds), own)
                check_arrays(files["relations"], relations, relations_layout(config.edge_kinds), {"n": len(tables)})
                shared = {"d": own["d"], "s": own["s"]}
                segments.append(Segment(tables, files["features"], features, relations, start))
            clusters = Clusters.open(folder.file(manifest.files["clusters"]), shared)
            removed = torch.empty(0, dtype=torch.int64)
            if "tombstones" in manifest.files:
                path = folder.file(manifest.files["tombstones"])
                arrays = read_arrays(path)
                check_arrays(path, arrays, {"rows": ([torch.int64], ["removed"])}, {})
                removed = arrays["rows"]
        except KeyError as error:
            raise IndexFormatError(
                f"{folder.path} lacks {error}, which this library needs; build the index anew from its sources"
            ) from None
        # Indexes of older versions don't tell it.
        spacy_pipeline = str(manifest.encoder.get("spacy_pipeline", ""))
        return cls(config, segments, clusters, removed, spacy_pipeline, device)

    @cached_property
    def takeable(self) -> Tensor | None:
        """Which tables a search may take, `[N]`, bool, on its device; None where that is all."""
        return None if self.n_alive == self.n_tables else self.alive.to(self.device)

    @cached_property
    def rows(self) -> dict[str, int]:
        """The number of each alive table by its id."""
        alive = self.alive.tolist()
        return {
            name: segment.start + place
            for segment in self.segments
            for place, name in enumerate(segment.tables.ids().to_pylist())
            if alive[segment.start + place]
        }

    def table_ids(self, rows: Tensor) -> list[str]:
        """The ids of table numbers `[n]`, in that order."""
        unique, places = torch.unique(rows.cpu().long(), return_inverse=True)
        names: list[str] = []
        for segment in self.segments:
            inside = unique[(unique >= segment.start) & (unique < segment.stop)] - segment.start
            names.extend(segment.tables.ids().take(inside.numpy()).to_pylist())
        return [names[place] for place in places.tolist()]

    def table(self, row: int) -> Table:
        """One table by its number."""
        segment, place = self.locate(row)
        return segment.tables[place]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """All terms, numbered."""
        return Vocabulary([term for segment in self.segments for term in segment.new_terms])

    @cached_property
    def document_frequency(self) -> Tensor:
        """In how many alive tables each term occurs, `[V]`, int64."""
        frequency = torch.zeros(max((segment.n_terms for segment in self.segments), default=0), dtype=torch.int64)
        for segment in self.segments:
            frequency += segment.postings(frequency.numel()).columns.lengths
            dead = (~self.alive[segment.start : segment.stop]).nonzero()[:, 0]
            gone = segment.terms.counts.columns.select(dead).values
            frequency -= torch.bincount(gone, minlength=frequency.numel())
        return frequency

    @cached_property
    def average_length(self) -> float:
        """Mean occurrences of terms over the alive tables."""
        lengths = torch.cat([segment.lengths for segment in self.segments])
        return float(lengths[self.alive].double().mean()) if self.n_alive else 0.0

    @cached_property
    def hypergraph(self) -> Hypergraph:
        """The hyperedges of all modalities, of alive tables only."""
        labels = {m: torch.cat([s.relations.labels[m] for s in self.segments]) for m in MODALITIES}
        scores = {m: torch.cat([s.relations.scores[m] for s in self.segments]) for m in MODALITIES}
        n_clusters = {m: len(self.clusters.centroids(m)) for m in MODALITIES}
        return build_hypergraph(labels, scores, n_clusters, self.config.n_typical, self.alive)

    @cached_property
    def out_edges(self) -> dict[str, OutEdges]:
        """For each kind of edge the neighbours of all N tables."""
        relations = [segment.relations for segment in self.segments]
        return {kind: OutEdges.cat([relation.edges[kind] for relation in relations]) for kind in self.config.edge_kinds}

    @cached_property
    def signatures(self) -> dict[str, Tensor]:
        """For each kind that has evidence the signatures of all N tables."""
        kinds = [kind for kind in EVIDENCE_KINDS if kind in self.config.edge_kinds]
        return {kind: torch.cat([signatures_of(segment.evidence(kind)) for segment in self.segments]) for kind in kinds}

    def graph(self, config: Config) -> SparseMatrix:
        """The neighbour graph W `[N, N]` with the weights that a search asks for; kept for the next one."""
        weights = {kind: float(getattr(config, f"weight_{kind}")) for kind in EDGE_KINDS}
        key = (*weights.values(), config.similarity_floor)
        with self._lock:
            if key not in self._graphs:
                edges = {kind: found.above(config.similarity_floor) for kind, found in self.out_edges.items()}
                graph = believed_graph(edges, self.signatures, weights, self.alive)
                while len(self._graphs) >= _KEPT_GRAPHS:
                    del self._graphs[next(iter(self._graphs))]
                self._graphs[key] = graph.to(self.device)
            return self._graphs[key]

    def locate(self, row: int) -> tuple[Segment, int]:
        """The segment of a table and its place there."""
        segment = self.segments[bisect.bisect_right(self._starts, row) - 1]
        return segment, row - segment.start

    def semantic(self, rows: Tensor) -> Tensor:
        """The semantic features of table numbers `[n]`: `[n, d]`, float32, on the search's device.

        Raises:
            IndexFormatError: Some of them are damaged, so that they are no numbers.
        """
        return self._gather(rows, lambda segment: segment.semantic).to(self.device, torch.float32)

    def rows_of(self, modality: str, rows: Tensor) -> Rows:
        """The features of table numbers `[n]` in one modality, as they are clustered; dense or sparse, n rows.

        Raises:
            IndexFormatError: Some dense ones are damaged, so that they are no numbers.
        """
        if modality == "semantic":
            return self.semantic(rows)
        if modality == "structural":
            found = self._gather(rows, lambda segment: segment.structural)
            return self.clusters.standardize(found).to(self.device)
        rows = rows.cpu().long()
        order = torch.argsort(rows, stable=True)
        parts = []
        for segment in self.segments:
            inside = rows[order]
            inside = inside[(inside >= segment.start) & (inside < segment.stop)] - segment.start
            parts.append(self.clusters.weigh(segment.terms.counts.select(inside)))
        return stack_sparse(parts).select(torch.argsort(order)).to(self.device)

    @cached_property
    def flat(self) -> FlatScores:
        """Scores with all tables; made by the first search that asks for them."""
        return FlatScores(self)

    def _gather(self, rows: Tensor, column: Callable[[Segment], Tensor]) -> Tensor:
        rows = rows.cpu().long()
        first = column(self.segments[0])
        if len(self.segments) == 1:
            gathered = first[rows]
        else:
            gathered = torch.empty((rows.numel(), *first.shape[1:]), dtype=first.dtype)
            for segment in self.segments:
                inside = (rows >= segment.start) & (rows < segment.stop)
                gathered[inside] = column(segment)[rows[inside] - segment.start]
        # One sum is cheaper than a look at each number.
        if not gathered.sum(dtype=torch.float32).isfinite():
            broken = rows[~gathered.isfinite().all(1)]
            if broken.numel():
                raise self.locate(int(broken[0]))[0].not_finite()
        return gathered
