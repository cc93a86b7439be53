"""SQLite and DuckDB: tables, views, odd names, broken views, and nothing outside the file."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import duckdb
import pytest

from gtr_gpu.errors import GTRError
from gtr_gpu.tables import database


def sqlite(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def duck(path, *statements):
    with closing(duckdb.connect(str(path))) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


MAKERS = {"data.sqlite": sqlite, "data.duckdb": duck, "other.db": sqlite, "duck.db": duck}


@pytest.mark.parametrize("name", MAKERS)
def test_tables_and_views(files, name):
    MAKERS[name](
        files.folder / name,
        'CREATE TABLE "odd ""na-me"";" ("a b" INTEGER, "select" VARCHAR)',
        """INSERT INTO "odd ""na-me"";" VALUES (1, 'x'), (NULL, '中')""",
        "CREATE TABLE empty_one (a DOUBLE)",
        'CREATE VIEW my_view AS SELECT "a b" + 0.5 AS half FROM "odd ""na-me"";"',
    )
    empty, view, odd = files.read(name)
    stem = name.split(".")[0]
    assert (empty.table_id, empty.header, empty.rows, empty.n_rows) == (f"{name}#empty_one", ["a"], [], 0)
    assert (view.table_id, view.caption, view.rows) == (f"{name}#my_view", f"{stem} - my view", [["1.5"], [""]])
    assert (odd.header, odd.rows) == (["a b", "select"], [["1", "x"], ["", "中"]])


@pytest.mark.parametrize("name", MAKERS)
def test_rows_are_limited_and_counted(files, name):
    values = ", ".join(f"({i})" for i in range(500))
    MAKERS[name](files.folder / name, "CREATE TABLE t (a INTEGER)", f"INSERT INTO t VALUES {values}")
    table = files.read_one(name, row_limit=3)
    assert (table.rows, table.n_rows) == ([["0"], ["1"], ["2"]], 500)


@pytest.mark.parametrize("name", MAKERS)
def test_a_broken_view_is_named_and_the_rest_goes_on(files, name):
    path = files.folder / name
    MAKERS[name](path, "CREATE TABLE t (a INTEGER)", "CREATE TABLE u (a INTEGER)", "CREATE VIEW v AS SELECT a FROM u")
    MAKERS[name](path, "DROP TABLE u")
    assert [table.table_id for table in files.read(name)] == [f"{name}#t"]
    ((place, reason),) = files.report.failed
    assert place == f"{path}#v"
    assert "view is broken" in reason
    with pytest.raises(GTRError, match="#v can't be read"):
        files.read(name, strict=True)


@pytest.mark.parametrize("name", ["data.sqlite", "data.duckdb"])
def test_the_file_is_not_written_to(files, name):
    path = MAKERS[name](files.folder / name, "CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)")
    before = path.read_bytes(), path.stat().st_mtime_ns
    path.chmod(0o444)
    files.read(name)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [file.name for file in files.folder.iterdir()] == [name]


def test_a_view_cannot_read_other_files(files):
    secret = files.write("secret.txt", "word\nsecret\n")
    duck(
        files.folder / "data.duckdb",
        "CREATE TABLE t (a INTEGER)",
        f"CREATE VIEW v AS SELECT * FROM read_csv('{secret}')",
    )
    assert "secret" not in str(files.read("data.duckdb")[0].rows)
    ((place, _),) = files.report.failed
    assert place.endswith("#v")


@pytest.mark.parametrize("name", ["data.db", "data.duckdb"])
def test_a_view_that_never_ends(files, monkeypatch, name):
    assert database.VIEW_SECONDS <= 20
    monkeypatch.setattr(database, "VIEW_SECONDS", 0.2)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    MAKERS.get(name, sqlite)(files.folder / name, "CREATE TABLE t (a INTEGER)", f"CREATE VIEW v AS {endless}")
    assert len(files.read(name)) == 1
    assert files.report.failed == [
        (f"{files.folder}/{name}#v", "the view took longer than 0.2 s; store its rows as a table, or remove it")
    ]


WRITER = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
connection.execute("CREATE TABLE t (a, b)")
connection.executemany("INSERT INTO t VALUES (?, ?)", ((i, "x" * 900) for i in range(50)))
connection.execute("PRAGMA cache_size = 2")
connection.execute("BEGIN")
connection.execute("UPDATE t SET b = 'dirty'")
connection.execute("INSERT INTO t SELECT a + 1000, hex(zeroblob(500)) FROM t")
print("ready", flush=True)
sys.stdin.read()
os._exit(9)
"""


