"""What an index on disk holds, and what is said of one that can't be read."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from gtr_gpu.errors import GTRError, IndexFormatError
from gtr_gpu.storage import (
    FileEntry,
    IndexFolder,
    Manifest,
    Segment,
    pack_texts,
    read_arrays,
    unpack_texts,
    write_arrays,
)

DTYPES = [torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.int32, torch.float32, torch.int64]


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    """An index of one segment with two files and one index-wide file."""
    folder = IndexFolder(tmp_path / "an index ä")
    with folder.writer(create=True) as transaction:
        entries = {}
        for role in ("tables", "features", "clusters"):
            path = transaction.new_path(role)
            write_arrays(path, {"x": torch.arange(1000)})
            entries[role] = transaction.seal(path)
        clusters = entries.pop("clusters")
        transaction.commit(
            Manifest(
                config={"n_clusters": 3, "keep": [50]},
                encoder={"name": "é", "dimension": 384},
                counts={"tables": 7},
                segments=(Segment("s0", 7, entries),),
                files={"clusters": clusters},
                summary={"notes": ["cut 3 tables"]},
            )
        )
    return folder


def edit_manifest(folder: IndexFolder, **changes: object) -> None:
    """Changes a manifest as another program could have written it: its checksum fits."""
    path = folder.path / "manifest.json"
    values = json.loads(path.read_text()) | changes
    del values["checksum"]
    values["checksum"] = hashlib.sha256(json.dumps(values, separators=(",", ":")).encode()).hexdigest()
    path.write_text(json.dumps(values))


def snapshot(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


# Arrays


@given(
    shapes=st.lists(st.lists(st.integers(0, 5), max_size=3), max_size=5),
    dtypes=st.lists(st.sampled_from(DTYPES), min_size=5, max_size=5),
    seed=st.integers(0, 1000),
)
def test_arrays_come_back_and_the_library_reads_the_same(shapes, dtypes, seed, tmp_path_factory):
    generator = torch.Generator().manual_seed(seed)
    arrays = {
        f"part{i}.values": torch.randint(0, 2**8, shape, generator=generator).to(dtype)
        for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=False))
    }
    path = tmp_path_factory.mktemp("arrays") / "x.safetensors"
    write_arrays(path, arrays)
    for read in (read_arrays(path), load_file(path)):
        assert read.keys() == arrays.keys()
        for name, array in arrays.items():
            assert read[name].dtype == array.dtype
            assert torch.equal(read[name], array)


def test_the_same_arrays_give_the_same_bytes(tmp_path):
    x = torch.arange(12).reshape(3, 4)
    arrays = {"b": x, "a": x.t(), "half": x[1:].half(), "same": x}
    write_arrays(tmp_path / "1", arrays)
    write_arrays(tmp_path / "2", dict(reversed(arrays.items())))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert torch.equal(read_arrays(tmp_path / "1")["a"], x.t())


def test_a_file_of_arrays_is_never_replaced_and_has_ordinary_permissions(tmp_path):
    mask = os.umask(0o027)
    try:
        write_arrays(tmp_path / "x", {})
    finally:
        os.umask(mask)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640
    assert read_arrays(tmp_path / "x") == {}
    with pytest.raises(FileExistsError):
        write_arrays(tmp_path / "x", {})


@pytest.mark.parametrize("array", [torch.zeros(2, dtype=torch.complex64), torch.eye(2).to_sparse()])
def test_arrays_of_other_kinds_are_refused(array, tmp_path):
    with pytest.raises(TypeError, match="array 'x' must be dense"):
        write_arrays(tmp_path / "x", {"x": array})
    assert not (tmp_path / "x").exists()


def test_opening_reads_nothing_and_changing_leaves_the_file(tmp_path):
    path = tmp_path / "big.safetensors"
    write_arrays(path, {"x": torch.ones(64 << 20, dtype=torch.uint8), "y": torch.zeros(5)})
    script = f"""
