import hashlib
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from gtr_gpu.features import encoding_cache
from gtr_gpu.features.encoding_cache import EncodingCache


def key(number):
    return hashlib.blake2b(str(number).encode(), digest_size=16).digest()


def vectors_of(numbers):
    return torch.tensor([[number, number + 0.5, -number] for number in numbers], dtype=torch.float32)


def filled(folder, numbers):
    cache = EncodingCache(folder)
    cache.store([key(number) for number in numbers], vectors_of(numbers))
    cache.flush()
    return cache


def assert_holds(cache, numbers, others=()):
    wanted = [*others, *numbers]
    found, vectors = cache.lookup([key(number) for number in wanted])
    assert found.tolist() == [False] * len(others) + [True] * len(numbers)
    torch.testing.assert_close(vectors, vectors_of(numbers), rtol=0, atol=0)


def test_what_was_stored_is_found_again_in_any_order(tmp_path):
    filled(tmp_path, range(100))
    cache = filled(tmp_path, range(100, 150))
    assert_holds(cache, [149, 3, 99, 3, 100], others=[-1, 1000])
    assert_holds(EncodingCache(tmp_path), list(range(150))[::-1])
    assert len(EncodingCache(tmp_path)) == 150


def test_an_empty_cache_knows_nothing(tmp_path):
    found, vectors = EncodingCache(tmp_path / "new").lookup([key(1), key(2)])
    assert not found.any() and vectors.numel() == 0
    found, _ = filled(tmp_path, [1]).lookup([])
    assert found.shape == (0,)


def test_pending_encodings_are_found_before_they_are_due(tmp_path):
    cache = EncodingCache(tmp_path, shard_seconds=1e9)
    cache.store([key(5)], vectors_of([5]))
    assert_holds(cache, [5], others=[6])
    assert not list(tmp_path.iterdir())


def test_shards_are_written_when_enough_or_when_time_has_passed(tmp_path):
    many = EncodingCache(tmp_path / "rows", shard_seconds=1e9, shard_rows=10)
    timed = EncodingCache(tmp_path / "seconds", shard_seconds=0.0)
    for number in range(25):
        many.store([key(number)], vectors_of([number]))
    timed.store([key(1)], vectors_of([1]))
    assert len(list((tmp_path / "rows").iterdir())) == 2
    assert len(list((tmp_path / "seconds").iterdir())) == 1


@pytest.mark.parametrize("damage", ["truncate", "empty", "garbage"])
def test_a_damaged_shard_is_ignored_with_a_warning(tmp_path, caplog, damage):
    filled(tmp_path, [1, 2])
    (bad,) = tmp_path.iterdir()
    filled(tmp_path, [3])
    content = bad.read_bytes()
    bad.write_bytes({"truncate": content[:-5], "empty": b"", "garbage": b"\xff" * len(content)}[damage])
    with caplog.at_level(logging.WARNING, "gtr_gpu"):
        cache = EncodingCache(tmp_path)
    assert str(bad) in caplog.text
    assert_holds(cache, [3], others=[1, 2])


def test_what_is_not_a_shard_is_ignored_with_a_warning(tmp_path, caplog):
    save_file({"keys": torch.zeros(3, 2, dtype=torch.int64), "vectors": torch.ones(2, 7)}, tmp_path / "x.encodings")
    cache = EncodingCache(tmp_path)
    assert "doesn't hold encodings" in caplog.text
    assert len(cache) == 0


def test_encoders_of_different_widths_share_a_folder(tmp_path):
    filled(tmp_path, [1])
    cache = EncodingCache(tmp_path, shard_seconds=1e9)
    cache.store([key("wide")], torch.ones(1, 7))
    for held in (cache, filled(tmp_path, [2]), EncodingCache(tmp_path)):
        assert_holds(held, [1], others=[3])
        cache.flush()
    found, vectors = EncodingCache(tmp_path).lookup([key(8), key("wide")])
    assert found.tolist() == [False, True]
    assert torch.equal(vectors, torch.ones(1, 7))


def test_keys_are_not_sorted_anew_for_each_shard(tmp_path, monkeypatch):
    merge, sizes = encoding_cache._merged, []

    def counted(runs):
        sizes.append(sum(map(len, runs)))
        return merge(runs)

    monkeypatch.setattr(encoding_cache, "_merged", counted)
    cache = EncodingCache(tmp_path, shard_rows=1)
    for number in range(256):
        cache.store([key(number)], vectors_of([number]))
    assert sum(sizes) < 256 * 2 * 8, "each doubling of the longest run sorts it once or twice"
    assert len(cache._runs) <= 9
    assert_holds(cache, list(range(256)), others=[-1])


def test_a_failed_write_leaves_no_file_and_keeps_the_encodings(tmp_path, monkeypatch):
    cache = EncodingCache(tmp_path, shard_seconds=1e9)
    cache.store([key(1)], vectors_of([1]))

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            cache.flush()
    assert not list(tmp_path.iterdir())
    assert_holds(cache, [1])


def test_stray_temporary_files_are_ignored_and_swept(tmp_path):
    filled(tmp_path, [1])
    old, new = tmp_path / "a.encodings-tmp", tmp_path / "b.encodings-tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 3600,) * 2)
    assert_holds(EncodingCache(tmp_path), [1])
    assert not old.exists()
    assert new.exists(), "another process may be writing it"


def test_a_killed_process_leaves_only_whole_shards(tmp_path):
    script = """
import sys, torch, hashlib
from gtr_gpu.features.encoding_cache import EncodingCache
cache = EncodingCache(sys.argv[1], shard_seconds=0.0)
for n in range(10**6):
    key = hashlib.blake2b(str(n).encode(), digest_size=16).digest()
    cache.store([key], torch.tensor([[n, n + 0.5, -n]], dtype=torch.float32))
    print(n, flush=True)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        for line in process.stdout:
            if int(line) == 20:
                process.send_signal(signal.SIGKILL)
                break
        rest = [int(line) for line in process.stdout.read().split()]
    last = rest[-1] if rest else 20
    cache = EncodingCache(tmp_path)
    assert last + 1 <= len(cache) <= last + 2
    assert_holds(cache, list(range(last + 1)))
