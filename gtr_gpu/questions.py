"""Questions in the features of the tables, and what was cut of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError
from gtr_gpu.features.heuristic import count_queries, stop_words_of
from gtr_gpu.features.phrases import question_phrases
from gtr_gpu.features.semantic import Encoder
from gtr_gpu.features.stems import stem_of
from gtr_gpu.features.structural import StructuralFeaturizer
from gtr_gpu.features.tokens import Numbers
from gtr_gpu.ragged import Ragged, SparseMatrix
from gtr_gpu.snapshot import Snapshot


@dataclass(frozen=True)
class QueryFeatures:
    """A batch of B questions in the features of the tables.

    Attributes:
        semantic: Unit vectors, `[B, d]`, float32.
        structural: Raw counts, `[B, s]`, float32; None where no search looks at them.
        terms: Occurrences of known terms, `[B, V]`, int32.
        phrases: The hashed runs of words, B rows, int64; None where no search looks at them.
    """

    semantic: Tensor
    structural: Tensor | None
    terms: SparseMatrix
    phrases: Ragged | None = None

    def __len__(self) -> int:
        return len(self.semantic)

    def slice(self, start: int, stop: int) -> QueryFeatures:
        """The questions from `start` up to `stop`."""
        structural = None if self.structural is None else self.structural[start:stop]
        phrases = None if self.phrases is None else self.phrases.slice(start, stop)
        return QueryFeatures(self.semantic[start:stop], structural, self.terms.slice(start, stop), phrases)


class QuestionReader:
    """Turns questions into features; keeps the spaCy pipeline where a search needs it. Thread-safe."""

    def __init__(self) -> None:
        self._structural: tuple[tuple[str, str, str], StructuralFeaturizer] | None = None
        self._lock = threading.Lock()

    def read(
        self, queries: Sequence[str], encoder: Encoder, snapshot: Snapshot, config: Config, clusters: bool
    ) -> tuple[QueryFeatures, list[str]]:
        """The features of B questions.

        Args:
            queries: The questions.
            encoder: The encoder of the index.
            snapshot: Gives the vocabulary.
            config: `max_query_words`, `stop_words`, `numbers`, and what clusters are searched by.
            clusters: Whether clusters are searched; structural features are read for nothing else.

        Returns:
            The features, and notes on what was cut.

        Raises:
            GTRError: A question is empty, or another spaCy pipeline is installed than the index needs.
        """
        for number, query in enumerate(queries, 1):
            if not query.strip():
                raise GTRError(f"question {number} of {len(queries)} is empty; give it at least one word")
        words = [_sound(query).split(maxsplit=config.max_query_words) for query in queries]
        long = torch.tensor([len(parts) > config.max_query_words for parts in words], dtype=torch.bool)
        texts = [" ".join(parts[: config.max_query_words]) for parts in words]
        semantic, cut = encoder.encode_queries(texts)
        skipped = stop_words_of(config.spacy_model) if config.stop_words == "auto" else frozenset()
        stem = stem_of(config.stemming, config.spacy_model)
        terms = count_queries(texts, snapshot.vocabulary, cast(Numbers, config.numbers), skipped, stem)
        structural = None
        if clusters and config.query_features == "native" and "structural" in config.modalities:
            structural = self._featurizer(config, snapshot).features(texts)
        notes = []
        if bool(long.any()):
            notes.append(f"{_questions(int(long.sum()))} cut to the first {config.max_query_words} words")
        beyond = int((cut & ~long).sum())
        if beyond:
            notes.append(f"{_questions(beyond)} cut to the encoder's window of {encoder.window} tokens")
        phrases = question_phrases(texts, stem) if config.personalization == "pooled" else None
        return QueryFeatures(semantic.to(snapshot.device), structural, terms, phrases), notes

    def _featurizer(self, config: Config, snapshot: Snapshot) -> StructuralFeaturizer:
        # Another index may have taken the place of the one that the pipeline was loaded for.
        needed = (config.spacy_model, config.structural_features, snapshot.spacy_pipeline)
        with self._lock:
            if self._structural is None or self._structural[0] != needed:
                featurizer = StructuralFeaturizer(config)
                featurizer.check_beside(snapshot.spacy_pipeline, snapshot.clusters.mean.numel(), searched=True)
                self._structural = (needed, featurizer)
            return self._structural[1]


def _sound(query: str) -> str:
    """The question without halves of surrogate pairs, which no tokenizer reads."""
    return query.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _questions(count: int) -> str:
    return "1 question was" if count == 1 else f"{count:,} questions were"
