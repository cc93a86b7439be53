"""JSON lines, in this project's fields and in those of the MultiTableQA release."""

import gzip
import hashlib
import json

import pytest
import zstandard

from gtr_gpu.errors import GTRError
from gtr_gpu.tables import jsonl

OURS = {"table_id": "t1", "caption": "C", "header": ["a", "", "a"], "rows": [["1", "2"], [3, None, "x\ny", 4.0]]}


def lines(*objects) -> str:
    return "".join(json.dumps(item) + "\n" for item in objects)


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("t.jsonl", bytes),
        ("t.ndjson", bytes),
        ("t.jsonl.gz", gzip.compress),
        ("t.jsonl.zst", zstandard.compress),
        ("two.jsonl.zst", lambda data: zstandard.compress(data[:9]) + zstandard.compress(data[9:])),
        ("bom.jsonl", lambda data: b"\xef\xbb\xbf" + data),
    ],
)
def test_our_lines(files, name, pack):
    files.write(name, pack(lines({**OURS, "description": "D", "source": "s", "page": 3}).encode()))
    table = files.read_one(name)
    assert (table.table_id, table.caption, table.description) == ("t1", "C", "D")
    assert table.header == ["a", "", "a", ""]
    assert table.rows == [["1", "2", "", ""], ["3", "", "x\ny", "4"]]
    assert table.metadata == {"source": "s", "page": 3}
    assert table.source == f"{files.folder}/{name}:1"


@pytest.mark.parametrize(
    "body", [{"table": {"header": ["h"], "rows": [["r"]]}}, {"table.header": ["h"], "table.rows": [["r"]]}]
)
def test_the_release_and_its_labels(files, body):
    labels = {"source_table_idx": 5, "example_query": "who?", "split": "dev", "page": "p", "source_table_idxs": [1]}
    files.write("t.jsonl", lines({"table_idx": 7, "caption": "C", **labels, **body}))
    table = files.read_one("t.jsonl")
    assert (table.table_id, table.caption, table.header, table.rows) == ("7", "C", ["h"], [["r"]])
    assert table.description == ""
    assert table.metadata == labels


def test_an_id_under_another_name(files):
    files.write("a.jsonl", lines({"id": 3, "caption": "C", "header": ["h"], "rows": [["r"]], "x": 1}))
    files.write("b.jsonl", lines({**OURS, "id": "other"}))
    plain, both = files.read()
    assert (plain.table_id, plain.rows, plain.metadata) == ("3", [["r"]], {"x": 1})
    assert (both.table_id, both.metadata) == ("t1", {"id": "other"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"header": [], "rows": []}', "no table_id, expected `table_id`, `caption`, `header` and `rows`"),
        ('{"table_id": null, "id": "", "header": [], "rows": []}', "its id must be a text or a number"),
        ('{"table_id": [1], "id": "x", "header": [], "rows": []}', "its table_id must be a text or a number"),
        ('{"table_id": "x", "rows": []}', "it has no header, expected `table_id`, `caption`, `header` and `rows`"),
        ('{"table_id": "x", "header": []}', "it has no rows, expected `table_id`, `caption`"),
        ('{"table_id": "x", "header": "a", "rows": []}', "header must be a list"),
        ('{"table_id": "x", "header": [], "rows": {}}', "rows must be lists"),
        ('{"table_id": "x", "header": [], "rows": ["ab"]}', "rows must be lists"),
        ('{"table_id": "x", "table": 1}', "table must be an object"),
        ('{"table_id": "x", "header": [], "rows": [], "caption": [5]}', "caption must be a text"),
        (b'{"table_id": "\xff"}', "not valid UTF-8"),
    ],
)
def test_a_bad_line_is_named_and_the_next_is_read(files, line, reason):
    line = line if isinstance(line, bytes) else line.encode()
    files.write("t.jsonl", b"\n" + line + b"\n" + lines(OURS).encode())
    assert [table.table_id for table in files.read()] == ["t1"]
    ((place, told),) = files.report.line_failures
    assert place == f"{files.folder}/t.jsonl:2"
    assert reason in told
    assert files.report.lines_failed == 1
    with pytest.raises(GTRError, match=r"t\.jsonl:2 can't be read"):
        files.read(strict=True)


def test_lone_surrogates_and_nul(files):
    files.write("t.jsonl", '{"table_id": "\\ud800", "caption": "a\\u0000b", "header": ["\\udfff"], "rows": []}')
    table = files.read_one("t.jsonl")
    assert (table.table_id, table.caption, table.header) == ("\ufffd", "ab", ["\ufffd"])


def test_an_endless_line(files, monkeypatch):
    assert jsonl.MAX_LINE == 64 << 20
    monkeypatch.setattr(jsonl, "MAX_LINE", 1 << 20)
    files.write("t.jsonl.gz", gzip.compress(lines(OURS).encode() + b"[" + b"[]," * (1 << 20)))
    assert len(files.read()) == 1
    ((_, reason),) = files.report.failed
    assert reason == "line 2 is longer than 1 MB; give so large a table as CSV or Parquet"


def test_a_binary_file(files):
    files.write("t.jsonl", bytes(range(256)) * 40)
    with pytest.raises(GTRError, match=r"t\.jsonl"):
        files.read()


def test_a_truncated_archive_gives_its_first_tables(files):
    packed = gzip.compress(lines(*({**OURS, "table_id": str(i), "x": [i] * 999} for i in range(2000))).encode())
    files.write("t.jsonl.gz", packed[: len(packed) // 2])
    assert len(files.read()) > 100
    ((place, reason),) = files.report.failed
    assert place.endswith("t.jsonl.gz")
    assert "truncated" in reason


def many(n, start=0) -> bytes:
    """Lines that do not compress well: a table a line."""
    words = [hashlib.sha256(str(start + i).encode()).hexdigest() for i in range(n)]
    return lines(*({**OURS, "table_id": str(start + i), "x": word} for i, word in enumerate(words))).encode()


@pytest.mark.parametrize("cut", [1, 5, 2000])
def test_a_cut_second_frame_is_not_the_end(files, cut):
    first, second = zstandard.compress(many(50)), zstandard.compress(many(50, 50))
    files.write("t.jsonl.zst", first + second[:-cut])
    found = [table.table_id for table in files.read()]
    assert found[:50] == [str(i) for i in range(50)]
    assert [reason for _, reason in files.report.failed] == ["it is truncated, its compressed data end too early"]
    assert files.report.lines_failed == 0
    with pytest.raises(GTRError, match="truncated"):
        files.read(strict=True)


@pytest.mark.parametrize("keep", [6, 100, 150_000])
def test_a_cut_single_frame_is_named_as_that(files, keep):
    packed = zstandard.compress(many(5000))
    assert len(packed) > 150_000
    files.write("t.jsonl.zst", packed[:keep])
    files.write("u.jsonl", lines({**OURS, "table_id": "u"}))
    assert files.read()[-1].table_id == "u"
    assert [reason for _, reason in files.report.failed] == ["it is truncated, its compressed data end too early"]
    assert files.report.lines_failed == 0


def test_frames_of_all_sorts_are_read_to_the_end(files):
    skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    frames = [zstandard.compress(many(1, i)) for i in range(300)]
    files.write("t.jsonl.zst", frames[0] + skippable + zstandard.compress(b"") + b"".join(frames[1:]) + skippable)
    assert len(files.read()) == 300
    assert files.report.failed == []
    files.write("t.jsonl.zst", b"".join(frames) + b"something else")
    assert len(files.read()) == 300
    assert "damaged" in files.report.failed[0][1]
