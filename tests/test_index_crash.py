"""Builds and changes that are killed, interrupted or out of disk leave the old index or the new one."""

import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import index_crash_processes as work
import pytest
import torch
from index_fakes import fast_config

from gtr_gpu.errors import IndexFormatError
from gtr_gpu.index import GTRIndex
from gtr_gpu.storage import IndexFolder

pytestmark = pytest.mark.usefixtures("fake_encoder")

SCRIPT = Path(work.__file__)


class Server:
    """A process that forks one for each command."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout.readline() == "ready\n"

    def run(self, name, *arguments, after=None, signal_number=signal.SIGKILL):
        """Runs a command, by choice ended after so many seconds; gives its exit status and how long it took."""
        self._process.stdin.write(json.dumps([name, *map(str_or_number, arguments)]) + "\n")
        self._process.stdin.flush()
        child, start = int(self._process.stdout.readline()), time.perf_counter()
        if after is not None:
            time.sleep(after)
            with suppress(ProcessLookupError):  # it was done before
                os.kill(child, signal_number)
        status = int(self._process.stdout.readline())
        return status, time.perf_counter() - start

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(60) == 0  # on a busy machine it takes longer than ten seconds


def str_or_number(argument):
    return argument if isinstance(argument, int) else str(argument)


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.close()


class Reader:
    """A process that opens and searches an index all the while."""

    def __init__(self, path, legal, folder):
        torch.save(legal, folder / "legal.pt")
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "read", str(path), str(folder / "legal.pt")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout.readline() == "ready\n"

    def finish(self):
        """How often it read, and which of the legal states it saw."""
        out, errors = self._process.communicate()
        assert self._process.returncode == 0, errors
        return json.loads(out)


def check(path, legal):
    """Which of two states an index is in, after a crash; it must be sound."""
    assert IndexFolder(path).verify() == []
    return work.is_one_of(work.state_of(GTRIndex.load(path)), legal)


def check_swept(path, encodings=()):
    """Asserts that nothing lies in the folder but the index."""
    named = {entry.name for entry in IndexFolder(path).read_manifest().entries()}
    assert {file.name for file in path.iterdir()} - {"writer.lock"} == named | {"manifest.json", *encodings}


CHANGES = ("build", "add", "remove")


def kill_at_random_moments(name, n_kills, server, tmp_path):
    """Kills a change again and again; as soon as one came through, the other direction is done in peace."""
    path, rng = tmp_path / "index", random.Random(name)
    states, seconds = [], []
    for seed in (0, 1):
        # The state before and after, from runs of the same functions in folders of their own.
        folder = tmp_path / f"legal{seed}"
        work.build(folder, 0)
        if seed:
            status, took = server.run(name, folder, 1)
            assert status == 0
            seconds.append(took)
        states.append(work.state_of(GTRIndex.load(folder)))
        shutil.copytree(folder, tmp_path / f"template{seed}")
    assert states[0][0] != states[1][0]
    work.build(path, 0)
    reader = Reader(path, states, tmp_path)
    current, outcomes, killed, left_something = 0, [], 0, 0
    for number in range(n_kills):
        if current == 1:
            # Back to the old state in peace: another index takes this one's place.
            IndexFolder(tmp_path / "template0").copy_to(path, overwrite=True)
            check_swept(path, {"encodings"} & {file.name for file in path.iterdir()})
            assert check(path, states) == 0
        # The commit is the last thing that happens, so late moments are the interesting ones.
        share = rng.uniform(0, 1.2) if number % 2 else rng.uniform(0.7, 1.2)
        status, _ = server.run(name, path, 1, after=share * seconds[0])
        assert status in (0, -signal.SIGKILL)
        killed += status != 0
        named = {entry.name for entry in IndexFolder(path).read_manifest().entries()}
        left_something += bool({f.name for f in path.iterdir()} - named - {"manifest.json", "writer.lock", "encodings"})
        current = check(path, states)
        assert status != 0 or current == 1
        outcomes.append(current)
        if status != 0 and current == 0 and share > 1:
            seconds[0] *= 1.2  # a busy machine, or the reader, makes a change take longer than it did alone
        with IndexFolder(path).writer():
            pass  # the next writer, whatever it does, sweeps what the dead one left
        check_swept(path, {"encodings"} & {file.name for file in path.iterdir()})
    # At last it is let through, takes up what was encoded, and leaves nothing behind.
    status, _ = server.run(name, path, 1)
    if current == 0 or name == "build":
        assert status == 0
    reads, seen = reader.finish()
    assert check(path, states) == 1
    return outcomes, killed, left_something, reads, seen


@pytest.mark.parametrize("name", CHANGES)
def test_a_few_kills(name, server, tmp_path):
    outcomes, _, _, reads, _ = kill_at_random_moments(name, 5, server, tmp_path)
    assert len(outcomes) == 5 and reads > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_fifty_kills(name, server, tmp_path):
    outcomes, killed, left_something, reads, seen = kill_at_random_moments(name, 50, server, tmp_path)
    assert set(outcomes) == {0, 1}, "kills should have come before and after the commit"
    assert killed >= 10 and left_something >= 1, "kills should have come while the change was made"
    assert reads > 50 and seen == [0, 1]


def test_a_first_build_that_is_killed_is_no_index(server, tmp_path):
    rng, outcomes = random.Random(0), set()
    _, seconds = server.run("build", tmp_path / "whole", 0)
    expected = work.state_of(GTRIndex.load(tmp_path / "whole"))
    for number in range(40):
        if number >= 8 and outcomes:
            break
        path = tmp_path / str(number)
        status, _ = server.run("build", path, 0, after=rng.uniform(0.2, 1.1) * seconds)
        try:
            index = GTRIndex.load(path)
        except IndexFormatError as error:
            assert status == -signal.SIGKILL
            assert "there is no" in str(error)
            assert server.run("build", path, 0)[0] == 0
            check_swept(path)
            index = GTRIndex.load(path)
            outcomes.add("killed")
        assert work.is_one_of(work.state_of(index), [expected]) == 0
        assert IndexFolder(path).verify() == []
    assert "killed" in outcomes


@pytest.mark.parametrize("name", CHANGES)
def test_ctrl_c(name, server, tmp_path):
    """An interrupt undoes the change on its way out, or comes after it was done."""
    rng, outcomes = random.Random(name), []
    work.build(tmp_path / "old", 0)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    status, seconds = server.run(name, tmp_path / "new", 1)
    assert status == 0
    states = [work.state_of(GTRIndex.load(tmp_path / folder)) for folder in ("old", "new")]
    # On a busy machine many interrupts come too late.
    for number in range(40):
        if number >= 6 and 130 in outcomes:
            break
        path = tmp_path / str(number)
        shutil.copytree(tmp_path / "old", path)
        status, _ = server.run(name, path, 1, after=rng.uniform(0.1, 1) * seconds, signal_number=signal.SIGINT)
        assert status in (0, 130)
        current = check(path, states)
        assert status == 130 or current == 1
        # It may come between the commit and the deletion of the encodings.
        check_swept(path, {"encodings"} & {file.name for file in path.iterdir()} if status else ())
        outcomes.append(status)
    assert 130 in outcomes, "no interrupt came in time"


def change(name, path):
    return {"build": work.build, "add": work.add, "remove": work.remove, "rebuild": rebuild}[name](path, 1)


def rebuild(path, *_):
    GTRIndex.load(path).rebuild(config=fast_config(n_clusters=2))


@pytest.mark.parametrize("name", ["build", "add", "remove", "rebuild"])
def test_a_disk_that_is_full_at_any_moment(name, tmp_path, monkeypatch):
    """Each wait for the disk fails once; up to the commit the old index stays and nothing new does."""
    work.build(tmp_path / "old", 0)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    change(name, tmp_path / "new")
    states = [work.state_of(GTRIndex.load(tmp_path / folder)) for folder in ("old", "new")]
    outcomes = []
    for step in range(60):
        path = tmp_path / str(step)
        shutil.copytree(tmp_path / "old", path)
        files = sorted(file.name for file in path.iterdir())
        remaining, real = [step], os.fsync

        def full(descriptor, remaining=remaining, real=real):
            remaining[0] -= 1
            if remaining[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            failed = False
            try:
                change(name, path)
            except OSError as error:
                assert error.errno == errno.ENOSPC
                failed = True
        generation = IndexFolder(path).read_manifest().generation
        outcomes.append(generation)
        if name != "rebuild":
            assert check(path, states) == generation - 1
        if generation == 1:
            assert sorted(file.name for file in path.iterdir() if file.name != "encodings") == files
        else:
            # The manifest was replaced, then the wait for its name failed: an error, yet the new state.
            check_swept(path, {"encodings"} & {file.name for file in path.iterdir()} if failed else ())
        if remaining[0] >= 0:
            break
        if generation == 1:
            change(name, path)
            check_swept(path)
    assert remaining[0] >= 0, "the change went through in the end"
    assert outcomes == sorted(outcomes)
    assert outcomes.count(1) >= 2


def test_a_file_that_may_not_grow(server, tmp_path):
    """The kernel refuses a write in the middle of a file, as on a full disk."""
    work.build(tmp_path / "index", 0)
    before = work.state_of(GTRIndex.load(tmp_path / "index"))
    files = sorted(file.name for file in (tmp_path / "index").iterdir())
    for limit in (0, 100, 3000, 10_000):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(OSError):
                work.add(tmp_path / "index")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert check(tmp_path / "index", [before]) == 0
        assert sorted(f.name for f in (tmp_path / "index").iterdir() if f.name != "encodings") == files
    work.add(tmp_path / "index")
    check_swept(tmp_path / "index")


def test_the_checks_see_a_mixed_state(tmp_path):
    """A state between the two must not pass for one of them."""
    work.build(tmp_path / "index", 0)
    old = work.state_of(GTRIndex.load(tmp_path / "index"))
    GTRIndex.load(tmp_path / "index").remove(["t1"])
    with pytest.raises(AssertionError, match="neither"):
        check(tmp_path / "index", [old])
    (tmp_path / "index" / "clusters-000009-00000000.safetensors").write_bytes(b"")
    with pytest.raises(AssertionError):
        check_swept(tmp_path / "index")
