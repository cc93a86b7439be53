"""Files, folders and archives to a stream of tables: ids, failures, reports, mistakes."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import openpyxl
import pytest

from gtr_gpu.building import distinct
from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError
from gtr_gpu.tables import ReadReport, Table, TableWriter, read_sources

CSV = "name,age\nAnn,31\nBob,27\n"
LINE = json.dumps({"table_id": "t1", "caption": "", "header": ["a"], "rows": []}) + "\n"


def zipped(members: dict[str, bytes], method=zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def workbook() -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["x", "y"])
    book.active.append([1, 2])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_a_folder(files):
    for name in ("b/two_words.csv", "a.csv", "b/c/d-e.TSV"):
        files.write(name, CSV)
    files.write("t.jsonl", LINE)
    files.write(".hidden.csv", CSV)
    files.write(".git/x.csv", CSV)
    files.write("~$book.xlsx", b"lock")
    files.write("paper.pdf", b"%PDF")
    files.write("README", b"")
    found = files.read()
    assert [(t.table_id, t.caption) for t in found] == [
        ("a.csv", "a"),
        ("t1", ""),
        ("b/two_words.csv", "two words"),
        ("b/c/d-e.TSV", "d e"),
    ]
    assert found[2].source == str(files.folder / "b/two_words.csv")
    report = files.report
    assert (report.tables, report.files, report.rows, report.rows_kept) == (4, 4, 6, 6)
    assert report.tables_cut == 0
    assert dict(report.skipped) == {"hidden": 2, ".pdf": 1, "no extension": 1}
    assert str(files.folder / "paper.pdf") in report.skipped_examples


def test_files_are_named_by_their_last_part(files):
    files.write("b/x.csv", CSV)
    assert files.read_one("b/x.csv").table_id == "x.csv"


def test_file_names_that_are_not_utf8_stay_different(files):
    folder = os.fsencode(files.folder)
    Path(os.fsdecode(folder + b"/\xff")).mkdir()
    for name in (b"caf\xe8.csv", b"caf\xe9.csv", b"\xff/x.csv", b"caf\xe9.pdf", b"caf\xe9.parquet"):
        Path(os.fsdecode(folder + b"/" + name)).write_text(CSV)
    found = files.read()
    assert [table.table_id for table in distinct(found)] == [r"caf\xe8.csv", r"caf\xe9.csv", r"\xff/x.csv"]
    assert [table.source for table in found][:1] == [str(files.folder / r"caf\xe8.csv")]
    assert found[0].caption == "caf\ufffd"
    assert [place for place, _ in files.report.failed] == [str(files.folder / r"caf\xe9.parquet")]
    assert files.report.skipped_examples == [str(files.folder / r"caf\xe9.pdf")]


def test_links_that_go_round_end(files):
    files.write("a/x.csv", CSV)
    (files.folder / "a/up").symlink_to(files.folder, target_is_directory=True)
    assert len(files.read()) == 1


def test_an_archive_is_like_a_folder(files):
    members = {
        "data/x.csv": CSV.encode(),
        "t.jsonl": LINE.encode(),
        "book.xlsx": workbook(),
        "__MACOSX/._x.csv": b"\0",
        "notes.txt": b"text",
        "inner.zip": b"PK",
        "bad.csv": bytes(range(256)) * 20,
    }
    files.write("all.zip", zipped(members))
    assert [table.table_id for table in files.read()] == ["all.zip/book.xlsx#Sheet", "all.zip/data/x.csv", "t1"]
    assert dict(files.report.skipped) == {"hidden": 1, ".txt": 1, ".zip": 1}
    ((place, reason),) = files.report.failed
    assert place == f"{files.folder}/all.zip/bad.csv"
    assert "binary" in reason


MANIFEST = b'{\n "format": "gtr-gpu index",\n "format_version": 9\n}\n'


@pytest.mark.parametrize("sign", [("manifest.json", MANIFEST), ("writer.lock", b"")])
def test_an_index_among_the_sources_is_no_source(files, sign):
    files.write("a.csv", CSV)
    files.write("I/x.csv", CSV)
    files.write("I/encodings/y.csv", CSV)
    files.write(f"I/{sign[0]}", sign[1])
    assert [table.table_id for table in files.read()] == ["a.csv"]
    assert dict(files.report.skipped) == {"index": 1}
    assert files.report.skipped_examples == [str(files.folder / "I")]
    with pytest.raises(GTRError, match="1 index"):
        files.read("I")


def test_any_other_manifest_is_just_a_file(files):
    files.write("site/manifest.json", b'{"name": "my extension", "manifest_version": 3}')
    files.write("site/x.csv", CSV)
    assert [table.table_id for table in files.read()] == ["site/x.csv"]


def test_the_tables_of_an_index_are_not_read_as_one(files):
    with TableWriter(files.folder / "tables-000001-00000000.arrow") as writer:
        writer.append(Table("secret", "c", ["a"], [["1"]], metadata={"label": "x"}))
    files.write("i.zip", zipped({"I/t.arrow": (files.folder / "tables-000001-00000000.arrow").read_bytes()}))
    files.write("a.csv", CSV)
    assert [table.table_id for table in files.read()] == ["a.csv"]
    assert [reason for _, reason in files.report.failed] == [
        "it belongs to an index; give the sources that the index was made of"
    ] * 2


def test_archives_that_cannot_be_read(files):
    files.write("bomb.zip", zipped({"x.csv": b"0" * (70 << 20)}))
    good = zipped({"x.csv": CSV.encode()}, zipfile.ZIP_STORED)
    files.write("damaged.zip", good.replace(b"Ann", b"Eve", 1))
    files.write("short.zip", good[:40])
    locked = bytearray(good)
    locked[good.index(b"PK\x01\x02") + 8] |= 1
    locked[6] |= 1
    files.write("locked.zip", bytes(locked))
    files.write("x.csv", CSV)
    assert len(files.read()) == 1
    reasons = {os.path.relpath(place, files.folder): reason for place, reason in files.report.failed}
    assert reasons.keys() == {"bomb.zip", "damaged.zip/x.csv", "short.zip", "locked.zip/x.csv"}
    assert "would unpack to 73 MB" in reasons["bomb.zip"]
    assert "damaged" in reasons["damaged.zip/x.csv"]
    assert "truncated" in reasons["short.zip"]
    assert "encrypted" in reasons["locked.zip/x.csv"]


def test_one_bad_file_is_reported_and_the_rest_goes_on(files):
    files.write("a.parquet", b"PAR1 cut")
    files.write("b.csv", CSV)
    files.write("c.xlsx", b"not a workbook")
    (files.folder / "d.csv").symlink_to("nowhere.csv")
    (files.folder / "e.csv").mkdir()
    os.mkfifo(files.folder / "f.csv")
    assert [table.table_id for table in files.read()] == ["b.csv"]
    failed = [Path(place).name for place, _ in files.report.failed]
    assert failed == ["a.parquet", "c.xlsx", "d.csv", "f.csv"]
    assert "no such file" in dict(files.report.failed)[str(files.folder / "d.csv")]
    with pytest.raises(GTRError, match=r"a\.parquet can't be read: .*without --strict"):
        files.read(strict=True)


def test_a_failure_that_nobody_foresaw_is_one_files_failure(files, monkeypatch):
    from gtr_gpu.tables import sources

    def explode(path, name, reading):
        raise KeyError("inside")
        yield

    monkeypatch.setitem(sources.READERS, "html", explode)
    files.write("a.html", "<table>")
    files.write("b.csv", CSV)
    assert len(files.read()) == 1
    assert files.report.failed == [(f"{files.folder}/a.html", "it is damaged (KeyError: 'inside')")]


def test_a_file_without_permission(files, monkeypatch):
    files.write("a.csv", CSV)
    opened = Path.open

    def refuse(path, *args, **kwargs):
        if path.name == "a.csv":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(GTRError, match=r"a\.csv: permission denied"):
        files.read()


@pytest.mark.parametrize(
    ("first", "second", "places"),
    [
        ({"a.jsonl": LINE}, {"b.jsonl": "\n" + LINE}, ("a.jsonl:1", "b.jsonl:2")),
        ({"x/t.csv": CSV}, {"y/t.csv": CSV}, ("x/t.csv", "y/t.csv")),
    ],
)
def test_an_id_that_comes_twice_names_both_places(files, first, second, places):
    for name, content in {**first, **second}.items():
        files.write(name, content)
    with pytest.raises(GTRError, match="comes twice") as caught:
        list(distinct(files.read(*first, *second)))
    assert all(str(files.folder / place) in str(caught.value) for place in places)


def test_the_same_file_twice(files):
    files.write("a.csv", CSV)
    with pytest.raises(GTRError, match="comes twice"):
        list(distinct(files.read("a.csv", "a.csv")))


def test_limit_and_streaming(files):
    files.write("t.jsonl", "".join(LINE.replace("t1", f"t{i}") for i in range(50)))
    assert len(files.read(limit=3)) == 3
    assert (files.report.tables, files.report.files) == (3, 1)
    with pytest.raises(GTRError, match="limit must be at least 1, got 0"):
        files.read(limit=0)


@pytest.mark.parametrize(
    ("content", "names", "message"),
    [
        ({}, ["missing.csv"], "there is no file or folder .*missing.csv"),
        ({}, [], "holds no file of a known kind, expected one of .jsonl, .csv"),
        ({"a.doc": b"x", "b.doc": b"y"}, [], "skipped: 2 .doc"),
        ({"a.doc": b"x"}, ["a.doc"], "a.doc: its kind is unknown"),
        ({"a.csv": bytes(range(256)) * 20}, ["a.csv"], "a.csv: it is a binary file"),
        ({"a.csv": b""}, [], "a.csv: it is empty"),
        ({"a.jsonl": b"\n\n"}, [], "there is nothing in it"),
        ({"a.jsonl": b"{}\n" * 9}, [], "a.jsonl:1: it has no table_id.*and 6 more"),
        ({"a.zip": zipped({})}, [], "no table could be read"),
        ({"a.html": b"<table><tr><td>x</table>"}, [], "HTML tables that only lay out a page: 1"),
    ],
)
def test_mistakes_are_one_sentence(files, content, names, message):
    for name, data in content.items():
        files.write(name, data)
    with pytest.raises(GTRError, match=message) as caught:
        files.read(*names)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "kinds"),
    [
        ("a.parquet", b"PAR1 cut", 0),
        ("a.jsonl", b"\n", 0),
        ("a.jsonl", b"{}\n", 0),
        ("a.doc", b"x", 1),
        ("a.zip", zipped({"x.txt": b"x"}), 1),
        ("a.zip", zipped({"x.txt": b"x", "x.parquet": b"PAR1 cut"}), 0),
    ],
)
def test_the_kinds_are_named_where_the_kind_was_wrong(files, name, content, kinds):
    files.write(name, content)
    with pytest.raises(GTRError, match="no table could be read") as caught:
        files.read(name)
    assert str(caught.value).count(".jsonl, .csv, ") == kinds
    assert "name" in str(caught.value)


def test_no_source_and_one_as_a_text(files):
    files.write("a.csv", CSV)
    with pytest.raises(GTRError, match="at least one file or folder"):
        list(read_sources([], config=Config(), report=ReadReport()))
    assert len(list(read_sources(str(files.folder)))) == 1


def test_nothing_heavy_is_imported_before_it_is_used():
    code = (
        "import sys, gtr_gpu.tables, gtr_gpu.tables.sources as s; "
        "heavy = {'pandas', 'openpyxl', 'duckdb', 'lxml', 'python_calamine', 'zstandard', 'charset_normalizer'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["tatqa", "sqa", "wtq", "hybridqa", "tabfact"])
def test_real_sets_are_read_whole(shared_data, name):
    import zstandard

    from gtr_gpu.tables.normalize import clean_text

    path = shared_data / name / "tables.jsonl.zst"
    report = ReadReport()
    found = read_sources([path], config=Config(), report=report, limit=278)
    with zstandard.open(path, "rt", encoding="utf-8") as lines:
        for line, table in zip(lines, found, strict=False):
            raw = json.loads(line)
            assert (table.table_id, table.caption) == (raw["table_id"], clean_text(raw["caption"]))
            assert table.header == [clean_text(cell) for cell in raw["header"]]
            assert table.rows == [[clean_text(cell) for cell in row] for row in raw["rows"]]
    assert report.tables == 278
    assert (report.lines_failed, report.failed) == (0, [])