@pytest.fixture(params=["DELETE", "PERSIST", "MEMORY"])
def writer(files, request):
    """A process in the middle of a transaction that has reached the file."""
    command = [sys.executable, "-c", WRITER, str(files.folder / "data.db"), request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process


def test_a_running_transaction_is_not_read(files, writer, monkeypatch):
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.1)
    sqlite(files.folder / "other.db", "CREATE TABLE t (a)")
    assert [table.table_id for table in files.read()] == ["other.db#t"]
    assert files.report.failed == [(f"{files.folder}/data.db", "it is locked by another program; close that one first")]


# Without a journal, in memory, there would be nothing to tell.
@pytest.mark.parametrize("writer", ["DELETE", "PERSIST"], indirect=True)
def test_an_interrupted_transaction_is_not_read(files, writer):
    writer.communicate(b"")
    path = files.folder / "data.db"
    before = path.read_bytes()
    with pytest.raises(GTRError, match="left by an interrupted transaction; open it once with its own program"):
        files.read()
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM t").fetchall()
    table = files.read_one("data.db")
    assert (table.n_rows, {row[1] for row in table.rows}) == (50, {"x" * 900})


def test_a_closed_database_with_a_log_leaves_no_files(files):
    path = files.folder / "data.db"
    sqlite(path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)", "INSERT INTO t VALUES (7)")
    assert files.read_one("data.db").rows == [["7"]]
    assert [file.name for file in files.folder.iterdir()] == ["data.db"]


def test_a_write_ahead_log_is_read(files):
    path = files.folder / "data.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (a)")
        connection.execute("INSERT INTO t VALUES (7)")
        connection.commit()
        assert files.read_one("data.db").rows == [["7"]]


def test_text_that_is_not_utf8_and_blobs(files):
    sqlite(files.folder / "d.db", "CREATE TABLE t (a, b)", "INSERT INTO t VALUES (CAST(x'41FF' AS TEXT), x'00FF')")
    assert files.read_one("d.db").rows == [["A\ufffd", "(2 bytes)"]]


def test_schemas_and_comments_of_duckdb(files):
    duck(
        files.folder / "d.duckdb",
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (a HUGEINT, l INTEGER[], d DATE)",
        "INSERT INTO s.t VALUES (170141183460469231731687303715884105727, [1, 2], '2020-01-02')",
        "COMMENT ON TABLE s.t IS 'About t'",
    )
    table = files.read_one("d.duckdb")
    assert (table.table_id, table.description) == ("d.duckdb#s.t", "About t")
    assert table.rows == [["170141183460469231731687303715884105727", "[1,2]", "2020-01-02"]]


@pytest.mark.parametrize(
    ("make", "cut", "reason"),
    [
        (sqlite, lambda data: data[:1500], "damaged|broken"),
        (duck, lambda data: data[:5000], "damaged"),
        (sqlite, lambda data: b"hello" * 100, "neither SQLite nor DuckDB"),
    ],
)
def test_damaged_files(files, make, cut, reason):
    path = make(files.folder / "d.db", "CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)")
    path.write_bytes(cut(path.read_bytes()))
    with pytest.raises(GTRError, match=reason) as caught:
        files.read()
    assert "\n" not in str(caught.value)
