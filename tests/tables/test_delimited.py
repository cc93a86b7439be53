"""CSV and its relatives: encodings, dialects, headers, sizes."""

# ruff: noqa: RUF001 (letters of other scripts are what is tested)

import csv
import gzip
import io
import resource
import time

import pandas as pd
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from gtr_gpu.errors import GTRError
from gtr_gpu.tables import compressed, delimited
from gtr_gpu.tables.delimited import find_dialect

PEOPLE = "name,age,city\nAnn,31,Köln\nBob,27,東京\nEve,44,القاهرة\n"
HEADER = ["name", "age", "city"]
ROWS = [["Ann", "31", "Köln"], ["Bob", "27", "東京"], ["Eve", "44", "القاهرة"]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_delimiters(files, encoding, delimiter, end):
    files.write("p.csv", PEOPLE.replace(",", delimiter).replace("\n", end), encoding)
    table = files.read_one("p.csv")
    assert (table.header, table.rows) == (HEADER, ROWS)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Straße;Größe\nMüllerstraße;5 €\nÜberlinger Straße;7 €\nFrühlingsgäßchen;19 €\n"),
        ("cp1250", "jméno;věk\nJiří Novák z Plzně;31\nŽofie Černá, Ústí nad Labem;27\n"),
        ("gb18030", "名称,数量,地址\n北京大学图书馆,12,北京市海淀区颐和园路\n上海交通大学,7,上海市闵行区东川路\n"),
        ("big5", "名稱,數量\n臺灣大學圖書館的書,12\n臺北市中正區重慶南路,7\n"),
        ("cp932", "名前,年齢,住所\n山田太郎,31,東京都千代田区のあたり\n鈴木花子,27,大阪府大阪市にあります\n"),
        ("cp949", "이름,나이\n서울특별시의 김철수,12\n부산광역시의 이영희,7\n"),
        ("cp1251", "Название;Количество\nМосковский государственный университет;12\nСанкт-Петербург;7\n"),
        ("cp1253", "Όνομα;Ηλικία\nΓιώργος από την Αθήνα;31\nΜαρία από τη Θεσσαλονίκη;27\n"),
        ("cp1256", "الاسم;العمر\nمحمد من القاهرة;31\nفاطمة من الإسكندرية;27\n"),
    ],
)
def test_old_encodings(files, encoding, text):
    files.write("p.csv", text, encoding)
    table = files.read_one("p.csv")
    assert [table.header, *table.rows] == [line.split(";" if ";" in text else ",") for line in text.splitlines()]


def test_an_encoding_that_shows_late(files):
    files.write("p.csv", "name,age\n" + "Ann,31\n" * 30_000 + "Jörg Müller aus Köln,50\n" * 3, "cp1252")
    table = files.read_one("p.csv", row_limit=40_000)
    assert table.rows[-1] == ["Jörg Müller aus Köln", "50"]


def test_a_few_damaged_bytes_do_not_change_the_encoding(files):
    files.write("p.csv", PEOPLE.encode() + "Österreich über Ägypten für Jörg,1,é\n".encode() * 9 + b"\xff,5,x\n")
    table = files.read_one("p.csv")
    assert table.rows[:3] == ROWS
    assert table.rows[-1] == ["\ufffd", "5", "x"]


@pytest.mark.parametrize(("name", "pack"), [("p.csv.gz", gzip.compress), ("p.tsv.zst", zstandard.compress)])
def test_compressed(files, name, pack):
    files.write(name, pack(PEOPLE.replace(",", "\t").encode()))
    table = files.read_one(name)
    assert (table.table_id, table.caption, table.header, table.rows) == (name, "p", HEADER, ROWS)


