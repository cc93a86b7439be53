"""From a stream of tables to segments: stored, featurized, clustered and related, in bounded memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from gtr_gpu.clustering import kmeans
from gtr_gpu.config import MODALITIES, Config
from gtr_gpu.errors import GTRError
from gtr_gpu.features.encoding_cache import EncodingCache
from gtr_gpu.features.evidence import EVIDENCE_KINDS, evidence
from gtr_gpu.features.heuristic import TermCounts, Vocabulary, count_terms
from gtr_gpu.features.phrases import table_phrases
from gtr_gpu.features.semantic import Encoder
from gtr_gpu.features.stems import stem_of
from gtr_gpu.features.structural import StructuralFeaturizer
from gtr_gpu.features.tokens import Numbers
from gtr_gpu.hypergraph import join
from gtr_gpu.linearize import heuristic_fields, phrase_texts, structural_text, table_text
from gtr_gpu.neighbors import OutEdges, SemanticClusters, out_edges
from gtr_gpu.ops.types import Rows
from gtr_gpu.progress import ENCODING, Progress, Stage
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix, cat_ragged, stack_sparse
from gtr_gpu.segment import SEGMENT_TABLES, Features, Relations, Segment
from gtr_gpu.snapshot import Clusters, Snapshot
from gtr_gpu.tables import Table, TableStore, TableWriter
from gtr_gpu.tables.normalize import Limits

_CHUNK_TABLES = 1024
# Numbers in the centroids of TF-IDF rows, which are dense: 32 MB in float32. Terms that are left out for it are rare
# ones, which tell no clusters apart.
_CENTROID_NUMBERS = 1 << 23
# Tables up to which semantic neighbours are found exactly, by all N² comparisons.
_EXACT_NEIGHBORS = 200_000


@dataclass
class Omissions:
    """What a build read only in part, so that no truncation is silent.

    Attributes:
        tables: Tables read.
        rows: Rows that the sources hold.
        rows_beyond_limit: Of these, rows beyond the row or cell limit, which are counted only.
        tables_beyond_limit: Tables with such rows.
        tables_beyond_window: Tables whose kept rows didn't all fit into the encoder's window.
        rows_beyond_window: Those rows.
        headers_beyond_window: Tables with column names that didn't fit.
        names_beyond_window: Those names.
        leads_beyond_window: Tables with a caption or description that was cut for the encoder.
    """

    tables: int = 0
    rows: int = 0
    rows_beyond_limit: int = 0
    tables_beyond_limit: int = 0
    tables_beyond_window: int = 0
    rows_beyond_window: int = 0
    headers_beyond_window: int = 0
    names_beyond_window: int = 0
    leads_beyond_window: int = 0

    def count_table(self, table: Table) -> None:
        """Counts what the row limit left of a table."""
        beyond = table.n_rows - len(table.rows)
        self.tables += 1
        self.rows += table.n_rows
        self.rows_beyond_limit += beyond
        self.tables_beyond_limit += beyond > 0

    def count_encoded(self, cut_rows: Tensor, cut_names: Tensor, cut_lead: Tensor) -> None:
        """Counts what the encoder's window left of some tables, `[n]` each."""
        self.tables_beyond_window += int((cut_rows > 0).sum())
        self.rows_beyond_window += int(cut_rows.sum())
        self.headers_beyond_window += int((cut_names > 0).sum())
        self.names_beyond_window += int(cut_names.sum())
        self.leads_beyond_window += int(cut_lead.sum())


def distinct(tables: Iterable[Table]) -> Iterator[Table]:
    """Passes tables on, as long as no id comes twice.

    Raises:
        GTRError: Two tables have one id; names both places.
    """
    places: dict[str, str] = {}
    for table in tables:
        place = table.source or "a table without a source"
        if table.table_id in places:
            raise GTRError(
                f"table id {table.table_id!r} comes twice, in {places[table.table_id]} and in {place}; leave one out "
                "or give it another id (files are told apart by their paths below the folder that is named)"
            )
        places[table.table_id] = place
        yield table


def limited(tables: Iterable[Table], config: Config, omissions: Omissions, stage: Stage) -> Iterator[Table]:
    """Passes tables on, cut to the row limit and counted."""
    limits = Limits.from_config(config)
    for table in tables:
        kept = limits.rows(len(table.header))
        if len(table.rows) > kept:
            table = dataclasses.replace(table, rows=table.rows[:kept])
        omissions.count_table(table)
        stage.advance()
        yield table


def write_tables(tables: Iterable[Table], new_path: Callable[[], Path]) -> list[Path]:
    """Stores a stream of tables in files of at most one segment each; a few tables at a time are in memory."""
    paths: list[Path] = []
    stream = iter(tables)
    # A segment begins only when there is a table for it.
    for first in stream:
        paths.append(new_path())
        with TableWriter(paths[-1]) as writer:
            writer.append(first)
            for table in islice(stream, SEGMENT_TABLES - 1):
                writer.append(table)
    return paths


