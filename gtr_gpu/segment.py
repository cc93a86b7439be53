"""One immutable part of an index: tables, what was computed of each alone, and how they relate to all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gtr_gpu.config import MODALITIES
from gtr_gpu.errors import IndexFormatError
from gtr_gpu.features.evidence import EVIDENCE_KINDS
from gtr_gpu.features.heuristic import TermCounts
from gtr_gpu.neighbors import OutEdges
from gtr_gpu.ragged import INDEX_DTYPE, OFFSET_DTYPE, Ragged, SparseMatrix, offsets_from_lengths
from gtr_gpu.storage import Layout, pack_texts, unpack_texts
from gtr_gpu.tables import TableStore

SEGMENT_TABLES = 65_536

Arrays = dict[str, Tensor]


@dataclass(frozen=True)
class Features:
    """What is computed of each of a segment's n tables alone.

    Attributes:
        semantic: Unit vectors, `[n, d]`, float32 or float16.
        structural: Raw counts, `[n, s]`, float32.
        terms: Occurrences of each term in each table, `[n, V]`; V is the vocabulary up to this segment.
        new_terms: The terms that this segment was the first to use, in the order of their numbers.
        evidence: For the edge kinds header, key, column and caption, as far as the index has them, the hashed names,
            values, columns and words of each table, int32.
        phrases: The hashed phrases that each table's caption, names and cells are, distinct and rising in each row,
            int64.
    """

    semantic: Tensor
    structural: Tensor
    terms: TermCounts
    new_terms: list[str]
    evidence: Mapping[str, Ragged]
    phrases: Ragged

    def to_arrays(self) -> Arrays:
        """The arrays to store; the counts are stored by table and, as postings, by term, phrases by phrase alone."""
        arrays = {"semantic": self.semantic, "structural": self.structural, "terms.in_cells": self.terms.cell_counts}
        arrays["lengths"] = self.terms.lengths.float()
        counts = self.terms.counts
        arrays |= _sparse_to_arrays("terms", counts) | _sparse_to_arrays("postings", counts.transpose())
        arrays["vocabulary.text"], arrays["vocabulary.offsets"] = pack_texts(self.new_terms)
        order = torch.argsort(self.phrases.values, stable=True)
        hashes, lengths = torch.unique_consecutive(self.phrases.values[order], return_counts=True)
        tables = self.phrases.segment_ids()[order].to(INDEX_DTYPE)
        arrays |= {"phrases.hashes": hashes, "phrases.tables": tables, "phrases.offsets": offsets_from_lengths(lengths)}
        for kind, ids in self.evidence.items():
            arrays |= {f"{kind}.values": ids.values, f"{kind}.offsets": ids.offsets}
        return arrays


@dataclass(frozen=True)
class Relations:
    """How a segment's n tables relate to the whole index.

    Attributes:
        labels: For each modality the cluster of each table, `[n]`, int32.
        scores: For each modality the cosine of each table with its cluster's centroid, `[n]`, float32.
        edges: For each kind of edge the neighbours of each table.
    """

    labels: Mapping[str, Tensor]
    scores: Mapping[str, Tensor]
    edges: Mapping[str, OutEdges]

    def to_arrays(self) -> Arrays:
        """The arrays to store."""
        arrays = {f"labels.{modality}": labels for modality, labels in self.labels.items()}
        arrays |= {f"scores.{modality}": scores for modality, scores in self.scores.items()}
        for kind, edges in self.edges.items():
            arrays |= {f"edges.{kind}.ids": edges.ids, f"edges.{kind}.similarities": edges.similarities}
        return arrays


def features_layout(kinds: Iterable[str]) -> Layout:
    """The arrays of a segment's n tables of an index with edges of some kinds."""
    whole, offset, real = [INDEX_DTYPE], [OFFSET_DTYPE], [torch.float32]
    layout: dict[str, tuple[list[torch.dtype], list[str]]] = {
        "semantic": ([torch.float32, torch.float16], ["n", "d"]),
        "structural": (real, ["n", "s"]),
        "lengths": (real, ["n"]),
        "terms.values": (whole, ["entries"]),
        "terms.weights": (whole, ["entries"]),
        "terms.in_cells": (whole, ["entries"]),
        "terms.offsets": (offset, ["n+1"]),
        "postings.values": (whole, ["entries"]),
        "postings.weights": (whole, ["entries"]),
        "postings.offsets": (offset, ["v+1"]),
        "phrases.hashes": ([torch.int64], ["phrases"]),
        "phrases.tables": (whole, ["cells"]),
        "phrases.offsets": (offset, ["phrases+1"]),
        "vocabulary.text": ([torch.uint8], ["bytes"]),
        "vocabulary.offsets": (offset, ["new+1"]),
    }
    for kind in kinds:
        if kind in EVIDENCE_KINDS:
            layout |= {f"{kind}.values": (whole, [kind]), f"{kind}.offsets": (offset, ["n+1"])}
    return layout