@pytest.mark.parametrize(
    ("text", "header", "rows"),
    [
        ("a,a,\n1,2,3\n", ["a", "a", ""], [["1", "2", "3"]]),  # duplicate and empty names
        ("a,b\n1\n1,2,3\n", ["a", "b", ""], [["1", "", ""], ["1", "2", "3"]]),  # ragged
        ('a,b\n"x\ny","he said ""no"""\n', ["a", "b"], [["x\ny", 'he said "no"']]),
        ('a, "b, c"\n1, "2, 3"\n', ["a", "b, c"], [["1", "2, 3"]]),
        ("1,2\n3,4\n", ["", ""], [["1", "2"], ["3", "4"]]),  # numbers only
        ("id,1,x\n1,2,y\n", ["id", "1", "x"], [["1", "2", "y"]]),
        ("1,Ann\n2,Bob\n3,Eve\n", ["", ""], [["1", "Ann"], ["2", "Bob"], ["3", "Eve"]]),
        ("country,1990,2000\nPeru,21.8,26.5\n", ["country", "1990", "2000"], [["Peru", "21.8", "26.5"]]),
        ("red,big\nblue,big\nred,small\n", ["", ""], [["red", "big"], ["blue", "big"], ["red", "small"]]),
        ("name,city\n", ["name", "city"], []),  # no rows
        ("just text\nmore text\n", ["just text"], [["more text"]]),
        (",x\na,1\nb,2\n", ["", "x"], [["a", "1"], ["b", "2"]]),
        ("x,y\na,1,2\nb,3,4\n", ["", "x", "y"], [["a", "1", "2"], ["b", "3", "4"]]),  # as R writes row names
        ("sep=|\na|b,c\n1|2,5\n", ["a", "b,c"], [["1", "2,5"]]),
        ("preis;menge\n1,5;2\n2,25;3\n", ["preis", "menge"], [["1,5", "2"], ["2,25", "3"]]),
        ('a\tb\n5" disk\t1\n"3 inch\t2\n', ["a", "b"], [['5" disk', "1"], ['"3 inch', "2"]]),
        ("\n\na,b\n\n1,x\n   \n", ["a", "b"], [["1", "x"]]),
        ('a\n""\n1\n', ["a"], [[""], ["1"]]),
        ("a,b\n,\n1,2\n", ["a", "b"], [["", ""], ["1", "2"]]),
        ("a\u200b,b\n\x001,2\n", ["a", "b"], [["1", "2"]]),
    ],
)
def test_awkward_tables(files, text, header, rows):
    files.write("t.csv", text)
    table = files.read_one("t.csv")
    assert (table.header, table.rows, table.n_rows) == (header, rows, len(rows))


def test_the_extension_speaks_for_a_delimiter(files):
    text = "person\tplace, country, part\nAnn\tLima, Peru, coast\nBob\tBonn, Germany, Rhine\n"
    files.write("t.tsv", text)
    assert files.read_one("t.tsv").header == ["person", "place, country, part"]
    files.write("u.tsv", PEOPLE)
    assert files.read_one("u.tsv").header == HEADER


def test_title_lines_become_the_caption(files):
    files.write("t.csv", "Population of Peru\nin millions,,\n\nyear,men,women\n1990,10,11\n2000,13,13\n")
    table = files.read_one("t.csv")
    assert table.caption == "Population of Peru - in millions"
    assert (table.header, len(table.rows)) == (["year", "men", "women"], 2)


CELL = st.text(st.sampled_from("abcde 12.\n\"',;|é中"), max_size=6)


@settings(deadline=None)
@given(st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=3, max_size=8)))
def test_what_the_csv_module_writes_is_read_the_same(tmp_path_factory, rows):
    # A word in each cell makes each candidate for the delimiter but the true one ragged or absent.
    rows = [[f"w{cell.strip()}w" for cell in row] for row in rows]
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([[f"name{i}" for i in range(len(rows[0]))], *rows])
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    from gtr_gpu.config import Config
    from gtr_gpu.tables import ReadReport, read_sources

    (table,) = read_sources([path], config=Config(), report=ReadReport())
    expected = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert table.header == list(expected.columns)
    assert table.rows == expected.to_numpy().tolist()


def test_a_sample_that_ends_inside_a_line():
    assert find_dialect("a;b\n1,0;2,0\n3,0;4,", complete=False).delimiter == ";"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b" \n\n ", "empty"),
        (bytes(range(256)) * 100, "binary"),
        (b"PK\x03\x04" + bytes(range(256)) * 10, r"binary file \(zip\)"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10, "png"),
    ],
)
def test_what_is_not_text(files, content, reason):
    files.write("t.csv", content)
    with pytest.raises(GTRError, match=rf"t\.csv: it is .*{reason}"):
        files.read()


