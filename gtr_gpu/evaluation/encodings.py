"""Encoders whose vectors are kept on disk, so that each table and question is encoded once for all methods and runs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from gtr_gpu.config import Config
from gtr_gpu.features.encoder_source import with_absolute_encoder
from gtr_gpu.features.encoding_cache import KEY_BYTES, EncodingCache
from gtr_gpu.features.semantic import EncodedTables, Encoder, choose_device
from gtr_gpu.linearize import TableText, table_text
from gtr_gpu.progress import LOADING_ENCODER, Progress, Silent, Stage
from gtr_gpu.tables import Table

_TOGETHER = 1024
# All that an encoder is made of; others of an index's knobs only choose what it reads.
_KNOBS = ("encoder", "encoder_revision", "pooling", "query_prefix", "passage_prefix", "max_tokens")


class SharedEncoder:
    """Stands where an `Encoder` would, and encodes nothing that is known.

    Attributes:
        seconds: How long it encoded.
    """

    def __init__(self, encoder: Encoder, cache: EncodingCache, kind: str, progress: Progress) -> None:
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.dimension = encoder.dimension
        self.window = encoder.window
        self.seconds = 0.0
        self._encoder = encoder
        self._cache = cache
        self._salt = f"{encoder.fingerprint}/{kind}/query/".encode()
        self._progress = progress
        self._asked: dict[str, Tensor] = {}

    def encode_tables(
        self, texts: Sequence[TableText], cache: EncodingCache | None = None, stage: Stage | None = None
    ) -> EncodedTables:
        """As `Encoder.encode_tables`; the caller's cache is left alone for the shared one."""
        with self._timed():
            return self._encoder.encode_tables(texts, self._cache, stage)

    def encode_queries(self, queries: Sequence[str]) -> tuple[Tensor, Tensor]:
        """As `Encoder.encode_queries`; questions that are too long for the window are encoded anew each time."""
        texts = [" ".join(query.split()) for query in queries]
        cut = torch.zeros(len(texts), dtype=torch.bool)
        if not texts:
            return torch.empty(0, self.dimension), cut
        with self._timed():
            wanted = [text for text in dict.fromkeys(texts) if text not in self._asked]
            keys = [hashlib.blake2b(self._salt + _bytes(text), digest_size=KEY_BYTES).digest() for text in wanted]
            found, vectors = self._cache.lookup(keys)
            known = [text for text, is_known in zip(wanted, found.tolist(), strict=True) if is_known]
            self._asked.update(zip(known, vectors, strict=True))
            missing = [row for row, is_known in enumerate(found.tolist()) if not is_known]
            too_long = self._encode_missing([(wanted[row], keys[row]) for row in missing])
            vectors = torch.stack([self._asked[text] if text not in too_long else too_long[text] for text in texts])
        cut[[row for row, text in enumerate(texts) if text in too_long]] = True
        return vectors, cut

    def tables_with(self, tables: Sequence[Table], config: Config, name: str) -> Tensor:
        """The vectors `[N, d]`, float32, of tables as a config reads them, reported under a name."""
        parts = []
        with self._progress.stage(name, len(tables)) as stage:
            for start in range(0, len(tables), _TOGETHER):
                texts = [table_text(table, config) for table in tables[start : start + _TOGETHER]]
                parts.append(self.encode_tables(texts, stage=stage).vectors)
        self.flush()
        return torch.cat(parts)

    def flush(self) -> None:
        """Writes what was encoded."""
        self._cache.flush()

    def _encode_missing(self, missing: Sequence[tuple[str, bytes]]) -> dict[str, Tensor]:
        """Encodes questions and keeps them, save those that the window cut, which it returns."""
        too_long: dict[str, Tensor] = {}
        if not missing:
            return too_long
        with self._progress.stage("Encoding questions", len(missing)) as stage:
            for start in range(0, len(missing), _TOGETHER):
                part = missing[start : start + _TOGETHER]
                vectors, cut = self._encoder.encode_queries([text for text, _ in part])
                whole = (~cut).nonzero().flatten().tolist()
                self._cache.store([part[row][1] for row in whole], vectors[whole])
                self._asked.update((part[row][0], vectors[row]) for row in whole)
                too_long.update((part[row][0], vectors[row]) for row in cut.nonzero().flatten().tolist())
                stage.advance(len(part))
        self.flush()
        return too_long

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start


class Encodings:
    """The encoders of all methods of a run, with one folder of vectors.

    Attributes:
        device: Where they run: `auto`, `cpu` or `cuda`.
    """

    def __init__(
        self,
        folder: Path,
        encoder: str | None = None,
        device: str = "auto",
        precision: str = "auto",
        progress: Progress | None = None,
    ) -> None:
        """Encoders are loaded, and the folder is opened or made, when they are first asked for.

        Args:
            folder: Where vectors are kept, of any number of encoders; several processes may use it at once.
            encoder: A Hugging Face encoder by name or folder, for every method; that of the default preset else.
            device: `auto`, `cpu` or `cuda`.
            precision: `auto`, `float32` or `bfloat16`.
            progress: Where to report.
        """
        self.device = device
        self._folder = folder
        self._precision = precision
        self._name = encoder
        self._progress = progress or Silent()
        self._loaded: dict[tuple[object, ...], SharedEncoder] = {}

    @cached_property
    def _cache(self) -> EncodingCache:
        return EncodingCache(self._folder)

    def config(self, preset: str = "default") -> Config:
        """A preset, with the run's encoder."""
        config = Config.preset(preset)
        return with_absolute_encoder(config.override({"encoder": self._name}) if self._name else config)

    def of(self, config: Config) -> SharedEncoder:
        """The encoder that a config names.

        Raises:
            GTRError: It can't be had.
        """
        key = tuple(getattr(config, knob) for knob in _KNOBS)
        if key not in self._loaded:
            with self._progress.stage(LOADING_ENCODER):
                encoder = Encoder.load(config, self.device, self._precision)
            kind = f"{choose_device(self.device).type}/{self._precision}"
            self._loaded[key] = SharedEncoder(encoder, self._cache, kind, self._progress)
        return self._loaded[key]

    @property
    def seconds(self) -> float:
        """How long all of them encoded."""
        return sum(encoder.seconds for encoder in self._loaded.values())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
