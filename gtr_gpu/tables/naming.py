"""Kinds of files by their extensions, and captions from the names of files, sheets and database tables."""

from __future__ import annotations

import re

from gtr_gpu.tables.normalize import clean_text

KINDS = {
    "jsonl": ("jsonl", "ndjson", "jsonlines"),
    "delimited": ("csv", "tsv", "tab", "psv"),
    "xlsx": ("xlsx", "xlsm", "xlsb", "xls", "ods"),
    "html": ("html", "htm", "xhtml"),
    "arrow": ("parquet", "pq", "arrow", "arrows", "feather", "ipc"),
    "database": ("sqlite", "sqlite3", "db", "db3", "duckdb", "ddb"),
    "zip": ("zip",),
}
_KIND_OF = {extension: kind for kind, extensions in KINDS.items() for extension in extensions}
_COMPRESSED = ("gz", "zst")
_TEXT_KINDS = ("jsonl", "delimited", "html")
_DEFAULT_SHEET = re.compile(
    r"(sheet|worksheet|tabelle|feuil|hoja|foglio|blad|ark|list|arkusz|planilha|лист|シート|工作表)[ _]?\d*", re.I
)


def kind_of(name: str) -> str:
    """The kind of a file by its extension (a text's may be followed by `.gz` or `.zst`), or the empty string."""
    *rest, last = name.lower().rsplit("/", 1)[-1].split(".")
    if last in _COMPRESSED and len(rest) > 1:
        kind = _KIND_OF.get(rest[-1], "")
        return kind if kind in _TEXT_KINDS else ""
    return _KIND_OF.get(last, "") if rest else ""


def readable_name(name: str) -> str:
    """A file's name as a caption: without its folder and known extensions, underscores and dashes as spaces."""
    stem = name.rstrip("/").rsplit("/", 1)[-1]
    for extensions in (_COMPRESSED, _KIND_OF):
        before, dot, last = stem.rpartition(".")
        if before and dot and last.lower() in extensions:
            stem = before
    return readable_text(stem)


def readable_text(name: str) -> str:
    """The name of a sheet or a database table as a caption: underscores and dashes as spaces."""
    return " ".join(re.sub(r"[_\-\u2013\u2014]+", " ", clean_text(name)).split())


def readable_sheet(name: str) -> str:
    """A sheet's name as a caption; empty for the names that spreadsheet programs give by themselves."""
    return "" if _DEFAULT_SHEET.fullmatch(name.strip()) else readable_text(name)


def join_captions(*parts: str) -> str:
    """Captions of a whole and its parts as one, `a - b`, without empty and repeated ones."""
    kept: dict[str, str] = {}
    for part in map(clean_text, parts):
        if part:
            kept.setdefault(part.casefold(), part)
    return " - ".join(kept.values())