def test_a_very_long_cell(files):
    files.write("t.csv", f"a,b\n{'x' * 10_000},{'y' * 1_000_000}\n")
    assert [len(cell) for cell in files.read_one("t.csv").rows[0]] == [10_000, 1_000_000]


@pytest.mark.parametrize("text", ["x" * (40 << 20), '"a","x\ny",' * (1 << 18)], ids=["a line", "a row of many lines"])
@pytest.mark.parametrize(("name", "pack"), [("t.csv.gz", gzip.compress), ("t.csv.zst", zstandard.compress)])
def test_an_endless_row_is_not_read_whole(files, monkeypatch, text, name, pack):
    monkeypatch.setattr(delimited, "MAX_ROW", 1 << 20)
    longest = 0
    whole_lines = delimited._whole_lines

    def watched(*parts):
        nonlocal longest
        for line in whole_lines(*parts):
            longest = max(longest, len(line))
            yield line

    monkeypatch.setattr(delimited, "_whole_lines", watched)
    files.write(name, pack(b"a,b\n" + text.encode()))
    with pytest.raises(GTRError, match="a row is longer than 1,048,576 characters"):
        files.read()
    assert longest < 2 << 20


def test_a_row_that_the_sample_cuts_is_whole(files):
    rows = [["a", "b"], *(["x" * 700, f'"{i}\n"'] for i in range(200))]
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    files.write("t.csv", text.getvalue())
    assert [row[0] for row in files.read_one("t.csv").rows] == ["x" * 700] * 200


def test_a_zstandard_window_that_takes_too_much_memory(files):
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    files.write("t.csv.zst", stream.compress(PEOPLE.encode()) + stream.flush())
    with pytest.raises(GTRError, match=r"window of more than 128 MB; compress it with"):
        files.read()


def test_very_many_columns(files):
    names = [f"c{i}" for i in range(6831)]
    files.write("t.csv", "\n".join(",".join(row) for row in [names, *[[str(i)] * 6831 for i in range(20)]]))
    table = files.read_one("t.csv")
    assert table.header == names
    assert (len(table.rows), table.n_rows) == (14, 20)
    assert files.report.tables_cut == 1


@pytest.mark.slow
def test_a_million_rows(files):
    with (files.folder / "t.csv").open("w") as file:
        file.write("number,square\n")
        file.writelines(f"{i},{i * i}\n" for i in range(1_000_000))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    table = files.read_one("t.csv")
    assert time.perf_counter() - start < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
    assert (len(table.rows), table.n_rows, table.rows[-1]) == (1000, 1_000_000, ["999", "998001"])
    assert (files.report.rows, files.report.rows_kept, files.report.tables_cut) == (1_000_000, 1000, 1)


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("zst", zstandard.compress)])
def test_a_file_that_unpacks_to_very_much(files, suffix, pack):
    line = b"1,2\n"
    packed = pack(line * (17 << 20)) if suffix == "zst" else pack(line * (1 << 20)) * 17
    files.write(f"fine.csv.{suffix}", pack(b"a,b\n" + line * (1 << 20)))
    files.write(f"bomb.csv.{suffix}", packed)
    (table,) = files.read()
    assert table.n_rows == 1 << 20
    ((place, reason),) = files.report.failed
    assert place.endswith(f"bomb.csv.{suffix}")
    assert reason == (
        f"it unpacks to more than 67 MB, the most that is read from {len(packed) / 1e6:.3f} MB; "
        "decompress it yourself if you trust it"
    )


def test_the_limit_of_a_compressed_file_goes_by_its_size(files, monkeypatch):
    monkeypatch.setattr(compressed, "HARMLESS", 1000)
    monkeypatch.setattr(compressed, "MAX_RATIO", 3)
    path = files.write("a.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 2000))
    assert "more than 0 MB" in files_reason(files)
    monkeypatch.setattr(compressed, "MAX_RATIO", -(-8004 // path.stat().st_size))
    assert files.read_one("a.csv.gz").n_rows == 2000
    monkeypatch.setattr(compressed, "MAX_STREAMED", 8003)
    assert "decompress it yourself" in files_reason(files)


def files_reason(files) -> str:
    """Why nothing in the folder could be read."""
    with pytest.raises(GTRError) as caught:
        files.read()
    return str(caught.value)
