"""Encoders without a neural network, so that a benchmark can look at everything else."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from gtr_gpu.features.encoding_cache import EncodingCache
from gtr_gpu.features.semantic import EncodedTables, Encoder
from gtr_gpu.linearize import TableText
from gtr_gpu.progress import Stage


class HashEncoder:
    """Vectors made of words: the sum of one fixed random vector for each word's hash, of unit length.

    Tables that share words are near each other, as with a real encoder, at a thousandth of the cost. Nothing is said
    about quality with it.
    """

    name = "hash-of-words"
    fingerprint = "hash-of-words-1"
    dimension = 384
    window = 1 << 20
    _BUCKETS = 1 << 16
    _WORDS = 200

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self._vectors = torch.randn(self._BUCKETS, self.dimension, generator=generator)

    def encode_tables(
        self, texts: Sequence[TableText], cache: EncodingCache | None = None, stage: Stage | None = None
    ) -> EncodedTables:
        """Vectors of tables; nothing is cut."""
        vectors = self._encode([text.joined() for text in texts])
        if stage:
            stage.advance(len(texts))
        nothing = torch.zeros(len(texts), dtype=torch.int64)
        return EncodedTables(vectors, nothing, nothing, nothing.bool())

    def encode_queries(self, queries: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Vectors of questions; nothing is cut."""
        return self._encode(queries), torch.zeros(len(queries), dtype=torch.bool)

    def _encode(self, texts: Sequence[str]) -> Tensor:
        words = [text.lower().split()[: self._WORDS] or [""] for text in texts]
        buckets = [[zlib.crc32(word.encode("utf-8", "replace")) % self._BUCKETS for word in row] for row in words]
        offsets = torch.tensor([0, *map(len, buckets)]).cumsum(0)[:-1]
        flat = torch.tensor([bucket for row in buckets for bucket in row])
        sums = torch.nn.functional.embedding_bag(flat, self._vectors, offsets, mode="sum")
        return torch.nn.functional.normalize(sums, dim=1)


class Remembered:
    """Gives questions the vectors that another encoder gave them before, so that a search is timed without encoding."""

    def __init__(self, queries: Sequence[str], encoder: Encoder) -> None:
        """Asks the other encoder once."""
        self.window = encoder.window
        self.fingerprint = encoder.fingerprint
        self.vectors, _ = encoder.encode_queries(queries)
        self._rows = {" ".join(query.split()): row for row, query in enumerate(queries)}

    def encode_queries(self, queries: Sequence[str]) -> tuple[Tensor, Tensor]:
        """The remembered vectors; an unknown question is an error."""
        rows = torch.tensor([self._rows[" ".join(query.split())] for query in queries], dtype=torch.int64)
        return self.vectors[rows], torch.zeros(len(queries), dtype=torch.bool)
