"""SQLite and DuckDB files, opened read-only: each table and each view."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gtr_gpu.errors import UnreadableSourceError
from gtr_gpu.tables.naming import join_captions, readable_name, readable_text
from gtr_gpu.tables.normalize import make_table
from gtr_gpu.tables.report import Reading
from gtr_gpu.tables.streams import file_head, kind_by_magic
from gtr_gpu.tables.table import Table

# A view may compute for ever; tables are only counted, however long that takes.
VIEW_SECONDS = 20.0
# How long another program's transaction is waited for.
LOCK_SECONDS = 5.0
# The first 20 bytes of an SQLite file end with how it is written and read; 2 stands for a write-ahead log.
_WRITE_AHEAD = b"\2\2"


def read_database(path: Path, name: str, reading: Reading) -> Iterator[Table]:
    """Reads the tables and views of a database file; the kind is told by its first bytes.

    The database is never written to, and its views cannot read other files. A view that fails, or takes more than
    20 seconds, is reported and the others go on.

    Args:
        path: The file.
        name: Its name, for ids and captions.
        reading: Limits and report.

    Raises:
        UnreadableSourceError: The file is no database, damaged, locked, or left in the middle of a transaction.
    """
    kind = kind_by_magic(file_head(path))
    if kind == "sqlite":
        yield from _read_sqlite(path, name, reading)
    elif kind == "duckdb":
        yield from _read_duckdb(path, name, reading)
    else:
        raise UnreadableSourceError(f"it is {kind or 'neither SQLite nor DuckDB'}, whatever its extension says")


def _read_sqlite(path: Path, name: str, reading: Reading) -> Iterator[Table]:
    uri = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if _is_at_rest(path) else ''}"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS)) as connection:
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            found = connection.execute(
                "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') "
                r"AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name"
            ).fetchall()
            for table, kind in found:
                try:
                    yield _query(connection, _quote(table), kind == "view", name, table, reading)
                except UnreadableSourceError as error:
                    reading.failed(f"{name}#{table}", str(error))
                except (sqlite3.Error, sqlite3.Warning) as error:
                    if _unfinished(error):
                        raise
                    reading.failed(f"{name}#{table}", f"the {kind} is broken ({error})")
    except sqlite3.Error as error:
        raise UnreadableSourceError(_unfinished(error) or f"it is damaged ({error})") from None


def _is_at_rest(path: Path) -> bool:
    """Whether SQLite may do without its locks and logs.

    It has to for a file that is written through a log which is not there: it would create one, or fail where the folder
    can't be written to. All others are read with locks, or rows of a transaction that is running, or that crashed,
    would be seen.
    """
    if file_head(path, 20)[18:] != _WRITE_AHEAD:
        return False
    log, journal = (path.with_name(path.name + end) for end in ("-wal", "-journal"))
    return not journal.exists() and not (log.exists() and log.stat().st_size)


def _unfinished(error: sqlite3.Error | sqlite3.Warning) -> str:
    """What is wrong where a transaction is running or was cut off, or the empty string."""
    code = getattr(error, "sqlite_errorname", None) or ""
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "it is locked by another program; close that one first"
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
        return "it was left by an interrupted transaction; open it once with its own program"
    return ""


def _read_duckdb(path: Path, name: str, reading: Reading) -> Iterator[Table]:
    import duckdb

    try:
        connection = duckdb.connect(str(path), read_only=True, config={"enable_external_access": "false"})
    except duckdb.Error as error:
        raise UnreadableSourceError(f"it is damaged, locked, or of another version ({_first_line(error)})") from None
    with closing(connection):
        found = connection.execute(
            "SELECT schema_name, table_name AS name, 'table', comment FROM duckdb_tables() WHERE NOT internal "
            "UNION ALL SELECT schema_name, view_name, 'view', comment FROM duckdb_views() WHERE NOT internal "
            "ORDER BY ALL"
        ).fetchall()
        for schema, table, kind, comment in found:
            quoted = f"{_quote(schema)}.{_quote(table)}"
            full = table if schema == "main" else f"{schema}.{table}"
            try:
                yield _query(connection, quoted, kind == "view", name, full, reading, comment)
            except UnreadableSourceError as error:
                reading.failed(f"{name}#{full}", str(error))
            except (duckdb.Error, ValueError, OverflowError) as error:
                reading.failed(f"{name}#{full}", f"the {kind} is broken ({_first_line(error)})")


def _query(
    connection: Any,  # noqa: ANN401 (SQLite's or DuckDB's)
    quoted: str,
    is_view: bool,
    name: str,
    table: str,
    reading: Reading,
    description: str | None = None,
) -> Table:
    with _deadline(connection) if is_view else contextlib.nullcontext():
        cursor = connection.execute(f"SELECT * FROM {quoted} LIMIT {reading.limits.row_limit}")
        header = [column[0] for column in cursor.description]
        rows = cursor.fetchmany(reading.limits.rows(len(header)))
        cursor.close() if isinstance(cursor, sqlite3.Cursor) else None
        (n_rows,) = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()
    return make_table(
        f"{name}#{table}",
        header,
        rows,
        reading.limits,
        caption=join_captions(readable_name(name), readable_text(table)),
        description=description,
        source=reading.place(f"{name}#{table}"),
        n_rows=n_rows,
    )


@contextlib.contextmanager
def _deadline(connection: Any) -> Iterator[None]:  # noqa: ANN401 (SQLite's or DuckDB's)
    over = threading.Event()

    def stop() -> None:
        over.set()
        connection.interrupt()

    timer = threading.Timer(VIEW_SECONDS, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if over.is_set():
            raise UnreadableSourceError(
                f"the view took longer than {VIEW_SECONDS:g} s; store its rows as a table, or remove it"
            ) from None
        raise
    finally:
        timer.cancel()


def _quote(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