def relations_layout(kinds: Iterable[str]) -> Layout:
    """The arrays of the relations of a segment's n tables in an index with edges of some kinds."""
    layout: dict[str, tuple[list[torch.dtype], list[str]]] = {}
    for modality in MODALITIES:
        layout |= {f"labels.{modality}": ([INDEX_DTYPE], ["n"]), f"scores.{modality}": ([torch.float32], ["n"])}
    for kind in kinds:
        layout[f"edges.{kind}.ids"] = ([INDEX_DTYPE], ["n", kind])
        layout[f"edges.{kind}.similarities"] = ([torch.float32], ["n", kind])
    return layout


class Segment:
    """A segment as it lies on disk; nothing is read before it is used.

    Attributes:
        tables: The tables themselves.
        path: The file of its features, for messages.
        start: The number of its first table in the index.
    """

    def __init__(self, tables: TableStore, path: Path, features: Arrays, relations: Arrays, start: int) -> None:
        self.tables = tables
        self.path = path
        self.start = start
        self._features = features
        self._relations = relations

    def __len__(self) -> int:
        return int(self.semantic.shape[0])

    @property
    def stop(self) -> int:
        """The number after that of its last table."""
        return self.start + len(self)

    def not_finite(self) -> IndexFormatError:
        """What to raise where its features turn out to hold numbers that are not finite."""
        return IndexFormatError(
            f"{self.path} is damaged (it holds numbers that are not finite); `gtr verify` lists all damage; "
            "restore the file, or build the index anew from its sources"
        )

    @property
    def semantic(self) -> Tensor:
        """Unit vectors, `[n, d]`, float32 or float16."""
        return self._features["semantic"]

    @property
    def structural(self) -> Tensor:
        """Raw counts, `[n, s]`, float32."""
        return self._features["structural"]

    @property
    def n_terms(self) -> int:
        """The size of the vocabulary when the segment was written."""
        return self._features["postings.offsets"].numel() - 1

    @property
    def terms(self) -> TermCounts:
        """Occurrences of each term in each table, `[n, V]`."""
        counts = _sparse_from_arrays("terms", self._features, self.n_terms)
        return TermCounts(counts, self._features["terms.in_cells"])

    def postings(self, n_terms: int) -> SparseMatrix:
        """The tables of each term, `[V, n]`; terms that came after this segment have none.

        Args:
            n_terms: V, at least the size of the vocabulary when the segment was written.
        """
        postings = _sparse_from_arrays("postings", self._features, len(self))
        offsets = postings.columns.offsets
        offsets = torch.cat([offsets, offsets[-1:].expand(n_terms + 1 - offsets.numel())])
        return SparseMatrix(Ragged(postings.columns.values, offsets), postings.weights, len(self))

    @property
    def new_terms(self) -> list[str]:
        """The terms that this segment was the first to use, in the order of their numbers."""
        return unpack_texts(self._features["vocabulary.text"], self._features["vocabulary.offsets"])

    @property
    def lengths(self) -> Tensor:
        """Occurrences of terms in each table, `[n]`, float32."""
        return self._features["lengths"]

    @property
    def phrase_postings(self) -> tuple[Tensor, Ragged]:
        """All phrases, rising, `[P]`, int64, and the tables of each, P rows."""
        postings = Ragged(self._features["phrases.tables"], self._features["phrases.offsets"])
        return self._features["phrases.hashes"], postings

    @property
    def phrases(self) -> Ragged:
        """The phrases of each table, distinct and rising in each row, n rows, int64."""
        hashes, postings = self.phrase_postings
        return Ragged.from_segments(hashes[postings.segment_ids()], postings.values.long(), len(self))

    def evidence(self, kind: str) -> Ragged:
        """The hashed names, values or words of each table for one kind of edge, int32."""
        if kind == "cells":
            return self.terms.cell_terms()
        return Ragged(self._features[f"{kind}.values"], self._features[f"{kind}.offsets"])

    @property
    def relations(self) -> Relations:
        """Clusters and neighbours of its tables."""
        arrays = self._relations
        kinds = [name.split(".")[1] for name in arrays if name.startswith("edges.") and name.endswith(".ids")]
        return Relations(
            {modality: arrays[f"labels.{modality}"] for modality in MODALITIES},
            {modality: arrays[f"scores.{modality}"] for modality in MODALITIES},
            {kind: OutEdges(arrays[f"edges.{kind}.ids"], arrays[f"edges.{kind}.similarities"]) for kind in kinds},
        )


def _sparse_to_arrays(name: str, matrix: SparseMatrix) -> Arrays:
    columns = matrix.columns
    return {f"{name}.values": columns.values, f"{name}.offsets": columns.offsets, f"{name}.weights": matrix.weights}


def _sparse_from_arrays(name: str, arrays: Arrays, n_columns: int) -> SparseMatrix:
    columns = Ragged(arrays[f"{name}.values"], arrays[f"{name}.offsets"])
    return SparseMatrix(columns, arrays[f"{name}.weights"], n_columns)
