"""Encodings by content on disk, written as they are made, so that an interrupted build goes on where it was."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

logger = logging.getLogger(__name__)

KEY_BYTES = 16

_SHARD_SUFFIX = ".encodings"
_TEMPORARY_SUFFIX = ".encodings-tmp"
# A shard is written within milliseconds; an older temporary file was left by a process that was killed.
_STALE_SECONDS = 60.0


class EncodingCache:
    """A folder of immutable shards, each a safetensors file of sorted keys and their vectors.

    A shard is written under a temporary name, synced and then renamed: a process killed at any moment leaves whole
    shards and at most one temporary file, which the next one ignores and removes. Several processes may use one folder.
    """

    def __init__(self, folder: Path | str, shard_seconds: float = 5.0, shard_rows: int = 32_768) -> None:
        """Opens or makes a cache.

        Args:
            folder: Where the shards are.
            shard_seconds: New encodings are written when the last shard is this old: the work that a crash may lose.
            shard_rows: They are also written when there are this many: the memory that they may take.
        """
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._shard_seconds = shard_seconds
        self._shard_rows = shard_rows
        self._pending: dict[bytes, Tensor] = {}
        self._written_at = time.monotonic()
        self._vectors: list[Tensor] = []
        self._keys = np.empty((0, 2), dtype=np.int64)
        self._places = np.empty((0, 2), dtype=np.int64)
        self._sweep()
        self._open([path for path in sorted(self.folder.iterdir()) if path.suffix == _SHARD_SUFFIX])

    def __len__(self) -> int:
        """The number of encodings, written or not."""
        return len(self._keys) + len(self._pending)

    def lookup(self, keys: Sequence[bytes]) -> tuple[Tensor, Tensor]:
        """Finds encodings.

        Args:
            keys: K keys of 16 bytes.

        Returns:
            Which keys are known, bool `[K]`; and the vectors of those, float32 `[F, d]`, in their order (`[0, 0]`
            where the cache is empty).
        """
        self.flush()
        wanted = _as_numbers(keys)
        if not len(self._keys) or not len(wanted):
            return torch.zeros(len(wanted), dtype=torch.bool), torch.empty(0, 0)
        positions = np.searchsorted(self._keys[:, 0], wanted[:, 0]).clip(max=len(self._keys) - 1)
        # The first half of a key decides; two keys that share it are a miss of one of them, which costs one encoding.
        found = (self._keys[positions] == wanted).all(axis=1)
        places = self._places[positions[found]]
        vectors = torch.empty(len(places), self._vectors[0].shape[1])
        for shard in np.unique(places[:, 0]):
            here = places[:, 0] == shard
            vectors[torch.from_numpy(here)] = self._vectors[shard][torch.from_numpy(places[here, 1])]
        return torch.from_numpy(found), vectors

    def store(self, keys: Sequence[bytes], vectors: Tensor) -> None:
        """Takes new encodings; they are written from time to time.

        Args:
            keys: K keys of 16 bytes.
            vectors: Their vectors, float32 `[K, d]`, on the CPU.
        """
        self._pending.update(zip(keys, vectors, strict=True))
        if len(self._pending) >= self._shard_rows or time.monotonic() - self._written_at >= self._shard_seconds:
            self.flush()

    def flush(self) -> None:
        """Writes what was taken and not yet written as one shard."""
        if self._pending:
            path = self._write(_as_numbers(list(self._pending)), torch.stack(list(self._pending.values())))
            self._pending.clear()
            self._open([path])
        self._written_at = time.monotonic()

    def _write(self, keys: npt.NDArray[np.int64], vectors: Tensor) -> Path:
        from safetensors.torch import save

        content = save({"keys": torch.from_numpy(keys), "vectors": vectors.float().contiguous()})
        name = uuid.uuid4().hex
        temporary, path = self.folder / (name + _TEMPORARY_SUFFIX), self.folder / (name + _SHARD_SUFFIX)
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return path

    def _sweep(self) -> None:
        for path in self.folder.glob(f"*{_TEMPORARY_SUFFIX}"):
            try:
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()
            except FileNotFoundError:
                logger.debug("%s was removed by another process", path)

    def _open(self, paths: Sequence[Path]) -> None:
        """Maps shards into memory and merges their keys into the sorted ones."""
        keys, places = [self._keys], [self._places]
        for path in paths:
            shard = _read_shard(path, self._vectors[0].shape[1] if self._vectors else None)
            if shard is None:
                continue
            shard_keys, vectors = shard
            keys.append(shard_keys)
            places.append(np.stack([np.full(len(shard_keys), len(self._vectors)), np.arange(len(shard_keys))], axis=1))
            self._vectors.append(vectors)
        if len(keys) > 1:
            merged, merged_places = np.concatenate(keys), np.concatenate(places)
            order = np.argsort(merged[:, 0], kind="stable")
            self._keys, self._places = merged[order], merged_places[order]


def _read_shard(path: Path, dimension: int | None) -> tuple[npt.NDArray[np.int64], Tensor] | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            keys, vectors = file.get_tensor("keys"), file.get_tensor("vectors")
    except (SafetensorError, OSError, KeyError) as error:
        logger.warning("the encoding cache's file %s can't be read and is ignored: %s", path, error)
        return None
    fits = keys.ndim == vectors.ndim == 2 and keys.shape == (vectors.shape[0], 2) and keys.dtype == torch.int64
    if not fits or vectors.dtype != torch.float32 or (dimension is not None and vectors.shape[1] != dimension):
        logger.warning("the encoding cache's file %s doesn't hold encodings of this shape and is ignored", path)
        return None
    return keys.numpy(), vectors


def _as_numbers(keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """Keys as two int64 each, `[K, 2]`."""
    return np.frombuffer(b"".join(keys), dtype="<i8").reshape(-1, 2).astype(np.int64)
