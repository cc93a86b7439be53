"""Questions from a file."""

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from gtr_gpu.cli.queries import Query, read_queries
from gtr_gpu.errors import GTRError

LINES = '{"query": "Wer?", "query_id": "x", "gold": ["t1"]}\n\n{"query": "  誰?  "}\n{"query_id": 7, "query": "who"}\n'
EXPECTED = [Query("x", "Wer?"), Query("2", "  誰?  "), Query(7, "who")]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_plain_and_compressed(tmp_path, suffix, mark):
    data = mark + LINES.encode()
    pack = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.zst": zstandard.compress}[suffix]
    path = tmp_path / f"q{suffix}"
    path.write_bytes(pack(data))
    assert read_queries(path) == EXPECTED


def test_stdin(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(LINES.encode())))
    assert read_queries(Path("-")) == EXPECTED


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "holds no question"),
        (b"\n \n", "holds no question"),
        (b'{"query": "a"}\nWhich city?\n', "line 2 is not JSON"),
        (b'{"query": "a"}\n["b"]\n', "line 2 must be an object"),
        (b'{"question": "a"}\n', "line 1 has no field `query`"),
        (b'{"query": 3}\n', "line 1: `query` must be a text, got a number"),
        (b'{"query": null}\n', "line 1: `query` must be a text, got a null"),
        (b'{"query": " "}\n', "line 1: `query` must hold at least one word"),
        (b'{"query": "a", "query_id": [1]}\n', "line 1: `query_id` must be a text or a whole number, got a list"),
        (b'{"query": "\xff"}\n', "not UTF-8"),
        (b"[" * 100_000, "line 1 is not JSON"),
        (gzip.compress(LINES.encode() * 50)[:60], "truncated"),
        (zstandard.compress(LINES.encode()) + zstandard.compress(LINES.encode())[:-3], "truncated"),
        (zstandard.compress(LINES.encode())[:-3], "truncated"),
        (zstandard.compress(LINES.encode())[:-30] + b"x" * 30, "can't be read"),
    ],
)
def test_each_mistake_is_a_sentence_with_its_line(tmp_path, content, expected):
    path = tmp_path / "q.jsonl"
    path.write_bytes(content)
    with pytest.raises(GTRError, match=r"^[^\n]+$") as caught:
        read_queries(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


def test_other_fields_are_never_read(tmp_path):
    plain, labelled = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    plain.write_text(json.dumps({"query": "q"}))
    labelled.write_text(json.dumps({"query": "q", "table_id": "t", "gold_table_ids": ["t"], "answer": "42"}))
    assert read_queries(plain) == read_queries(labelled)
