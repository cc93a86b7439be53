"""Encodings by content on disk, written as they are made, so that an interrupted build goes on where it was."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gtr_gpu.errors import IndexFormatError
from gtr_gpu.storage.arrays import read_arrays, write_arrays

logger = logging.getLogger(__name__)

KEY_BYTES = 16

_SHARD_SUFFIX = ".encodings"
_TEMPORARY_SUFFIX = ".encodings-tmp"
# A shard is written within milliseconds; an older temporary file was left by a process that was killed.
_STALE_SECONDS = 60.0


@dataclass(frozen=True)
class _Run:
    """Sorted keys and where their vectors are.

    Attributes:
        keys: Both halves of K keys, int64 `[2, K]`, sorted by the first.
        places: The number of each one's shard and its row there, int64 `[2, K]`.
    """

    keys: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.keys[0])


class EncodingCache:
    """A folder of immutable shards, each a safetensors file of sorted keys and their vectors.

    A shard is written under a temporary name, synced and then renamed: a process killed at any moment leaves whole
    shards and at most one temporary file, which the next one ignores and removes. Several processes may use one folder,
    and so may several encoders, whose keys differ.

    The keys of all shards are held as few sorted runs, each more than twice as long as the next, so that a key is
    sorted anew a logarithmic number of times however many shards there come to be.
    """

    def __init__(self, folder: Path | str, shard_seconds: float = 5.0, shard_rows: int = 32_768) -> None:
        """Opens or makes a cache.

        Args:
            folder: Where the shards are.
            shard_seconds: New encodings are written when the first of them is this old: the work that a crash may lose.
            shard_rows: They are also written when there are this many: the memory that they may take.
        """
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._shard_seconds = shard_seconds
        self._shard_rows = shard_rows
        self._pending: dict[bytes, Tensor] = {}
        self._pending_since = 0.0
        self._vectors: list[Tensor] = []
        self._runs: list[_Run] = []
        self._sweep()
        self._open([path for path in sorted(self.folder.iterdir()) if path.suffix == _SHARD_SUFFIX])

    def __len__(self) -> int:
        """The number of encodings, written or not."""
        return sum(map(len, self._runs)) + len(self._pending)

    def lookup(self, keys: Sequence[bytes]) -> tuple[Tensor, Tensor]:
        """Finds encodings, those that aren't written yet too.

        Args:
            keys: K keys of 16 bytes, of one encoder.

        Returns:
            Which keys are known, bool `[K]`; and the vectors of those, float32 `[F, d]`, in their order (`[0, 0]`
            where none is).
        """
        wanted = _as_numbers(keys)
        vectors: dict[int, Tensor] = {row: self._pending[key] for row, key in enumerate(keys) if key in self._pending}
        for run in self._runs:
            positions = np.searchsorted(run.keys[0], wanted[0]).clip(max=len(run) - 1)
            # The first half of a key decides; two keys that share it are a miss of one of them, which costs one
            # encoding.
            rows = (run.keys[:, positions] == wanted).all(axis=0).nonzero()[0]
            for row, shard, place in zip(rows.tolist(), *run.places[:, positions[rows]].tolist(), strict=True):
                vectors[row] = self._vectors[shard][place]
        found = torch.zeros(len(keys), dtype=torch.bool)
        found[list(vectors)] = True
        return found, torch.stack([vectors[row] for row in sorted(vectors)]) if vectors else torch.empty(0, 0)

    def store(self, keys: Sequence[bytes], vectors: Tensor) -> None:
        """Takes new encodings; they are written from time to time.

        Args:
            keys: K keys of 16 bytes.
            vectors: Their vectors, float32 `[K, d]`, on the CPU.
        """
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending.update(zip(keys, vectors, strict=True))
        if len(self._pending) >= self._shard_rows or time.monotonic() - self._pending_since >= self._shard_seconds:
            self.flush()

    def flush(self) -> None:
        """Writes what was taken and not yet written as one shard."""
        if self._pending:
            path = self._write(_as_numbers(list(self._pending)), torch.stack(list(self._pending.values())))
            self._pending.clear()
            self._open([path])

    def _write(self, keys: npt.NDArray[np.int64], vectors: Tensor) -> Path:
        name = uuid.uuid4().hex
        temporary, path = self.folder / (name + _TEMPORARY_SUFFIX), self.folder / (name + _SHARD_SUFFIX)
        try:
            write_arrays(temporary, {"keys": torch.from_numpy(keys.T.copy()), "vectors": vectors.float()})
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
        """Maps shards into memory and merges their keys into the sorted runs."""
        new = []
        for path in paths:
            shard = _read_shard(path)
            if shard is None:
                continue
            keys, vectors = shard
            places = np.stack([np.full(len(vectors), len(self._vectors)), np.arange(len(vectors))])
            self._vectors.append(vectors)
            new.append(_Run(keys, places))
        if not new:
            return
        self._runs.append(_merged(new))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            self._runs[-2:] = [_merged(self._runs[-2:])]


def _merged(runs: Sequence[_Run]) -> _Run:
    keys = np.concatenate([run.keys for run in runs], axis=1)
    places = np.concatenate([run.places for run in runs], axis=1)
    order = np.argsort(keys[0], kind="stable")
    return _Run(keys.take(order, axis=1), places.take(order, axis=1))


def _read_shard(path: Path) -> tuple[npt.NDArray[np.int64], Tensor] | None:
    try:
        arrays = read_arrays(path)
        keys, vectors = arrays["keys"], arrays["vectors"]
    except (IndexFormatError, OSError, KeyError) as error:
        logger.warning("the encoding cache's file %s can't be read and is ignored: %s", path, error)
        return None
    fits = keys.ndim == vectors.ndim == 2 and keys.shape == (vectors.shape[0], 2) and keys.dtype == torch.int64
    if not fits or not len(keys) or vectors.dtype != torch.float32:
        logger.warning("the encoding cache's file %s doesn't hold encodings and is ignored", path)
        return None
    return np.ascontiguousarray(keys.numpy().T), vectors


def _as_numbers(keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """Both halves of keys, `[2, K]`."""
    return np.frombuffer(b"".join(keys), dtype="<i8").reshape(-1, 2).T.astype(np.int64)
