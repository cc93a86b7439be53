"""GTRIndex: the one noun of the library. Builds an index of tables, opens it, searches it and changes it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from gtr_gpu import changes
from gtr_gpu.changes import ChangeReport
from gtr_gpu.coarse import find_candidates, questions_at_once, uses_clusters
from gtr_gpu.config import MODALITIES, Config
from gtr_gpu.errors import GTRError
from gtr_gpu.features.encoder_source import with_absolute_encoder
from gtr_gpu.features.semantic import Encoder, choose_device
from gtr_gpu.fine import rank
from gtr_gpu.neighbors import relations
from gtr_gpu.progress import Progress
from gtr_gpu.questions import QueryFeatures, QuestionReader
from gtr_gpu.results import Edge, SearchResult
from gtr_gpu.snapshot import Snapshot
from gtr_gpu.storage import IndexFolder, Manifest
from gtr_gpu.tables import Table

# Numbers in a result's arrays, padding included.
_MOST_RESULTS = 1 << 30


class GTRIndex:
    """An index of tables on disk, opened at one generation.

    Searching is thread-safe. A change made through this object is seen by it at once; one made by another process is
    seen by whoever opens the index afterwards.

    Attributes:
        path: The index's folder.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        device: str = "auto",
        precision: str = "auto",
        encoder: Encoder | None = None,
    ) -> None:
        """Opens an index; `GTRIndex.build` makes one and `GTRIndex.load` is the usual way in."""
        self.path = Path(path)
        self._device = device
        self._precision = precision
        self._folder = IndexFolder(path)
        self._encoder = encoder
        self._reader = QuestionReader()
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._reopen()

    @classmethod
    def build(
        cls,
        tables: Iterable[Table],
        path: str | os.PathLike[str] | None = None,
        *,
        config: Config | None = None,
        overwrite: bool = False,
        seed: int = 0,
        device: str = "auto",
        precision: str = "auto",
        progress: Progress | None = None,
    ) -> GTRIndex:
        """Builds an index of a stream of tables.

        An index that stood at `path` stays whole until the new one is. Encodings of an interrupted build are taken up.

        Args:
            tables: The tables, with distinct ids.
            path: The folder; None builds in a temporary one, which `save` copies elsewhere.
            config: The knobs; `Config()`, the default preset, where it is left out.
            overwrite: Whether an index at `path` may be replaced.
            seed: Of the starts of k-means.
            device: `auto`, `cpu` or `cuda`.
            precision: Of the encoder: `auto`, `float32` or `bfloat16`.
            progress: Where to report.

        Raises:
            GTRError: No table, two tables with one id, an encoder that can't be had, a folder that must not be filled.
        """
        temporary = tempfile.TemporaryDirectory(prefix="gtr-index-") if path is None else None
        folder = Path(temporary.name) if path is None and temporary else Path(path or "")
        loaded: list[Encoder] = []
        config = with_absolute_encoder(config or Config())

        def encoder() -> Encoder:
            loaded.append(Encoder.load(config, device, precision))
            return loaded[0]

        try:
            target = IndexFolder(folder)
            changes.build(target, tables, config, encoder, overwrite=overwrite, seed=seed, progress=progress)
            index = cls(folder, device, precision, loaded[0])
        except BaseException:
            if temporary:
                temporary.cleanup()
            raise
        index._temporary = temporary
        return index

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str = "auto", precision: str = "auto") -> GTRIndex:
        """Opens an index by memory mapping; the encoder is loaded with the first search.

        Raises:
            IndexFormatError: There is no index at `path`, or one that is truncated, foreign or newer.
            GTRError: The device isn't there.
        """
        return cls(path, device, precision)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Copies the index's newest state to another folder.

        Raises:
            GTRError: The folder must not be filled.
        """
        self._folder.copy_to(path, overwrite=overwrite)

    # Searching

    def search(
        self, queries: Sequence[str], k: int = 10, *, config: Config | None = None, edges: bool = False
    ) -> SearchResult:
        """Finds the k tables that together answer each question best.

        Args:
            queries: Q questions.
            k: Tables for each question.
            config: Search knobs; the index's own where it is left out. Its build knobs are not read.
            edges: Whether the relations among each question's tables are wanted.

        Raises:
            GTRError: k is below 1, or a question is empty.
        """
        if isinstance(queries, str):
            raise GTRError("queries must be a list of questions, got one text; put it in a list")
        if k < 1:
            raise GTRError(f"k must be at least 1, got {k}")
        if k * len(queries) > _MOST_RESULTS:
            raise GTRError(f"k must be at most {_MOST_RESULTS // len(queries):,} for {len(queries)} questions, got {k}")
        snapshot = self._snapshot
        config = snapshot.config.searching_as(config) if config else snapshot.config
        features, notes = self._reader.read(queries, self.encoder, snapshot, config, uses_clusters(snapshot, config))
        if k > snapshot.n_alive:
            notes.append(f"k is {k}, but the index holds {snapshot.n_alive} table{'s' * (snapshot.n_alive != 1)}")
        n_found = min(k, snapshot.n_alive)
        step = questions_at_once(snapshot, config, n_found)
        # Batches of one size: a small last one would read all tables' features as well.
        n_batches = -(-len(queries) // step)
        bounds = [len(queries) * batch // max(n_batches, 1) for batch in range(n_batches + 1)]
        batches = [
            _search_batch(features.slice(start, stop), snapshot, config, n_found, k, edges)
            for start, stop in pairwise(bounds)
        ]
        if not batches:
            return _nothing(k, edges, notes)
        result = SearchResult.merge(batches)
        short = int((result.ids[:, n_found - 1] < 0).sum())
        if short:
            asked = "1 question" if short == 1 else f"{short:,} questions"
            notes.append(f"{asked} probed clusters of fewer tables than were asked for; raise n_probe")
        result.notes.extend(notes)
        return result

    @property
    def encoder(self) -> Encoder:
        """The encoder that the index was built with, loaded when it is first needed.

        Raises:
            GTRError: It can't be had, or it isn't the one that the index was built with.
        """
        with self._lock:
            if self._encoder is None:
                encoder = Encoder.load(self.config, self._device, self._precision)
                changes.check_encoder(encoder, self._manifest, self.path)
                self._encoder = encoder
            return self._encoder

    # Changing

    def add(self, tables: Iterable[Table], *, progress: Progress | None = None) -> ChangeReport:
        """Adds tables, which join their nearest clusters and neighbours; a known id replaces the table that had it.

        Raises:
            GTRError: No table, two tables with one id, another writer at work.
        """
        report = changes.add(self._folder, tables, self._snapshot_of, lambda: self.encoder, progress)
        self._reopen()
        return report

    def remove(self, table_ids: Sequence[str]) -> ChangeReport:
        """Removes tables; they never come back in a result.

        Raises:
            GTRError: An id is unknown (nothing is removed then), or no table would be left.
        """
        if isinstance(table_ids, str):
            raise GTRError("table_ids must be a list of ids, got one text; put it in a list")
        report = changes.remove(self._folder, table_ids, self._snapshot_of)
        self._reopen()
        return report

    def rebuild(
        self, *, config: Config | None = None, seed: int | None = None, progress: Progress | None = None
    ) -> ChangeReport:
        """Merges segments and clusters and relates all tables anew, without encoding again.

        Args:
            config: May differ from the index's in its search knobs and in `changes.REBUILD_KNOBS`.
            seed: Of the starts of k-means; that of the build where it is left out.
            progress: Where to report.

        Raises:
            GTRError: A knob that needs the tables to be read again, or another writer at work.
        """
        config = config and with_absolute_encoder(config)
        report = changes.rebuild(self._folder, self._snapshot_of, config, seed=seed, progress=progress)
        self._reopen()
        return report

    # Looking

    @property
    def config(self) -> Config:
        """The knobs that the index was built with."""
        return self._snapshot.config

    @property
    def n_tables(self) -> int:
        """How many tables can be found."""
        return self._snapshot.n_alive

    def __len__(self) -> int:
        return self.n_tables

    @property
    def summary(self) -> Mapping[str, Any]:
        """What was read only in part (`left_out`), and of the last build notes, seed and seconds by stage."""
        return self._manifest.summary

    @property
    def notes(self) -> list[str]:
        """What the owner of the index should know now."""
        return [*self._manifest.summary.get("notes", []), *changes.rebuild_advice(self._manifest)]

    def table(self, row: int) -> Table:
        """One table by its number in a result's `ids`."""
        return self._snapshot.table(row)

    def table_id(self, row: int) -> str:
        """The id of a table by its number in a result's `ids`."""
        return self._snapshot.table_ids(torch.tensor([row]))[0]

    def caption(self, row: int) -> str:
        """The caption of a table by its number in a result's `ids`."""
        segment, place = self._snapshot.locate(row)
        return str(segment.tables.captions()[place])

    def row_of(self, table_id: str) -> int:
        """The number of a table by its id.

        Raises:
            GTRError: There is no such table.
        """
        if table_id not in self._snapshot.rows:
            raise GTRError(f"the index holds no table {table_id!r}; check the id")
        return self._snapshot.rows[table_id]

    def __iter__(self) -> Iterator[Table]:
        """All tables that can be found, in order."""
        snapshot = self._snapshot
        for row in snapshot.alive.nonzero()[:, 0].tolist():
            yield snapshot.table(row)

    def info(self) -> dict[str, Any]:
        """What the index holds and how it searches, as plain values for JSON."""
        snapshot, manifest = self._snapshot, self._manifest
        clusters = uses_clusters(snapshot, self.config)
        how = (
            f"probes {self.config.n_probe} clusters of each modality"
            if clusters
            else f"scores all {snapshot.n_alive:,} tables and skips the coarse stage"
        )
        sizes = {role: 0 for role in ("tables", "features", "relations", *manifest.files)}
        for segment in manifest.segments:
            for role, entry in segment.files.items():
                sizes[role] += entry.size
        for role, entry in manifest.files.items():
            sizes[role] += entry.size
        return {
            "path": str(self.path),
            "tables": snapshot.n_alive,
            "removed": snapshot.n_tables - snapshot.n_alive,
            "terms": int((snapshot.document_frequency > 0).sum()),
            "segments": len(manifest.segments),
            "clusters": {modality: len(snapshot.clusters.centroids(modality)) for modality in MODALITIES},
            "edges": {kind: int((edges.ids[snapshot.alive] >= 0).sum()) for kind, edges in snapshot.out_edges.items()},
            "search": "clusters" if clusters else "flat",
            "how": how,
            "encoder": manifest.encoder,
            "config": self.config.to_json(),
            "bytes": sizes,
            "created": manifest.created,
            "updated": manifest.updated,
            "generation": manifest.generation,
            "library_version": manifest.library_version,
            "summary": manifest.summary,
            "notes": self.notes,
        }

    def close(self) -> None:
        """Deletes the folder of an index that was built without a path; others need no closing."""
        if self._temporary:
            self._temporary.cleanup()

    def __enter__(self) -> GTRIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reopen(self) -> None:
        manifest, snapshot = self._folder.open_snapshot(lambda m: (m, self._snapshot_of(m)))
        with self._lock:
            # Another process may have replaced the index by one of another encoder.
            if self._encoder and self._encoder.fingerprint != manifest.encoder["fingerprint"]:
                self._encoder = None
            self._manifest, self._snapshot = manifest, snapshot

    def _snapshot_of(self, manifest: Manifest) -> Snapshot:
        return Snapshot.open(self._folder, manifest, choose_device(self._device))


