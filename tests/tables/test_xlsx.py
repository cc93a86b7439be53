"""Workbooks: sheets, merged cells, what has to be cut, what cannot be read."""

import datetime
import zipfile

import openpyxl
import pandas as pd
import pytest
from msoffcrypto.format.ooxml import OOXMLFile

from gtr_gpu.errors import GTRError


def save(files, name, sheets, merged=(), encrypt=False):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, cells in sheets.items():
        sheet = book.create_sheet(title)
        for place, value in cells.items():
            sheet[place] = value
        for cells_ in merged:
            sheet.merge_cells(cells_)
    path = files.folder / name
    book.save(path)
    return path


def grid(*rows, start="A1"):
    column, row = ord(start[0]), int(start[1:])
    return {f"{chr(column + j)}{row + i}": v for i, line in enumerate(rows) for j, v in enumerate(line) if v != ""}


def test_each_sheet_with_its_name(files):
    sheets = {
        "Sheet1": grid(("name", "age"), ("Ann", 31)),
        "net_sales": grid(("item", "sold"), ("bread", 2.5)),
        "Empty": {},
    }
    save(files, "my_book.xlsx", sheets)
    first, second = files.read("my_book.xlsx")
    assert (first.table_id, first.caption) == ("my_book.xlsx#Sheet1", "my book")
    assert (first.header, first.rows) == (["name", "age"], [["Ann", "31"]])
    assert (second.table_id, second.caption) == ("my_book.xlsx#net_sales", "my book - net sales")
    assert second.rows == [["bread", "2.5"]]
    assert files.report.failed == []


def test_title_merged_header_and_unused_edges(files):
    cells = grid(
        ("Sales by region", "", ""),
        ("Region", "Sales", ""),
        ("", 2019, 2020),
        ("North", 1.0, 2.25),
        ("South", 3, ""),
        ("", 5, 6),
        start="C3",
    )
    save(files, "b.xlsx", {"Data": cells}, merged=["C3:E3", "C4:C5", "D4:E4", "C7:C8"])
    table = files.read_one("b.xlsx")
    assert table.caption == "Sales by region - Data"
    assert table.header == ["Region", "Sales 2019", "Sales 2020"]
    assert table.rows == [["North", "1", "2.25"], ["South", "3", ""], ["South", "5", "6"]]
    assert table.n_rows == 3


def test_a_merged_name_without_names_below(files):
    save(files, "b.xlsx", {"D": grid(("who", "", "age"), ("Ann", "Lee", 31), ("Bob", "Ray", 27))}, merged=["A1:B1"])
    table = files.read_one("b.xlsx")
    assert table.rows[-1] == ["Bob", "Ray", "27"]
    assert table.header[-1] == "age"


def test_values(files):
    row = (True, datetime.datetime(2020, 5, 1), datetime.datetime(2020, 5, 1, 12, 30), "a\r\nb", "中文", 12345678901)
    save(files, "b.xlsx", {"D": grid(("a", "b", "c", "d", "e", "f"), row)})
    assert files.read_one("b.xlsx").rows == [
        ["true", "2020-05-01", "2020-05-01 12:30:00", "a\nb", "中文", "12345678901"]
    ]


def test_numbers_only_and_duplicate_names(files):
    save(files, "b.xlsx", {"D": grid((1, 2), (3, 4)), "E": grid(("x", "x"), (1, 2))})
    numbers, names = files.read("b.xlsx")
    assert (numbers.header, numbers.rows) == (["", ""], [["1", "2"], ["3", "4"]])
    assert (names.header, names.rows) == (["x", "x"], [["1", "2"]])


def test_chart_sheets_are_passed_over(files):
    book = openpyxl.Workbook()
    book.active["A1"] = "a"
    book.create_chartsheet("Chart")
    book.save(files.folder / "b.xlsx")
    assert [table.table_id for table in files.read("b.xlsx")] == ["b.xlsx#Sheet"]


def test_formatted_empty_cells_far_away_take_no_place(files):
    path = save(files, "b.xlsx", {"D": grid(("a", "b"), (1, 2))})
    book = openpyxl.load_workbook(path)
    book.active["XFD1048576"].font = openpyxl.styles.Font(bold=True)
    book.save(path)
    table = files.read_one("b.xlsx")
    assert (table.header, table.rows, table.n_rows) == (["a", "b"], [["1", "2"]], 1)


def test_many_rows_are_counted(files):
    frame = pd.DataFrame({"n": range(5000), "text": [f"t{i}" for i in range(5000)]})
    frame.to_excel(files.folder / "b.xlsx", index=False, engine="openpyxl")
    table = files.read_one("b.xlsx", row_limit=7)
    assert (len(table.rows), table.n_rows, table.rows[6]) == (7, 5000, ["6", "t6"])


def encrypted(path):
    with path.open("rb") as file:
        plain = path.with_name("enc")
        with plain.open("wb") as out:
            OOXMLFile(file).encrypt("secret", out)
    plain.replace(path)


