"""Web pages: spans, headers, captions, layout, and hostile markup. pandas is the oracle of spans."""

import io
import time

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError
from gtr_gpu.tables import ReadReport, read_sources


def page(body: str, head: str = "<title>The page</title>") -> str:
    return f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>"


DATA = "<tr><th>a</th><th>b</th></tr><tr><td>1</td><td>x</td></tr>"


def test_captions_and_ids(files):
    tables = (
        f"<table>{DATA}</table><h2>A <i>section</i></h2><p>text</p><table>{DATA}</table>"
        f"<table><caption>Its own<br>caption</caption>{DATA}</table>"
    )
    files.write("my_page.html", page(tables))
    found = files.read("my_page.html")
    assert [table.table_id for table in found] == ["my_page.html#1", "my_page.html#2", "my_page.html#3"]
    assert [table.caption for table in found] == ["The page", "A section", "Its own\ncaption"]
    files.write("my_page.html", page(f"<table>{DATA}</table>", head=""))
    assert files.read_one("my_page.html").caption == "my page"


def test_header_rows_are_joined(files):
    head = (
        "<thead><tr><th rowspan=2>Region</th><th colspan=2>Sales</th></tr><tr><th>2019</th><th>2020</th></tr></thead>"
    )
    files.write("p.html", page(f"<table>{head}<tbody><tr><th>North</th><td>1</td><td>2</td></tr></tbody></table>"))
    table = files.read_one("p.html")
    assert (table.header, table.rows) == (["Region", "Sales 2019", "Sales 2020"], [["North", "1", "2"]])
    files.write("p.html", page(f"<table>{head.replace('thead', 'tbody')}<tr><td>S<td>3<td>4</table>"))
    table = files.read_one("p.html")
    assert (table.header, table.rows) == (["Region", "Sales 2019", "Sales 2020"], [["S", "3", "4"]])


def test_a_header_without_marks_and_none_at_all(files):
    plain = "<table><tr><td>name<td>age<tr><td>Ann<td>31<tr><td>Bob<td>27</table>"
    numbers = "<table><tr><td>1<td>2<tr><td>3<td>4</table>"
    files.write("p.html", page(plain + numbers))
    first, second = files.read("p.html")
    assert (first.header, len(first.rows)) == (["name", "age"], 2)
    assert (second.header, second.rows) == (["", ""], [["1", "2"], ["3", "4"]])


def test_nested_and_layout_tables(files):
    inner = f"<table>{DATA}</table>"
    files.write("p.html", page(f"<table><tr><td>menu {inner}</td><td></td></tr></table><table></table>"))
    table = files.read_one("p.html")
    assert table.table_id == "p.html#2"
    assert files.report.layout_tables == 2
    files.write("p.html", page(f"<table><tr><th>x<th>y<tr><td>left {inner} right<td>z</table>"))
    outer, _ = files.read("p.html")
    assert outer.rows == [["left right", "z"]]


def test_text_of_cells(files):
    cell = "<p>one</p><p>two &amp; \n three</p><script>no()</script><style>no</style><!-- no -->a<b>b</b><br/>c&nbsp;d"
    files.write("p.html", page(f"<table><tr><th>h</th><th>&lt;k&gt;</th></tr><tr><td>{cell}</td><td>x</td></table>"))
    table = files.read_one("p.html")
    assert table.header == ["h", "<k>"]
    assert table.rows == [["one\ntwo & three\nab\nc d", "x"]]


@pytest.mark.parametrize(
    ("encoding", "head"),
    [("utf-8", ""), ("utf-16", ""), ("cp1251", '<meta charset="windows-1251">'), ("gb18030", "<meta charset=gb18030>")],
)
def test_encodings(files, encoding, head):
    text = "<table><tr><th>имя<th>город<tr><td>Анна<td>Москва</table>"
    files.write("p.html", page(text, head), encoding)
    table = files.read_one("p.html")
    assert (table.header, table.rows) == (["имя", "город"], [["Анна", "Москва"]])