@torch.no_grad()
def _search_batch(
    queries: QueryFeatures, snapshot: Snapshot, config: Config, n_found: int, k: int, edges: bool
) -> SearchResult:
    """Coarse, then fine, for as many questions as fit into memory at once."""
    candidates = find_candidates(queries, snapshot, config, n_found)
    ranking = rank(queries, candidates, snapshot, config, n_found)
    ids, scores = ranking.ids.cpu().long(), ranking.scores.cpu()
    found = [row[row >= 0].tolist() for row in ids]
    names = iter(snapshot.table_ids(ids[ids >= 0]))
    pad = (0, k - n_found)
    return SearchResult(
        ids=torch.nn.functional.pad(ids, pad, value=-1),
        scores=torch.nn.functional.pad(scores, pad, value=-torch.inf),
        table_ids=[[next(names) for _ in rows] for rows in found],
        iterations=ranking.iterations.cpu(),
        converged=ranking.converged.cpu(),
        candidates=ranking.n_candidates.cpu(),
        edges=[[Edge(*r) for r in relations(rows, snapshot.out_edges)] for rows in found] if edges else None,
    )


def _nothing(k: int, edges: bool, notes: list[str]) -> SearchResult:
    whole = torch.zeros(0, dtype=torch.int64)
    ids, scores = torch.zeros(0, k, dtype=torch.int64), torch.zeros(0, k)
    return SearchResult(ids, scores, [], whole, whole.bool(), whole, [] if edges else None, notes)
