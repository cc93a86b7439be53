"""What changes an index: build, add, remove, rebuild. Each is one transaction: all of it happens, or nothing."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtr_gpu.building import (
    Featurizer,
    Omissions,
    distinct,
    limited,
    make_clusters,
    merge_features,
    relate,
    write_tables,
)
from gtr_gpu.config import KNOBS, Config
from gtr_gpu.errors import GTRError
from gtr_gpu.features.encoding_cache import EncodingCache
from gtr_gpu.features.heuristic import Vocabulary
from gtr_gpu.features.semantic import Encoder
from gtr_gpu.progress import LOADING_ENCODER, Clock, Progress
from gtr_gpu.segment import Features, Segment
from gtr_gpu.snapshot import Clusters, Snapshot
from gtr_gpu.storage import ENCODINGS_NAME, FileEntry, IndexFolder, Manifest, Transaction, read_arrays, write_arrays
from gtr_gpu.storage import Segment as SegmentEntry
from gtr_gpu.tables import Table, TableStore

# Changes since the last clustering, as a share of the tables, from which a rebuild pays; and segments, each of which a
# search visits.
_REBUILD_SHARE = 0.2
_REBUILD_SEGMENTS = 16

# Knobs that a rebuild may change, since they need no table to be read or encoded again.
REBUILD_KNOBS = (
    *("n_clusters", "kmeans_starts", "kmeans_iterations", "kmeans_sample", "n_typical"),
    *("n_neighbors", "max_common", "standardize"),
)


@dataclass
class ChangeReport:
    """What a change of an index did.

    Attributes:
        added: Tables that are new.
        replaced: Tables that took the place of one with the same id.
        removed: Tables that are gone.
        notes: What the caller should know, such as that a rebuild would pay.
        left_out: What was read only in part.
        seconds: How long each stage took.
    """

    added: int = 0
    replaced: int = 0
    removed: int = 0
    notes: list[str] = field(default_factory=list)
    left_out: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Draft:
    """A segment whose tables and features are written and whose relations are not."""

    segment: Segment
    tables: FileEntry
    features: FileEntry


def build(
    folder: IndexFolder,
    tables: Iterable[Table],
    config: Config,
    encoder: Callable[[], Encoder],
    *,
    overwrite: bool,
    seed: int,
    progress: Progress | None,
) -> None:
    """Builds an index of a stream of tables; see `GTRIndex.build`."""
    clock, omissions = Clock(progress), Omissions()
    with folder.writer(create=True, overwrite=overwrite) as transaction:
        # The first table comes before the encoder, so that sources without any are told before a model is loaded; the
        # others come after it, so that an encoder that can't be had is told before all are read.
        stream = distinct(tables)
        first = next(stream, None)
        if first is None:
            raise GTRError("there are no tables to index; give sources that hold at least one")
        with clock.stage(LOADING_ENCODER):
            loaded = encoder()
        with _encodings(folder) as cache:
            featurizer = Featurizer(loaded, config, Vocabulary(), cache)
            drafts = _draft(chain([first], stream), transaction, featurizer, config, 0, clock, omissions)
            encoder_facts = {"name": loaded.name, "fingerprint": loaded.fingerprint, "dimension": loaded.dimension}
            encoder_facts["spacy_pipeline"] = featurizer.spacy_pipeline
            manifest = Manifest(config=config.to_json(), encoder=encoder_facts)
            _cluster_and_commit(manifest, drafts, transaction, config, seed, clock, dataclasses.asdict(omissions))


def add(
    folder: IndexFolder,
    tables: Iterable[Table],
    open_snapshot: Callable[[Manifest], Snapshot],
    encoder: Callable[[], Encoder],
    progress: Progress | None,
) -> ChangeReport:
    """Adds tables as new segments; one with a known id takes the old one's place."""
    clock, omissions = Clock(progress), Omissions()
    with folder.writer() as transaction, _encodings(folder) as cache:
        # As in a build, sources without any table are told before a model is loaded.
        stream = distinct(tables)
        first = next(stream, None)
        if first is None:
            raise GTRError("there are no tables to add; give sources that hold at least one")
        manifest = _current(transaction)
        with clock.stage(LOADING_ENCODER):
            loaded = encoder()
        check_encoder(loaded, manifest, folder.path)
        old = open_snapshot(manifest)
        # The vocabulary grows while features are counted, so it must not be the snapshot's own.
        featurizer = Featurizer(loaded, old.config, Vocabulary(old.vocabulary.to_list()), cache, joined=old)
        drafts = _draft(chain([first], stream), transaction, featurizer, old.config, old.n_tables, clock, omissions)
        new_ids = {name for draft in drafts for name in draft.segment.tables.ids().to_pylist()}
        replaced = [row for name, row in old.rows.items() if name in new_ids]
        removed = torch.cat([old.removed, torch.tensor(replaced, dtype=torch.int64)])
        segments = [*old.segments, *(draft.segment for draft in drafts)]
        alive = torch.ones(segments[-1].stop, dtype=torch.bool)
        alive[removed] = False
        entries = _relate(segments, len(old.segments), drafts, old.clusters, alive, transaction, old.config, clock)
        before, added = manifest.summary["left_out"], dataclasses.asdict(omissions)
        manifest = dataclasses.replace(
            manifest,
            segments=(*manifest.segments, *entries),
            summary=manifest.summary | {"left_out": {name: before[name] + added[name] for name in added}},
            files=_with_tombstones(manifest.files, removed, transaction) if replaced else manifest.files,
            counts=_counts(alive, manifest.counts["clustered"], manifest.counts["changed"] + len(new_ids)),
        )
        transaction.commit(manifest)
    return ChangeReport(
        added=len(new_ids) - len(replaced),
        replaced=len(replaced),
        notes=rebuild_advice(manifest),
        left_out=dataclasses.asdict(omissions),
        seconds=clock.seconds,
    )