class Featurizer:
    """Computes what depends on the tables alone.

    Args:
        encoder: Gives semantic features.
        config: The knobs of the build.
        vocabulary: Grows by the terms that are new.
        cache: Encodings of an interrupted build, and the place for new ones.
        joined: The index that the tables are added to; None in a build.
    """

    def __init__(
        self,
        encoder: Encoder,
        config: Config,
        vocabulary: Vocabulary,
        cache: EncodingCache | None = None,
        joined: Snapshot | None = None,
    ) -> None:
        self._encoder = encoder
        self._config = config
        self._vocabulary = vocabulary
        self._cache = cache
        self._joined = joined
        self._structural: StructuralFeaturizer | None = None

    @property
    def spacy_pipeline(self) -> str:
        """The name and version of the pipeline that counted structural features; empty before there are any."""
        return self._structural.name if self._structural else ""

    def features(self, store: TableStore, progress: Progress, omissions: Omissions) -> Features:
        """The features of all tables of a store, in order."""
        n_known = len(self._vocabulary)
        structural, terms, kinds, phrases = [], [], [], []
        stem = stem_of(self._config.stemming, self._config.spacy_model)
        with progress.stage("Counting words and parts of speech", len(store)) as stage:
            # Here and not earlier, so that a spaCy pipeline's loading is seen as work.
            self._structural = self._structural or self._load_structural()
            for tables in _chunks(store):
                structural.append(self._structural.features([structural_text(t, self._config) for t in tables]))
                fields = (heuristic_fields(table, self._config) for table in tables)
                terms.append(count_terms(fields, self._vocabulary, cast(Numbers, self._config.numbers), stem))
                kinds.append(evidence(tables, self._config))
                phrases.append(table_phrases((phrase_texts(table, self._config) for table in tables), stem))
                stage.advance(len(tables))
        semantic = []
        with progress.stage(ENCODING, len(store)) as stage:
            for tables in _chunks(store):
                texts = [table_text(table, self._config) for table in tables]
                encoded = self._encoder.encode_tables(texts, self._cache, stage)
                omissions.count_encoded(encoded.cut_rows, encoded.cut_names, encoded.cut_lead)
                dtype = getattr(torch, self._config.feature_dtype)
                semantic.append(encoded.vectors.to(dtype))
        if self._cache:
            self._cache.flush()
        return Features(
            torch.cat(semantic),
            torch.cat(structural),
            TermCounts(stack_sparse([part.counts for part in terms]), torch.cat([part.cell_counts for part in terms])),
            self._vocabulary.to_list(n_known),
            {kind: cat_ragged([part[kind] for part in kinds]) for kind in kinds[0]},
            cat_ragged(phrases),
        )

    def _load_structural(self) -> StructuralFeaturizer:
        featurizer = StructuralFeaturizer(self._config)
        if self._joined:
            width, searched = self._joined.clusters.mean.numel(), "structural" in self._config.modalities
            featurizer.check_beside(self._joined.spacy_pipeline, width, searched=searched)
        return featurizer


