"""Changing an index on disk: one writer at a time, all or nothing, never in the way of readers or of foreign files."""

import errno
import fcntl
import logging
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gtr_gpu.errors import GTRError, IndexFormatError
from gtr_gpu.storage import IndexFolder, Manifest, read_arrays, write_arrays


def commit(transaction, value, size=10):
    """Makes a state whose one file holds a value, `size` times."""
    path = transaction.new_path("clusters")
    write_arrays(path, {"x": torch.full((size,), value)})
    return transaction.commit(Manifest(files={"clusters": transaction.seal(path)}))


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    folder = IndexFolder(tmp_path / "index")
    with folder.writer(create=True) as transaction:
        commit(transaction, 1)
    return folder


def value_of(folder: IndexFolder) -> int:
    return int(folder.open_snapshot(lambda m: read_arrays(folder.file(m.files["clusters"])))["x"].unique())


def named(folder: IndexFolder) -> set[str]:
    return {"manifest.json", "writer.lock"} | {entry.name for entry in folder.read_manifest().entries()}


def names(folder: IndexFolder) -> set[str]:
    return {path.name for path in folder.path.iterdir()}


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file() and file.name != "writer.lock"}


# Commits


def test_each_commit_is_one_generation_and_deletes_what_is_no_longer_named(folder):
    created = folder.read_manifest().created
    with folder.writer() as transaction:
        assert transaction.manifest == folder.read_manifest()
        first = commit(transaction, 2)
        assert names(folder) == named(folder)
        second = commit(transaction, 3)
        kept = transaction.commit(replace(second, created=created, summary={"kept": True}))
    assert [state.generation for state in (first, second, kept)] == [2, 3, 4]
    assert kept.files == second.files
    assert folder.read_manifest() == kept
    assert value_of(folder) == 3
    assert names(folder) == named(folder)


def test_names_are_never_used_again(folder):
    with folder.writer() as transaction:
        paths = {transaction.new_path("tables", ".arrow") for _ in range(100)}
    assert len(paths) == 100
    assert all(re.fullmatch(r"tables-000002-[0-9a-f]{8}\.arrow", path.name) for path in paths)


@pytest.mark.parametrize("arguments", [("../x",), ("X",), ("x", ".pkl"), ("",), ("x" * 200,)])
def test_names_that_a_manifest_would_refuse(folder, arguments):
    with folder.writer() as transaction, pytest.raises(ValueError, match="role must be"):
        transaction.new_path(*arguments)


def test_a_manifest_names_only_sealed_files(folder):
    before = contents(folder.path)
    with folder.writer() as transaction:
        path = transaction.new_path("x")
        write_arrays(path, {})
        entry = transaction.seal(path)
        with pytest.raises(ValueError, match="must be sealed"):
            transaction.commit(Manifest(files={"x": replace(entry, size=entry.size + 1)}))
        with pytest.raises(ValueError, match="must be sealed"):
            transaction.commit(Manifest(files={"x": replace(entry, name="x-000001-00000000.arrow")}))
        with pytest.raises(ValueError, match="did not come from new_path"):
            transaction.seal(folder.path / "manifest.json")
        with pytest.raises(ValueError, match="not JSON compliant"):
            transaction.commit(Manifest(summary={"x": float("nan")}))
    assert contents(folder.path) == before


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_leaving_without_a_commit_leaves_everything_as_it_was(folder, error):
    before = contents(folder.path)

    def leave():
        with folder.writer() as transaction:
            write_arrays(transaction.new_path("x"), {"x": torch.zeros(100)})
            if error:
                raise error

    if error:
        with pytest.raises(error):
            leave()
    else:
        leave()
    assert contents(folder.path) == before
    with folder.writer():  # the lock is free
        pass


