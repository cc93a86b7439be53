"""Writers that are killed at any moment leave the old index or the new one, while readers go on reading."""

import multiprocessing
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.context import ForkServerContext

import pytest
from crash_processes import commit_and_die, commit_next, read_all, read_until_told, write_for_ever

from gtr_gpu.errors import IndexFormatError
from gtr_gpu.storage import IndexFolder

N_KILLS = 50


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Starts processes as forks of one that has imported everything, so that fifty of them take seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gtr_gpu.storage", "pytest"])
    return context


@pytest.fixture
def start(processes: ForkServerContext) -> Iterator[Callable[..., multiprocessing.Process]]:
    """Starts a function in a process of its own and kills it at the end of the test."""
    started = []

    def start(function: Callable[..., None], *arguments: object) -> multiprocessing.Process:
        process = processes.Process(target=function, args=arguments)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()


def check_after_a_crash(folder: IndexFolder) -> int:
    """The generation of an index that must be sound, and of which the next writer sweeps all that isn't named."""
    generation, _ = read_all(folder)
    assert folder.verify() == []
    with folder.writer():
        pass
    named = {entry.name for entry in folder.read_manifest().entries()}
    assert {path.name for path in folder.path.iterdir()} == named | {"manifest.json", "writer.lock"}
    return generation


def test_a_writer_killed_at_random_moments(tmp_path, processes, start):
    folder, rng = IndexFolder(tmp_path / "index"), random.Random(0)
    last = commit_next(folder, rng)
    channel, other_end = processes.Pipe()
    reader = start(read_until_told, folder.path, other_end)
    advanced = left_something = 0
    for seed in range(N_KILLS):
        said, says = processes.Pipe(duplex=False)
        writer = start(write_for_ever, folder.path, seed, says)
        says.close()
        assert said.recv() == 0
        committed = said.recv() if seed % 2 else last
        time.sleep(rng.uniform(0, 0.06))
        writer.kill()
        writer.join()
        with suppress(EOFError, OSError):  # the pipe ends, perhaps within a number
            while said.poll():
                committed = said.recv()
        named = {entry.name for entry in folder.read_manifest().entries()}
        left_something += {path.name for path in folder.path.iterdir()} > named | {"manifest.json", "writer.lock"}
        generation = check_after_a_crash(folder)
        # What the writer was told is committed is there; at most the commit under way came through beside it.
        assert committed <= generation <= committed + 1
        advanced += generation > last
        last = generation
        assert reader.is_alive(), channel.recv()
    channel.send("stop")
    reads = channel.recv()
    assert isinstance(reads, int), reads
    assert reads > N_KILLS
    # Else the kills would all have come before the first commit, or between two.
    assert advanced >= N_KILLS // 2
    assert left_something > 0, "no kill came amid a commit"


@pytest.mark.parametrize("first", [True, False], ids=["build", "change"])
def test_a_writer_killed_before_each_of_its_file_operations(first, tmp_path, start):
    outcomes = []
    for step in range(100):
        folder = IndexFolder(tmp_path / str(step) / "index")
        if not first:
            commit_next(folder, random.Random(step))
        before = 0 if first else 1
        writer = start(commit_and_die, folder.path, step)
        writer.join()
        if not folder.exists():
            outcomes.append(0)
            with pytest.raises(IndexFormatError, match="there is no"):
                folder.read_manifest()
            assert commit_next(folder, random.Random(step)) == 1
            check_after_a_crash(folder)
        else:
            outcomes.append(check_after_a_crash(folder))
        assert before <= outcomes[-1] <= before + 1
        if writer.exitcode == 0:
            break
        assert writer.exitcode == -signal.SIGKILL
    assert writer.exitcode == 0
    # Up to the replacement of the manifest the old state, from there on the new one.
    assert outcomes == sorted(outcomes)
    assert outcomes.count(before) >= 6
    assert outcomes.count(before + 1) >= (1 if first else 3)


def test_the_checks_see_a_mixed_state(tmp_path):
    """A folder where one file is of another generation than its manifest must not pass for sound."""
    folder = IndexFolder(tmp_path / "index")
    commit_next(folder, random.Random(0))
    manifest = folder.read_manifest()
    with folder.writer() as transaction:
        transaction.commit(replace(manifest, summary={"generation": 2}))
    with pytest.raises(AssertionError):
        read_all(folder)