def test_an_external_entity_is_not_read(files):
    secret = files.write("secret.txt", "secret")
    doctype = f'<?xml version="1.0" encoding="latin-1"?><!DOCTYPE html [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'
    files.write("p.xhtml", f"{doctype}<html><body><table>{DATA}<tr><td>&x;</td><td>é</td></tr></table></body></html>")
    table = files.read_one("p.xhtml")
    assert "secret" not in str(table)
    assert table.rows[-1][1] == "é"


def test_enormous_spans_are_bounded(files):
    row = "<tr>" + '<td colspan="100000000" rowspan="100000000">x</td>' * 50 + "</tr>"
    files.write("p.html", page(f"<table>{row * 3}<tr><td rowspan=-5 colspan='x'>y</td></tr></table>"))
    start = time.perf_counter()
    table = files.read_one("p.html")
    assert time.perf_counter() - start < 5
    assert len(table.header) < 25_000 * 4
    assert table.n_rows >= 3


def test_deep_nesting_does_not_end_the_process(files):
    files.write("p.html", page("<div>" * 50_000 + f"<table>{DATA}</table>" + "<b>" * 50_000))
    try:
        files.read("p.html")
    except GTRError as error:
        assert "p.html" in str(error)


def test_a_page_without_tables_is_no_failure_beside_others(files):
    files.write("p.html", page("text"))
    with pytest.raises(GTRError, match="no table"):
        files.read()
    files.write("q.html", page(f"<table>{DATA}</table>"))
    assert len(files.read()) == 1
    assert files.report.failed == []


def test_a_cell_that_hangs_beside_short_rows_stays_in_its_column(files):
    rows = "<tr><td>1<td>2<td rowspan=3>hangs<tr><td>3<tr><td>4<td>5<tr><td>6"
    files.write("p.html", page(f"<table><thead><tr><th>a<th>b<th>c</thead>{rows}</table>"))
    table = files.read_one("p.html")
    assert table.rows == [["1", "2", "hangs"], ["3", "", "hangs"], ["4", "5", "hangs"], ["6", "", ""]]


SPAN = st.integers(1, 3)
# Wide cells in the first row only: where one meets a cell that hangs down, browsers lay them over each other.
SPANS = st.tuples(
    st.lists(st.tuples(SPAN, SPAN), min_size=1, max_size=3),
    st.lists(st.lists(st.tuples(SPAN, st.just(1)), min_size=1, max_size=3), min_size=1, max_size=3),
).map(lambda parts: [parts[0], *parts[1]])


def test_a_wide_cell_ends_where_another_hangs_down(files):
    rows = "<tr><td>1<td>2<td rowspan=2>hangs<tr><td colspan=3>wide<td>3"
    files.write("p.html", page(f"<table><thead><tr><th>a<th>b<th>c</thead>{rows}</table>"))
    assert files.read_one("p.html").rows == [["1", "2", "hangs", ""], ["wide", "wide", "hangs", "3"]]


@settings(deadline=None)
@given(SPANS)
def test_spans_as_pandas_spreads_them(tmp_path_factory, rows):
    numbers = iter(range(1000))
    # Each row ends in many plain cells: where a cell hangs down beside a short row, pandas moves it to the left.
    body = "".join(
        "<tr>"
        + "".join(f"<td rowspan={r} colspan={c}>n{next(numbers)}</td>" for r, c in row)
        + "".join(f"<td>p{next(numbers)}</td>" for _ in range(40))
        + "</tr>"
        for row in rows
    )
    # A row of <th> before them, which spans nothing, keeps the choice of a header out of the comparison.
    text = page(f"<table><thead><tr><th>h</th><th>k</th></tr></thead><tbody>{body}</tbody></table>")
    path = tmp_path_factory.mktemp("html") / "p.html"
    path.write_text(text)
    (table,) = read_sources([path], config=Config(), report=ReadReport())
    (frame,) = pd.read_html(io.StringIO(text), flavor="lxml", header=0, keep_default_na=False)
    expected = [["" if cell != cell else cell for cell in row] for row in frame.astype(object).to_numpy().tolist()]
    width = max(len(table.header), len(frame.columns))
    # pandas appends rows for cells that hang below the last row of the page; those do not exist in it.
    expected = [[*row, *[""] * (width - len(row))] for row in expected[: len(rows)]]
    assert [[*row, *[""] * (width - len(row))] for row in table.rows] == expected