@pytest.mark.parametrize("call", ["fsync", "replace", "unlink"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")])
def test_an_interrupt_at_any_call_leaves_one_whole_state(folder, monkeypatch, call, error):
    original, outcomes = getattr(os, call), set()
    for failing in range(20):
        calls = 0

        def once(*args, failing=failing, **kwargs):
            nonlocal calls
            calls += 1
            if calls == failing + 1:
                raise error
            return original(*args, **kwargs)

        before = value_of(folder)
        monkeypatch.setattr(os, call, once)
        try:
            with folder.writer() as transaction:
                commit(transaction, before + 1)
        except (KeyboardInterrupt, OSError) as caught:
            assert caught is error or isinstance(caught, KeyboardInterrupt)
        monkeypatch.undo()
        outcomes.add(value_of(folder) - before)
        assert folder.verify() == []
        with folder.writer():
            assert names(folder) == named(folder)
        if calls <= failing:
            break
    else:
        pytest.fail(f"{call} is called without end")
    assert failing > 0
    assert outcomes == ({1} if call == "unlink" else {0, 1})


def test_a_full_disk(folder, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        disk = IndexFolder(small / "index")
        with disk.writer(create=True) as transaction:
            commit(transaction, 1)
        before = contents(disk.path)
        with pytest.raises(OSError, match="No space left") as caught, disk.writer() as transaction:
            commit(transaction, 2, size=100_000)
        assert caught.value.errno == errno.ENOSPC
        assert contents(disk.path) == before
        with disk.writer() as transaction:
            commit(transaction, 3)
        assert value_of(disk) == 3
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


# Places


def test_a_failed_build_leaves_nothing(tmp_path):
    folder = IndexFolder(tmp_path / "a" / "b" / "c")

    def build():
        with folder.writer(create=True) as transaction:
            write_arrays(transaction.new_path("x"), {})
            raise GTRError("no tables")

    with pytest.raises(GTRError, match="no tables"):
        build()
    assert list(tmp_path.iterdir()) == []
    folder.path.mkdir(parents=True)
    with pytest.raises(GTRError, match="no tables"):
        build()
    assert list(folder.path.iterdir()) == []


def test_an_interrupted_build_keeps_its_encodings_and_goes_on(tmp_path):
    folder = IndexFolder(tmp_path / "x")
    with folder.writer(create=True):
        (folder.path / "encodings").mkdir()
        (folder.path / "encodings" / "cache-000001-00000000.safetensors").write_text("x")
    assert names(folder) == {"encodings", "writer.lock"}
    with pytest.raises(IndexFormatError, match="an interrupted build is there"):
        folder.read_manifest()
    with folder.writer(create=True) as transaction:
        commit(transaction, 5)
    assert value_of(folder) == 5
    assert (folder.path / "encodings" / "cache-000001-00000000.safetensors").exists()


def test_places_that_a_build_must_not_fill(tmp_path, folder):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "manifest.json").write_text('{"name": "an extension"}')
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "manifest.json").write_text("not JSON")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for place, message in {
        "home": r"home holds other things \(letter\.txt\) and no index; give --out a new or an empty folder",
        "home/letter.txt": "letter.txt is a file; give a folder for the index",
        "home/letter.txt/index": "can't be written: Not a directory; give another folder",
        "home/" + "x" * 300: "can't be written: File name too long; give another folder",
        "app": "is not an index of gtr-gpu",
        "odd": "truncated or not JSON",
    }.items():
        with pytest.raises(GTRError, match=message), IndexFolder(tmp_path / place).writer(create=True, overwrite=True):
            pass
    with pytest.raises(GTRError, match="index already holds an index; give --overwrite"), folder.writer(create=True):
        pass
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_folder_of_someone_else(tmp_path, monkeypatch):
    def refuse(path, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(GTRError, match="can't be written: Permission denied; give another folder"):
        IndexFolder(tmp_path / "x").writer(create=True).__enter__()


def test_an_index_that_must_not_be_changed(folder, monkeypatch):
    def refuse(path, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(GTRError, match="can't be written: Permission denied; see who may write it"):
        folder.writer().__enter__()


def test_errors_of_the_caller_pass_as_they_are(folder):
    with pytest.raises(PermissionError, match=r"^mine$"), folder.writer():
        raise PermissionError("mine")


@pytest.mark.parametrize("manifest", [None, b"", b'{"format": "gtr-gpu index", "format_version": 2}'])
def test_overwriting_an_index_sound_damaged_or_newer(folder, manifest):
    if manifest is not None:
        (folder.path / "manifest.json").write_bytes(manifest)
    (folder.path / "notes.txt").write_text("mine")
    before = contents(folder.path)
    with folder.writer(create=True, overwrite=True) as transaction:
        write_arrays(transaction.new_path("x"), {})
    assert contents(folder.path) == before
    with folder.writer(create=True, overwrite=True) as transaction:
        commit(transaction, 9)
    assert value_of(folder) == 9
    assert names(folder) == named(folder) | {"notes.txt"}


# Sweeping


def test_the_next_writer_sweeps_what_a_crash_left_and_nothing_else(folder):
    orphans = ["s0-tables-000009-0123abcd.arrow", "clusters-000001-deadbeef.safetensors", "manifest-0123abcd.tmp"]
    foreign = ["notes.txt", "manifest-old.json", "x-000001-0123.arrow", "MODEL-000001-0123abcd.safetensors", "a.tmp"]
    for name in orphans + foreign:
        (folder.path / name).write_text("x")
    with folder.writer():
        assert names(folder) == named(folder) | set(foreign)
    assert value_of(folder) == 1


def test_what_cannot_be_deleted_is_a_warning(folder, caplog):
    stubborn = folder.path / "s0-tables-000009-0123abcd.arrow"
    stubborn.mkdir()
    with caplog.at_level(logging.WARNING, "gtr_gpu"), folder.writer() as transaction:
        commit(transaction, 2)
    assert f"{stubborn} is no longer needed but can't be deleted" in caplog.text
    assert value_of(folder) == 2


# Readers


def test_a_reader_keeps_what_it_opened(folder):
    opened = folder.open_snapshot(lambda m: read_arrays(folder.file(m.files["clusters"])))["x"]
    for value in (2, 3):
        with folder.writer() as transaction:
            commit(transaction, value, size=100_000)
    assert opened.tolist() == [1] * 10
    assert value_of(folder) == 3


def test_a_reader_that_comes_too_late_takes_the_newer_state(folder):
    seen = []

    def load(manifest):
        if len(seen) < 3:  # a commit between the manifest and its files
            with folder.writer() as transaction:
                commit(transaction, 10 + len(seen))
        seen.append(manifest.generation)
        return read_arrays(folder.file(manifest.files["clusters"]))["x"]

    assert folder.open_snapshot(load)[0] == 12
    assert seen == [1, 2, 3, 4]


def test_a_reader_gives_up_on_an_index_that_never_rests(folder):
    def load(manifest):
        with folder.writer() as transaction:
            transaction.commit(transaction.manifest)
        raise FileNotFoundError

    with pytest.raises(GTRError, match="changes faster than it can be opened"):
        folder.open_snapshot(load)


def test_errors_of_loading_pass_as_they_are(folder):
    def load(manifest):
        raise FileNotFoundError("another file")

    with pytest.raises(FileNotFoundError, match="another file"):
        folder.open_snapshot(load)


# The lock

HOLDER = """
import sys
from gtr_gpu.storage import IndexFolder
with IndexFolder(sys.argv[1]).writer():
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(folder):
    """Another process that is writing."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "locked\n"
    with process:
        yield process
        process.kill()


def test_a_second_writer_is_told_of_the_first(folder, holder):
    start = time.monotonic()
    with pytest.raises(GTRError) as caught, folder.writer():
        pass
    assert time.monotonic() - start < 1
    host = re.escape(os.uname().nodename)
    assert re.search(
        rf"index is being written by process {holder.pid} on {host} since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d.*; wait",
        str(caught.value),
    )
    assert value_of(folder) == 1  # readers don't mind


def test_a_killed_writer_locks_nothing(folder, holder):
    holder.kill()
    holder.wait()
    with folder.writer() as transaction:
        commit(transaction, 4)
    assert value_of(folder) == 4


def test_threads_exclude_each_other_too(folder):
    committed = []

    def raise_by_one():
        while len(committed) < 8:
            try:
                with folder.writer() as transaction:
                    committed.append(commit(transaction, value_of(folder) + 1))
            except GTRError as error:
                assert "is being written" in str(error)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: raise_by_one(), range(4)))
    assert value_of(folder) == 1 + len(committed)
    assert folder.read_manifest().generation == 1 + len(committed)


def before_the_lock(monkeypatch, action):
    """Does something between the opening of the lock file and its lock, once."""
    flock, waiting = fcntl.flock, [action]

    def late(descriptor, how):
        if waiting:
            waiting.pop()()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)


def test_a_writer_sees_what_another_did_just_before_the_lock(tmp_path, monkeypatch):
    folder = IndexFolder(tmp_path / "x")

    def other():
        with IndexFolder(tmp_path / "x").writer(create=True) as transaction:
            commit(transaction, 1)

    before_the_lock(monkeypatch, other)
    with pytest.raises(GTRError, match="already holds an index"), folder.writer(create=True):
        pass
    assert value_of(folder) == 1


def test_a_lock_on_a_deleted_file_does_not_count(tmp_path, monkeypatch):
    """A build that gives up deletes its lock file; who had opened it must take the lock of a new file."""
    folder = IndexFolder(tmp_path)
    before_the_lock(monkeypatch, (tmp_path / "writer.lock").unlink)
    with folder.writer(create=True) as transaction:
        with pytest.raises(GTRError, match="is being written"), IndexFolder(tmp_path).writer(create=True):
            pass
        commit(transaction, 2)
    assert value_of(folder) == 2


def test_an_unreadable_owner(folder, holder):
    (folder.path / "writer.lock").write_text("?")
    with pytest.raises(GTRError, match="is being written by another process; wait"), folder.writer():
        pass
