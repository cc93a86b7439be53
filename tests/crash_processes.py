"""What the processes of test_crash.py do; a module of its own, as a new process imports its function by name."""

import os
import random
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from gtr_gpu.storage import IndexFolder, Manifest, Segment, read_arrays, write_arrays

# What a killed writer was about to do to the folder's files, as the interpreter announces it.
FILE_EVENTS = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}


def commit_next(folder: IndexFolder, rng: random.Random) -> int:
    """Commits a state whose every file holds its generation, some kept from before as a segment of an older one."""
    with folder.writer(create=not folder.exists()) as transaction:
        old = transaction.manifest
        generation = old.generation + 1 if old else 1
        segments = list(old.segments)[-3:] if old else []
        for role in ("features", "relations"):
            path = transaction.new_path(role)
            write_arrays(
                path, {"x": torch.full((rng.randrange(200_000),), generation), "generation": torch.tensor(generation)}
            )
            segments.append(Segment(f"s{generation}", generation, {role: transaction.seal(path)}))
        path = transaction.new_path("clusters")
        write_arrays(path, {"x": torch.full((10,), generation), "generation": torch.tensor(generation)})
        files = {"clusters": transaction.seal(path)}
        summary = {"generation": generation}
        return transaction.commit(Manifest(segments=tuple(segments), files=files, summary=summary)).generation


def read_all(folder: IndexFolder) -> tuple[int, list[torch.Tensor]]:
    """Opens one state and compares every file's content with what the manifest says of it."""

    def load(manifest: Manifest) -> tuple[Manifest, dict[str, dict[str, torch.Tensor]]]:
        return manifest, {entry.name: read_arrays(folder.file(entry)) for entry in manifest.entries()}

    manifest, arrays = folder.open_snapshot(load)
    assert manifest.summary["generation"] == manifest.generation
    expected = [(entry, segment.n_tables) for segment in manifest.segments for entry in segment.files.values()]
    expected.append((manifest.files["clusters"], manifest.generation))
    for entry, generation in expected:
        assert int(arrays[entry.name]["generation"]) == generation
        assert bool((arrays[entry.name]["x"] == generation).all())
    return manifest.generation, [arrays[entry.name]["x"] for entry, _ in expected]


def write_for_ever(path: Path, seed: int, channel: Connection) -> None:
    torch.set_num_threads(1)
    rng = random.Random(seed)
    channel.send(0)
    while True:
        channel.send(commit_next(IndexFolder(path), rng))


def read_until_told(path: Path, channel: Connection) -> None:
    """Reads without a rest; each state is looked at again when the next one has been read."""
    torch.set_num_threads(1)
    folder, reads, last = IndexFolder(path), 0, 0
    held: list[tuple[torch.Tensor, int]] = []
    try:
        while not channel.poll():
            generation, arrays = read_all(folder)
            assert generation >= last, f"generation {generation} after {last}"
            assert all(int(array.sum()) == total for array, total in held)
            held = [(array, int(array.sum())) for array in arrays]
            reads, last = reads + 1, generation
    except BaseException as error:
        channel.send(f"after {reads} reads: {error!r}")
        raise
    channel.send(reads)


def commit_and_die(path: Path, step: int) -> None:
    """Makes one commit and is killed before its file operation number `step`."""
    torch.set_num_threads(1)
    remaining = step

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal remaining
        if event in FILE_EVENTS and str(arguments[0]).startswith(str(path)):
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            remaining -= 1

    sys.addaudithook(count)
    commit_next(IndexFolder(path), random.Random(step))