import psutil
from pathlib import Path
from gtr_gpu.storage import read_arrays
process = psutil.Process()
read_arrays(Path({str(tmp_path / "y.safetensors")!r}))
before = process.memory_info().rss
arrays = read_arrays(Path({str(path)!r}))
opened = process.memory_info().rss
assert int(arrays["x"].sum()) == 64 << 20
summed = process.memory_info().rss
arrays["x"][0] = 7
print((opened - before) >> 20, (summed - before) >> 20)
"""
    write_arrays(tmp_path / "y.safetensors", {"y": torch.zeros(5)})
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    opened, summed = map(int, output.split())
    assert opened <= 4
    assert summed >= 32  # else the measure would not see a file that is read in full
    assert hashlib.sha256(path.read_bytes()).hexdigest() == checksum


def test_damaged_files_of_arrays(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(FileNotFoundError):
        read_arrays(path)
    write_arrays(path, {"x": torch.arange(9)})
    data = path.read_bytes()
    for damaged in (b"", data[:5], data[:-1], data + b"0", b"PK\3\4" + data):
        path.write_bytes(damaged)
        with pytest.raises(IndexFormatError, match=r"x\.safetensors is truncated or not a safetensors file"):
            read_arrays(path)


def with_header(entries, n_bytes):
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes(n_bytes)


def place(dtype, shape, *offsets):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"x": 5},
        {"x": {"dtype": "I64", "shape": [1]}},
        {"x": place("Q7", [1], 0, 8)},
        {"x": place("I64", [2], 0, 8)},
        {"x": place("I64", [-1], 8, 0)},
        {"x": place("I64", [1.0], 0, 8)},
        {"x": place("I64", [1], 0, 8, 8)},
        {"x": place("U8", [4], 0, 4)},
        {"x": place("U8", [4], 4, 8)},
        {"x": place("U8", [8], 8, 16)},
        {"x": {}},
        {"x": place("I64", {}, 0, 8)},
        {"x": place("I64", "", 0, 8)},
        {"x": place("I64", 1, 0, 8)},
        {"x": place("U8", [8], [], 8)},
        {"x": place("U8", [8], 0, 8), "y": place("I64", [0, 10**30], 8, 8)},
        {"x": place("U8", [8], 0, 8), "y": place("I64", [0, 2**62, 2**62], 8, 8)},
        {"x": place("U8", [8], 0, 8), "y": place("U8", [8], 0, 8)},
        {name: place("U8", [8], 0, 8) for name in "xyz"},
        {"x": place("U8", [8], 0, 8), "empty": place("U8", [0], 4, 4)},
        {"x": place("U8", [6], 0, 6), "y": place("U8", [4], 4, 8)},
        {"x": place("U8", [1], 0, 1), "y": place("I32", [1], 1, 5), "z": place("U8", [3], 5, 8)},
    ],
)
def test_headers_that_do_not_describe_the_file(header, tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(with_header(header, 8))
    with pytest.raises(IndexFormatError, match=r"x\.safetensors is truncated or not a safetensors file"):
        read_arrays(path)


@pytest.mark.parametrize("text", [b"", b"{", b'{"x": NaN}', b"\xff" * 8, b"[" * 100_000, b'{"x":' + b"9" * 5000 + b"}"])
def test_headers_that_are_no_json(text, tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(IndexFormatError, match=r"x\.safetensors is truncated or not a safetensors file"):
        read_arrays(path)


@pytest.mark.parametrize("padding", range(8))
def test_arrays_that_cannot_be_mapped_as_they_lie_are_refused(padding, tmp_path):
    """Whether it is the header that moves them, or the array before them."""
    path = tmp_path / "x.safetensors"
    for first in (8, 16 - padding):
        text = json.dumps({"x": place("U8", [first], 0, first), "y": place("I64", [1], first, first + 8)}).encode()
        text += b" " * (-len(text) % 8 + padding)
        path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(first + 8))
        if padding == 0:
            assert read_arrays(path)["y"].tolist() == [0]
        else:
            with pytest.raises(IndexFormatError, match="'y' doesn't start at a multiple of its item size"):
                read_arrays(path)


@given(cut=st.integers(0, 400), byte=st.integers(0, 255), place=st.integers(0, 400), grown=st.binary(max_size=3))
def test_a_damaged_file_is_told_or_read_as_the_library_reads_it(cut, byte, place, grown, tmp_path_factory):
    path = tmp_path_factory.mktemp("arrays") / "x.safetensors"
    arrays = {"a": torch.arange(6.0).view(2, 3), "b": torch.arange(5, dtype=torch.uint8), "none": torch.empty(0, 2)}
    write_arrays(path, arrays)
    data = bytearray(path.read_bytes())
    data[place % len(data)] = byte
    path.write_bytes(data[: len(data) - max(cut - 200, 0)] + grown)
    try:
        read = read_arrays(path)
    except IndexFormatError:
        return
    expected = load_file(path)
    assert read.keys() == expected.keys()
    for name, array in expected.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
        assert torch.equal(read[name].view(-1).view(torch.uint8), array.view(-1).view(torch.uint8))


def test_files_of_the_library_are_read(tmp_path):
    arrays = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([1, 2]), "half": torch.ones(3).bfloat16()}
    save_file(arrays, tmp_path / "x.safetensors", metadata={"of": "somebody"})
    read = read_arrays(tmp_path / "x.safetensors")
    assert read.keys() == arrays.keys()
    assert all(read[name].dtype == arrays[name].dtype and torch.equal(read[name], arrays[name]) for name in arrays)


def test_arrays_outlive_the_name_of_their_file(tmp_path):
    path = tmp_path / "x.safetensors"
    write_arrays(path, {"x": torch.arange(9)})
    read = read_arrays(path)
    path.unlink()
    assert read["x"].tolist() == list(range(9))


@given(st.lists(st.text()))
def test_texts_come_back(texts):
    values, offsets = pack_texts(texts)
    assert (values.dtype, offsets.dtype) == (torch.uint8, torch.int64)
    assert offsets.numel() == len(texts) + 1
    assert unpack_texts(values, offsets) == texts


def test_texts_with_lone_surrogates_come_back():
    texts = ["", "\ud800", "表\x00", "\udfff\ud83d"]
    assert unpack_texts(*pack_texts(texts)) == texts


# Manifests


def test_a_manifest_comes_back_complete(folder):
    manifest = folder.read_manifest()
    assert (manifest.generation, manifest.format_version) == (1, 1)
    assert manifest.library_version
    assert manifest.created == manifest.updated
    assert manifest.config == {"n_clusters": 3, "keep": [50]}
    assert manifest.encoder == {"name": "é", "dimension": 384}
    assert manifest.segments[0].n_tables == 7
    assert manifest.summary == {"notes": ["cut 3 tables"]}
    assert [entry.name.rsplit("-", 2)[0] for entry in manifest.entries()] == ["tables", "features", "clusters"]
    for entry in manifest.entries():
        data = folder.file(entry).read_bytes()
        assert entry == FileEntry(entry.name, len(data), hashlib.sha256(data).hexdigest())
    assert Manifest.from_bytes(manifest.to_bytes(), "x") == manifest


def test_a_relative_folder(folder, monkeypatch):
    monkeypatch.chdir(folder.path.parent)
    relative = IndexFolder(folder.path.name)
    assert relative.read_manifest() == folder.read_manifest()
    with relative.writer() as transaction:
        transaction.commit(replace(transaction.manifest, summary={}))
    assert folder.read_manifest().generation == 2


def test_no_index(tmp_path):
    with pytest.raises(IndexFormatError, match=r"no folder .*x'?; build one with `gtr index SOURCE --out"):
        IndexFolder(tmp_path / "x").read_manifest()
    with pytest.raises(IndexFormatError, match=r"there is no index at .*; build one with"):
        IndexFolder(tmp_path).read_manifest()
    (tmp_path / "file").write_text("")
    with pytest.raises(IndexFormatError, match="file is not a folder"):
        IndexFolder(tmp_path / "file").read_manifest()
    (tmp_path / "writer.lock").write_text("")
    with pytest.raises(IndexFormatError, match="an interrupted build is there; run the same command again to go on"):
        IndexFolder(tmp_path).read_manifest()
    with pytest.raises(IndexFormatError, match=r"\(or restore its manifest\.json, if it was complete\)"):
        IndexFolder(tmp_path).read_manifest()
    with pytest.raises(IndexFormatError, match="an interrupted build"), IndexFolder(tmp_path).writer():
        pass


def test_no_permission(folder, monkeypatch):
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(IndexFormatError, match=r"can't be read: Permission denied; check who may read its"):
        folder.read_manifest()


@pytest.mark.parametrize("data", [b"", b'{"format": "gtr-gpu', b"\xff\xfe", b"[" * 100_000])
def test_a_truncated_manifest(folder, data):
    (folder.path / "manifest.json").write_bytes(data)
    with pytest.raises(IndexFormatError, match=r"truncated or not JSON.* --out '.*an index ä' --overwrite"):
        folder.read_manifest()


def test_a_changed_manifest_is_damaged(folder):
    path = folder.path / "manifest.json"
    data = path.read_bytes()
    values = json.loads(data)
    edits = [
        values | {"config": values["config"] | {"n_clusters": 4}},
        values | {"segments": []},
        values | {"extra": 1},
        {name: value for name, value in values.items() if name != "checksum"},
    ]
    for edit in [json.dumps(values).encode() for values in edits]:
        path.write_bytes(edit)
        for look in (folder.read_manifest, folder.verify):
            with pytest.raises(IndexFormatError, match=r"damaged index: its manifest\.json .* checksum.*; restore it"):
                look()
    path.write_text(json.dumps(values, indent=4))
    assert folder.verify() == [], "the same values in another layout"


def test_a_flipped_byte_of_a_manifest_is_seen(folder):
    path = folder.path / "manifest.json"
    data = path.read_bytes()
    for place in range(len(data) - 1):
        spoilt = bytearray(data)
        spoilt[place] ^= 1
        path.write_bytes(spoilt)
        with pytest.raises(IndexFormatError):
            folder.verify()


@pytest.mark.parametrize(
    "values",
    [[], None, {}, {"manifest_version": 3, "name": "an extension"}, {"format": "gtr-gpu index"}],
)
def test_a_foreign_manifest(folder, values):
    (folder.path / "manifest.json").write_text(json.dumps(values))
    with pytest.raises(IndexFormatError, match=r"is not an index of gtr-gpu: its manifest\.json was written by"):
        folder.read_manifest()


@pytest.mark.parametrize(
    "changes",
    [
        {"format_version": 0},
        {"format_version": True},
        {"generation": "1"},
        {"segments": [3]},
        {"segments": [{"name": "s0", "n_tables": 3}]},
        {"files": {"clusters": {"name": "clusters-000001-00000000.safetensors", "size": 3}}},
        {"files": {"clusters": None}},
    ],
)
def test_a_manifest_of_other_types(folder, changes):
    edit_manifest(folder, **changes)
    with pytest.raises(IndexFormatError, match="was written by something else"):
        folder.read_manifest()


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "..", "", "a/x-000001-00000000.arrow", "x-000001-00000000.arrow\n", "x.pkl"],
)
def test_a_manifest_that_leads_out_of_the_folder(folder, name):
    edit_manifest(folder, files={"x": {"name": name, "size": 1, "checksum": ""}})
    with pytest.raises(IndexFormatError, match="names the file"):
        folder.read_manifest()


def test_a_link_in_the_place_of_a_file(folder, tmp_path):
    path = folder.file(folder.read_manifest().files["clusters"])
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IndexFormatError, match="is a link or a folder"):
        folder.read_manifest()


def test_a_newer_format(folder):
    edit_manifest(folder, format_version=2, library_version="9.9", segments="of another kind")
    with pytest.raises(
        IndexFormatError, match=r"written by gtr-gpu 9\.9 in format 2; this library reads format 1: upgrade gtr-gpu"
    ):
        folder.read_manifest()


def test_missing_and_truncated_files_are_named(folder):
    tables, features, clusters = folder.read_manifest().entries()
    assert folder.verify() == []
    with folder.file(features).open("r+b") as file:
        file.truncate(features.size - 1)
    with pytest.raises(IndexFormatError, match=rf"{features.name} must have {features.size:,} bytes but has"):
        folder.read_manifest()
    folder.file(tables).unlink()
    with pytest.raises(IndexFormatError, match=rf"{tables.name} is missing from the index; `gtr verify` lists"):
        folder.read_manifest()
    data = bytearray(folder.file(clusters).read_bytes())
    data[-1] ^= 1
    folder.file(clusters).write_bytes(data)
    problems = folder.verify()
    assert len(problems) == 3
    expected = [(tables, "missing"), (features, "bytes"), (clusters, "checksum")]
    for problem, (entry, words) in zip(problems, expected, strict=True):
        assert entry.name in problem
        assert words in problem


def test_verify_reports_its_progress(folder):
    class Counting:
        done = 0

        def stage(self, name, total=None):
            self.name, self.total = name, total
            return self

        def advance(self, amount=1):
            self.done += amount

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            pass

    progress = Counting()
    assert folder.verify(progress) == []
    assert progress.name == "Verifying"
    assert progress.done == progress.total == sum(entry.size for entry in folder.read_manifest().entries())


# Copies


def test_a_copy_is_an_index_of_its_own(folder, tmp_path):
    (folder.path / "notes.txt").write_text("not a part of the index")
    before = snapshot(folder.path)
    copy = IndexFolder(tmp_path / "new" / "copy")
    manifest = folder.copy_to(copy.path)
    assert copy.read_manifest() == manifest
    assert copy.verify() == []
    assert sorted(path.name for path in copy.path.iterdir()) == sorted(
        ["manifest.json", "writer.lock", *(entry.name for entry in manifest.entries())]
    )
    original = folder.read_manifest()
    assert (manifest.config, manifest.counts, manifest.created) == (original.config, original.counts, original.created)
    assert manifest.segments[0].files.keys() == original.segments[0].files.keys()
    for ours, theirs in zip(manifest.entries(), original.entries(), strict=True):
        assert ours.checksum == theirs.checksum
        assert ours.name.split("-")[:-1] == theirs.name.split("-")[:-1]
    assert snapshot(folder.path) == before


def test_copies_that_are_refused(folder, tmp_path):
    with pytest.raises(GTRError, match="onto itself"):
        folder.copy_to(folder.path, overwrite=True)
    target = tmp_path / "target"
    folder.copy_to(target)
    with pytest.raises(GTRError, match="already holds an index; give --overwrite"):
        folder.copy_to(target)
    assert folder.copy_to(target, overwrite=True).generation == 2
    before = snapshot(target)
    path = folder.file(folder.read_manifest().files["clusters"])
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(IndexFormatError, match="is damaged"):
        folder.copy_to(target, overwrite=True)
    assert snapshot(target) | {"writer.lock": b""} == before | {"writer.lock": b""}
    with pytest.raises(IndexFormatError, match="is damaged"):
        folder.copy_to(tmp_path / "never")
    assert not (tmp_path / "never").exists()
