"""Normalising: rectangular tables of clean text within the row limit."""

# ruff: noqa: RUF001 (letters of other scripts are what is tested)

import datetime
import decimal
import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtr_gpu.config import Config
from gtr_gpu.tables.normalize import Limits, clean_text, make_table

LIMITS = Limits(1000, 100_000)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (math.nan, ""),
        (pd.NaT, ""),
        (decimal.Decimal("NaN"), ""),
        (1.0, "1"),
        (-0.0, "0"),
        (2019.0, "2019"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (math.inf, "inf"),
        (True, "true"),
        (10**30, str(10**30)),
        (decimal.Decimal("1.50"), "1.50"),
        (decimal.Decimal("1E+3"), "1000"),
        (datetime.datetime(2020, 1, 2), "2020-01-02"),
        (datetime.datetime(2020, 1, 2, 3, 4), "2020-01-02 03:04:00"),
        (datetime.date(2020, 1, 2), "2020-01-02"),
        (datetime.time(3, 4), "03:04:00"),
        (b"text", "text"),
        (b"\xff\x00", "(2 bytes)"),
        ([1, None, 1.5, "é", math.nan], '[1,null,1.5,"é",""]'),
        ({"a": {"b": [datetime.date(2020, 1, 2)]}}, '{"a":{"b":["2020-01-02"]}}'),
        ("  a\tb  ", "a b"),
        ("a\r\nb\rc\x0bd\u2028e", "a\nb\nc\nd\ne"),
        ("a\x00b\x1bc\x9fd", "abcd"),
        ("\ufeffx\u200by\u2060z\u00adw\u202e", "xyzw"),
        ("1\xa0000\u2009km", "1 000 km"),
        ("a\u200db", "ab"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # a Persian word: the joiner keeps its letters apart
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("x\ud800y", "x\ufffdy"),
        ("\ud83d\ude00", "😀"),
        ("中文 عربي", "中文 عربي"),
    ],
)
def test_text_of_a_value(value, text):
    assert clean_text(value) == text


@given(st.text(st.characters()))
@settings(deadline=None)
def test_clean_text_is_stable_and_storable(text):
    cleaned = clean_text(text)
    assert clean_text(cleaned) == cleaned
    cleaned.encode("utf-8")
    assert not any(ord(c) < 32 and c != "\n" for c in cleaned)


@given(st.text(st.sampled_from("ab 1é中.,-\n")).map(str.strip))
def test_plain_text_is_kept(text):
    assert clean_text(text) == text


@given(
    header=st.lists(st.text(max_size=3), max_size=4),
    rows=st.lists(st.lists(st.text(max_size=3), max_size=6), max_size=9),
    row_limit=st.integers(1, 5),
    cell_limit=st.integers(1, 30),
)
@settings(deadline=None)
def test_tables_are_rectangular_and_nothing_is_lost(header, rows, row_limit, cell_limit):
    table = make_table("t", header, iter(rows), Limits(row_limit, cell_limit))
    width = len(table.header)
    assert table.n_rows == len(rows)
    assert all(len(row) == width for row in table.rows)
    assert len(table.rows) <= row_limit
    assert len(table.rows) <= 1 or len(table.rows) * width <= cell_limit
    assert table.header[: len(header)] == [clean_text(name) for name in header]
    for kept, row in zip(table.rows, rows, strict=False):
        assert kept == [clean_text(cell) for cell in row] + [""] * (width - len(row))
    if row_limit >= len(rows) and cell_limit == 30 and len(rows) * width <= 30:
        assert len(table.rows) == len(rows)


@pytest.mark.parametrize(("width", "kept"), [(1, 5), (2, 5), (3, 3), (10, 1), (6831, 1), (0, 5)])
def test_row_limit(width, kept):
    limits = Limits.from_config(Config(row_limit=5, cell_limit=10))
    table = make_table("t", ["n"] * width, [["x"] * width] * 7, limits)
    assert (len(table.rows), table.n_rows) == (kept, 7)


def test_a_row_that_is_too_wide_does_not_widen_the_table():
    table = make_table("t", ["a"], [["1"], ["1", "2", "3", "4"]], Limits(10, 4))
    assert (table.header, table.rows, table.n_rows) == (["a"], [["1"]], 2)


def test_long_cells_are_kept_whole():
    assert make_table("t", ["a"], [["x" * 10_000]], LIMITS).rows == [["x" * 10_000]]
