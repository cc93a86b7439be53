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
    ("content", "message"),
    [
        (b"", "standard input holds no question"),
        (b"x", "standard input, line 1 is not JSON"),
        (b"\xff", "standard input can't be read"),
    ],
)
def test_mistakes_on_stdin_name_it(monkeypatch, content, message):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    with pytest.raises(GTRError, match=f"^{message}"):
        read_queries(Path("-"))


@pytest.mark.parametrize(
    ("query_ids", "message"),
    [
        (["a", "b", None, "a"], "line 5: the `query_id` is 'a', and so is that of line 1;"),
        (["7", 7], "line 2: the `query_id` is 7, and so is that of line 1;"),
        (["2", None], "line 2: the question's number, which stands for its missing `query_id`, is '2', and so is that"),
        ([None, "1"], "line 2: the `query_id` is '1', and so is that of line 1;"),
    ],
)
def test_a_query_id_that_comes_twice_names_both_lines(tmp_path, query_ids, message):
    path = tmp_path / "q.jsonl"
    texts = [json.dumps({"query": "q"} | ({} if name is None else {"query_id": name})) for name in query_ids]
    # An empty line counts as a line and not as a question.
    path.write_text("\n".join([*texts[:2], *([""] if len(texts) > 2 else []), *texts[2:]]))
    with pytest.raises(GTRError, match="give each question its own `query_id`") as caught:
        read_queries(path)
    assert f"{path}, {message}" in str(caught.value)


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