def remove(
    folder: IndexFolder, table_ids: Sequence[str], open_snapshot: Callable[[Manifest], Snapshot]
) -> ChangeReport:
    """Removes tables for good; with an unknown id, none."""
    with folder.writer() as transaction:
        manifest = _current(transaction)
        old = open_snapshot(manifest)
        known = old.rows
        unknown = [name for name in table_ids if name not in known]
        if unknown:
            others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise GTRError(f"the index holds no table {unknown[0]!r}{others}, so nothing was removed; check the ids")
        gone = sorted({known[name] for name in table_ids})
        if len(gone) == old.n_alive:
            raise GTRError(f"an index must keep a table, but these are all {len(gone)}; delete its folder instead")
        removed = torch.cat([old.removed, torch.tensor(gone, dtype=torch.int64)])
        alive = old.alive.clone()
        alive[gone] = False
        manifest = dataclasses.replace(
            manifest,
            files=_with_tombstones(manifest.files, removed, transaction),
            counts=_counts(alive, manifest.counts["clustered"], manifest.counts["changed"] + len(gone)),
        )
        transaction.commit(manifest)
    return ChangeReport(removed=len(gone), notes=rebuild_advice(manifest))


def rebuild(
    folder: IndexFolder,
    open_snapshot: Callable[[Manifest], Snapshot],
    config: Config | None,
    *,
    seed: int | None,
    progress: Progress | None,
) -> ChangeReport:
    """Merges segments, forgets removed tables, and clusters and relates anew, without encoding again."""
    clock = Clock(progress)
    with folder.writer() as transaction:
        manifest = _current(transaction)
        old = open_snapshot(manifest)
        config = config or old.config
        for name, knob in KNOBS.items():
            fixed = knob.stage == "build" and name not in REBUILD_KNOBS
            if fixed and getattr(config, name) != getattr(old.config, name):
                raise GTRError(
                    f"{name} can't be changed by a rebuild, which reads and encodes nothing again; build the index anew"
                )
        folder.check_sums(_kept_by_a_rebuild(manifest), clock)
        drafts: list[_Draft] = []
        with clock.stage("Merging segments", old.n_alive) as stage:
            for rows, features in merge_features(old):
                stream = (old.table(row) for row in rows.tolist())
                (path,) = write_tables(stream, partial(transaction.new_path, "tables", suffix=".arrow"))
                drafts.append(_features_draft(path, features, transaction, drafts[-1].segment.stop if drafts else 0))
                stage.advance(len(rows))
        manifest = dataclasses.replace(manifest, config=config.to_json(), files={}, segments=())
        left_out = manifest.summary["left_out"]
        seed = manifest.summary["seed"] if seed is None else seed
        _cluster_and_commit(manifest, drafts, transaction, config, seed, clock, left_out)
    return ChangeReport(left_out=left_out, seconds=clock.seconds)


def check_encoder(encoder: Encoder, manifest: Manifest, path: Path) -> None:
    """Refuses an encoder whose vectors can't be compared with those of an index.

    Raises:
        GTRError: It isn't the one that the index was built with.
    """
    if encoder.fingerprint != manifest.encoder["fingerprint"]:
        raise GTRError(
            f"the encoder {encoder.name!r} is not the one that {path} was built with, despite its name; bring back "
            "that revision, or build the index anew"
        )


def rebuild_advice(manifest: Manifest) -> list[str]:
    """Whether enough has changed that a rebuild would pay, as a sentence or none."""
    changed, clustered = manifest.counts["changed"], manifest.counts["clustered"]
    if changed > _REBUILD_SHARE * clustered:
        return [f"{changed:,} tables changed since {clustered:,} were clustered; `gtr rebuild` would cluster them anew"]
    if len(manifest.segments) > _REBUILD_SEGMENTS:
        return [f"the index has {len(manifest.segments)} segments; `gtr rebuild` merges them, so searches get faster"]
    return []