def _chunks(store: TableStore) -> Iterator[list[Table]]:
    chunk: list[Table] = []
    for table in store:
        chunk.append(table)
        if len(chunk) == _CHUNK_TABLES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def make_clusters(
    segments: Sequence[Segment], config: Config, seed: int, progress: Progress
) -> tuple[Clusters, list[str]]:
    """Clusters all tables by k-means, once for each modality.

    Returns:
        The centroids with what is needed to compare another table with them, and notes for the user.
    """
    n_tables = segments[-1].stop
    n_clusters = min(config.n_clusters or max(1, round(n_tables**0.5)), n_tables)
    structural = torch.cat([segment.structural for segment in segments])
    mean, scale = torch.zeros(structural.shape[1]), torch.ones(structural.shape[1])
    if config.standardize:
        mean = structural.double().mean(0).float()
        scale = structural.double().std(0, correction=0).float()
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    n_terms = max(segment.n_terms for segment in segments)
    frequency = torch.zeros(n_terms, dtype=torch.int64)
    for segment in segments:
        frequency += segment.postings(n_terms).columns.lengths
    kept = min(n_terms, _CENTROID_NUMBERS // n_clusters)
    terms = torch.sort(torch.argsort(frequency, descending=True, stable=True)[:kept]).values
    nothing = torch.empty(0)
    clusters = Clusters(nothing, nothing, nothing, mean, scale, terms, frequency[terms], n_tables, config.sublinear)
    notes: list[str] = []

    def centroids(modality: str, rows: Rows | list[Tensor]) -> Tensor:
        result = kmeans(
            rows,
            n_clusters,
            n_starts=config.kmeans_starts,
            max_iterations=config.kmeans_iterations,
            seed=seed,
            sample_per_cluster=config.kmeans_sample,
        )
        if result.note:
            notes.append(f"{modality} clusters: {result.note}")
        stage.advance()
        return result.centroids

    with progress.stage("Clustering", len(MODALITIES)) as stage:
        weighed = stack_sparse([clusters.weigh(segment.terms.counts) for segment in segments])
        clusters = dataclasses.replace(
            clusters,
            semantic=centroids("semantic", [segment.semantic for segment in segments]),
            structural=centroids("structural", clusters.standardize(structural)),
            heuristic=centroids("heuristic", weighed),
        )
    return clusters, notes


def relate(
    segments: Sequence[Segment], first_new: int, clusters: Clusters, alive: Tensor, config: Config, progress: Progress
) -> list[Relations]:
    """Gives every new segment's tables their clusters and their neighbours among all tables.

    Args:
        segments: All segments of the index.
        first_new: The number of the first segment that needs relations.
        clusters: Centroids of every modality.
        alive: Which tables may be neighbours, `[N]`, bool.
        config: `edge_kinds`, `n_neighbors`, `max_common`.
        progress: Where to report.

    Returns:
        For each new segment its relations.
    """
    new = segments[first_new:]
    with progress.stage("Joining clusters", len(new)) as stage:
        memberships = []
        for segment in new:
            memberships.append(_join_clusters(segment, clusters))
            stage.advance()
    known = [segment.relations.labels["semantic"] for segment in segments[:first_new]]
    labels = torch.cat([*known, *(labels["semantic"] for labels, _ in memberships)])
    nearby = SemanticClusters(labels, clusters.semantic) if len(labels) > _EXACT_NEIGHBORS else None
    semantic = torch.cat([s.semantic for s in segments]) if len(segments) > 1 else segments[0].semantic
    start = new[0].start
    edges: dict[str, OutEdges] = {}
    with progress.stage("Finding neighbours", len(config.edge_kinds)) as stage:
        for kind in config.edge_kinds:
            evidence = None if kind == "semantic" else cat_ragged([segment.evidence(kind) for segment in segments])
            edges[kind] = out_edges(
                kind, semantic, evidence, config.n_neighbors, config.max_common, start, alive, nearby
            )
            stage.advance()
    relations = []
    for segment, (labels_of, scores_of) in zip(new, memberships, strict=True):
        window = slice(segment.start - start, segment.stop - start)
        mine = {kind: OutEdges(found.ids[window], found.similarities[window]) for kind, found in edges.items()}
        relations.append(Relations(labels_of, scores_of, mine))
    return relations


def _join_clusters(segment: Segment, clusters: Clusters) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The cluster of each table in each modality, and the table's cosine with its centroid."""
    rows: dict[str, Rows] = {
        "semantic": segment.semantic.float(),
        "structural": clusters.standardize(segment.structural),
        "heuristic": clusters.weigh(segment.terms.counts),
    }
    joined = {modality: join(rows[modality], clusters.centroids(modality)) for modality in MODALITIES}
    return {m: labels for m, (labels, _) in joined.items()}, {m: scores for m, (_, scores) in joined.items()}


def merge_features(old: Snapshot) -> Iterator[tuple[Tensor, Features]]:
    """The features of the tables that are alive, in full segments; terms that none of them holds are forgotten.

    Yields:
        The old numbers of a new segment's tables, rising, and their features.
    """
    used = old.document_frequency > 0
    numbers = torch.cumsum(used, 0).to(INDEX_DTYPE) - 1
    names = old.vocabulary.to_list()
    new_terms = [names[number] for number in used.nonzero()[:, 0].tolist()]
    n_terms = len(new_terms)
    kinds = [kind for kind in EVIDENCE_KINDS if kind in old.config.edge_kinds]
    for rows in torch.split(old.alive.nonzero()[:, 0], SEGMENT_TABLES):
        parts = [(s, rows[(rows >= s.start) & (rows < s.stop)] - s.start) for s in old.segments]
        parts = [(segment, inside) for segment, inside in parts if len(inside)]
        counts = [segment.terms.select(inside) for segment, inside in parts]
        merged = stack_sparse([part.counts for part in counts])
        columns = Ragged(numbers[merged.columns.values.long()], merged.columns.offsets)
        terms = TermCounts(
            SparseMatrix(columns, merged.weights, n_terms), torch.cat([part.cell_counts for part in counts])
        )
        yield (
            rows,
            Features(
                torch.cat([segment.semantic[inside] for segment, inside in parts]),
                torch.cat([segment.structural[inside] for segment, inside in parts]),
                terms,
                new_terms,
                {kind: cat_ragged([s.evidence(kind).select(inside) for s, inside in parts]) for kind in kinds},
                cat_ragged([segment.phrases.select(inside) for segment, inside in parts]),
            ),
        )
        new_terms = []
