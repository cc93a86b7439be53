"""Which first rows name the columns."""

import pytest

from gtr_gpu.tables.headers import count_title_rows, has_header, is_number, join_header_rows


@pytest.mark.parametrize(
    ("first", "body", "expected"),
    [
        (["name", "age"], [["Ann", "3"], ["Bob", "4"]], True),
        (["Ann", "3"], [["Bob", "4"], ["Eve", "5"]], False),
        (["", ""], [["a", "b"]], False),
        (["a", "b"], [], True),
        (["a", "5"], [], False),
        ([], [], False),
        (["country", "1990", "2000"], [["Peru", "21.8", "26.5"]], True),
        (["1990", "2000"], [["1991", "2001"], ["1992", "2002"]], False),
        (["date", "rate"], [["2020-01-01", "5 %"], ["2020-01-02", "$ 1,234.5"]], True),
        (["city", "country"], [["Lima", "Peru"], ["Cusco", "Peru"]], True),
        (["Lima", "Peru"], [["Cusco", "Peru"], ["Bonn", "Germany"]], False),
        (["名称", "数量"], [["图书馆", "12"]], True),
    ],
)
def test_has_header(first, body, expected):
    assert has_header(first, body) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12", True), ("-1.5e-3", True), ("(5)", True), ("1'000.50", True), ("31.12.1999", True), ("12 km", False),
     ("", False), ("-", False), ("A1", False), ("1" * 10_000 + "x", False)],
)  # fmt: skip
def test_is_number(text, expected):
    assert is_number(text) is expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["T", "", ""], ["a", "b", "c"]], 1),
        ([["T"], [""], ["S"], ["a", "b"], ["1", "2"], ["3", "4"]], 3),
        ([["a", ""], ["1", "2"]], 0),
        ([["a"], ["b"]], 0),
        ([["", "", "T"], ["a", "b", "c"]], 0),
        ([["T", "", ""]], 0),
        ([], 0),
    ],
)
def test_title_rows(rows, expected):
    assert count_title_rows(rows) == expected


def test_header_rows_are_joined_without_repeats():
    rows = [["Region", "Sales", "Sales", ""], ["Region", "2019", "Sales", ""], ["", "May", "all"]]
    assert join_header_rows(rows) == ["Region", "Sales 2019 May", "Sales all", ""]
    assert join_header_rows([]) == []