@contextmanager
def _encodings(folder: IndexFolder) -> Iterator[EncodingCache]:
    """The encodings that an interrupted change left; they are kept until a change succeeds."""
    cache = EncodingCache(folder.path / ENCODINGS_NAME)
    try:
        try:
            yield cache
        except BaseException:
            # What was encoded in the last seconds is kept as well; a disk that is full must not hide why we are here.
            with suppress(OSError):
                cache.flush()
            raise
        shutil.rmtree(cache.folder, ignore_errors=True)
    finally:
        with suppress(OSError):  # gone, or it holds encodings
            cache.folder.rmdir()


def _draft(
    tables: Iterable[Table],
    transaction: Transaction,
    featurizer: Featurizer,
    config: Config,
    start: int,
    clock: Clock,
    omissions: Omissions,
) -> list[_Draft]:
    """Writes a stream of tables and then, segment by segment, their features."""
    with clock.stage("Reading tables") as stage:
        stream = limited(tables, config, omissions, stage)
        paths = write_tables(stream, partial(transaction.new_path, "tables", suffix=".arrow"))
    drafts: list[_Draft] = []
    for path in paths:
        features = featurizer.features(TableStore.open(path), clock, omissions)
        drafts.append(_features_draft(path, features, transaction, start))
        start = drafts[-1].segment.stop
    return drafts


def _features_draft(tables: Path, features: Features, transaction: Transaction, start: int) -> _Draft:
    path = transaction.new_path("features")
    write_arrays(path, features.to_arrays())
    segment = Segment(TableStore.open(tables), path, read_arrays(path), {}, start)
    return _Draft(segment, transaction.seal(tables), transaction.seal(path))


def _cluster_and_commit(
    manifest: Manifest,
    drafts: list[_Draft],
    transaction: Transaction,
    config: Config,
    seed: int,
    clock: Clock,
    left_out: Mapping[str, int],
) -> None:
    """Clusters and relates all segments of an index and makes them its newest state."""
    segments = [draft.segment for draft in drafts]
    alive = torch.ones(segments[-1].stop, dtype=torch.bool)
    clusters, notes = make_clusters(segments, config, seed, clock)
    path = transaction.new_path("clusters")
    write_arrays(path, clusters.to_arrays())
    entries = _relate(segments, 0, drafts, clusters, alive, transaction, config, clock)
    summary: dict[str, Any] = {"left_out": dict(left_out), "notes": notes, "seconds": clock.seconds, "seed": seed}
    transaction.commit(
        dataclasses.replace(
            manifest,
            segments=tuple(entries),
            files={"clusters": transaction.seal(path)},
            counts=_counts(alive, len(alive), 0),
            summary=summary,
        )
    )


def _relate(
    segments: Sequence[Segment],
    first_new: int,
    drafts: Sequence[_Draft],
    clusters: Clusters,
    alive: Tensor,
    transaction: Transaction,
    config: Config,
    clock: Clock,
) -> list[SegmentEntry]:
    """Writes the relations of the new segments and returns their entries for the manifest."""
    entries = []
    for draft, relations in zip(drafts, relate(segments, first_new, clusters, alive, config, clock), strict=True):
        path = transaction.new_path("relations")
        write_arrays(path, relations.to_arrays())
        files = {"tables": draft.tables, "features": draft.features, "relations": transaction.seal(path)}
        entries.append(SegmentEntry(draft.tables.name, len(draft.segment), files))
    return entries


def _with_tombstones(files: Mapping[str, FileEntry], removed: Tensor, transaction: Transaction) -> dict[str, FileEntry]:
    path = transaction.new_path("tombstones")
    write_arrays(path, {"rows": torch.unique(removed)})
    return {**files, "tombstones": transaction.seal(path)}


def _kept_by_a_rebuild(manifest: Manifest) -> Iterator[FileEntry]:
    """The files whose contents go into a rebuilt index; clusters and relations are made anew."""
    for segment in manifest.segments:
        yield segment.files["tables"]
        yield segment.files["features"]
    if "tombstones" in manifest.files:
        yield manifest.files["tombstones"]


def _counts(alive: Tensor, clustered: int, changed: int) -> dict[str, int]:
    """The counts of a manifest.

    They are the tables, the same with removed ones, how many there were at the last clustering, and how many came, went
    or were replaced since.
    """
    return {"tables": int(alive.sum()), "rows": alive.numel(), "clustered": clustered, "changed": changed}


def _current(transaction: Transaction) -> Manifest:
    assert transaction.manifest is not None  # a writer that doesn't create has one
    return transaction.manifest