def truncated(path):
    path.write_bytes(path.read_bytes()[:2000])


def bomb(path):
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/huge.xml", b" " * (80 << 20))


def sparse(path):
    book = openpyxl.load_workbook(path)
    book.active["XFD1048576"] = "stray"
    book.save(path)


def damaged_sheet(path):
    replace(path, "xl/worksheets/sheet1.xml", b"<worksheet><sheetData><row><c></row>")


def replace(path, name, content):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | {name: content}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


# Cells so far apart that a grid of them would end the process, said in ways that the workbooks' reader understands.
FAR = {
    "a tab": b'<c\tr="ZZ300000"><v>1</v></c>',
    "small letters": b'<c r="zz300000"><v>1</v></c>',
    "spaces": b'<c r = "ZZ300000" ><v>1</v></c>',
    "single quotes": b"<c r='ZZ300000'><v>1</v></c>",
    "no space between": b'<c s="1"r="ZZ300000"><v>1</v></c>',
    "zeros before": b'<c r="ZZ0000000300000"><v>1</v></c>',
    "a sign in quotes": b"""<c x='>' y=' r="A1"' r="ZZ300000"><v>1</v></c>""",
    "a prefix": b'<x:c r="ZZ300000"><v>1</v></x:c>',
    "a long tag": b"<c" + b" " * 70_000 + b'r="ZZ300000"><v>1</v></c>',
    "no places": b"<c/>" * 700 + b"<c><v>1</v></c>",
    "more rows than sheets have": b'<c r="Z9300000"><v>1</v></c>',
}


@pytest.mark.parametrize("padding", [0, (1 << 20) - 120, (1 << 20) - 100])
@pytest.mark.parametrize("cell", FAR)
def test_cells_far_apart_are_found_however_they_are_written(files, cell, padding):
    path = save(files, "b.xlsx", {"D": grid(("a", "b"), (1, 2))})
    first = b'<worksheet><sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
    sheet = first + b" " * padding + b'<row r="300000">' + FAR[cell] + b"</row></sheetData></worksheet>"
    replace(path, "xl/worksheets/sheet1.xml", sheet)
    with pytest.raises(GTRError, match=r"sheet1\.xml in it spans [39][\d,]+ rows.*delete stray cells"):
        files.read("b.xlsx")


def test_a_sheet_of_another_name_is_looked_at(files):
    path = save(files, "b.xlsx", {"D": grid(("a", "b"), (1, 2))})
    with zipfile.ZipFile(path) as archive:
        relations = archive.read("xl/_rels/workbook.xml.rels")
    replace(path, "xl/_rels/workbook.xml.rels", relations.replace(b"sheet1.xml", b"sheet1.dat"))
    far = b'<worksheet><sheetData><row r="1"><c r="A1"><v>1</v></c></row>' + FAR["a tab"] + b"</sheetData></worksheet>"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("xl/worksheets/sheet1.dat", far)
    with pytest.raises(GTRError, match=r"sheet1\.dat in it spans"):
        files.read("b.xlsx")


def test_wide_and_long_sheets_that_fit_are_read(files):
    path = save(files, "b.xlsx", {"D": grid(("a", "b"), (1, 2))})
    rows = b"".join(
        b'<row r="%d"><c r = "ZZ%d"><v>%d</v></c><c><v>7</v></c></row>' % (i, i, i) for i in range(3, 60_000)
    )
    replace(path, "xl/worksheets/sheet1.xml", b"<worksheet><sheetData>" + rows + b"</sheetData></worksheet>")
    table = files.read_one("b.xlsx", row_limit=2)
    assert (table.rows, table.n_rows) == ([["3", "7"], ["4", "7"]], 59_997)


def test_a_panic_of_the_library_is_the_files_failure(files, monkeypatch):
    import python_calamine

    class PanicException(BaseException):
        pass

    class Panicking:
        @staticmethod
        def from_path(path):
            raise PanicException("index out of bounds")

    monkeypatch.setattr(python_calamine, "CalamineWorkbook", Panicking)
    save(files, "b.xlsx", {"D": grid(("a", "b"), (1, 2))})
    with pytest.raises(GTRError, match="not a workbook \\(index out of bounds"):
        files.read("b.xlsx")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (encrypted, "encrypted; save it without a password"),
        (truncated, "truncated"),
        (sparse, r"sheet1\.xml in it spans 1,048,576 rows and 16,384 columns.*delete stray cells"),
        (bomb, "would unpack to 84 MB"),
        (damaged_sheet, "sheet is damaged"),
        (lambda path: path.write_text("<html><table></table></html>"), "not a workbook"),
        (lambda path: path.write_bytes(b""), "empty"),
    ],
)
def test_what_cannot_be_read_has_a_reason(files, spoil, reason):
    spoil(save(files, "b.xlsx", {"D": grid(("a", "b"), (1, 2))}))
    with pytest.raises(GTRError, match=reason) as caught:
        files.read("b.xlsx")
    assert "b.xlsx" in str(caught.value)
    assert "\n" not in str(caught.value)
