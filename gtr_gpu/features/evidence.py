"""What two tables can share: column names, key values, a whole column, caption words, as sets of hashed texts."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import cast

import numpy as np
import torch

from gtr_gpu.config import Config
from gtr_gpu.features.tokens import Numbers, terms
from gtr_gpu.ragged import INDEX_DTYPE, OFFSET_DTYPE, Ragged
from gtr_gpu.tables.table import Table

EVIDENCE_KINDS = ("header", "key", "column", "caption")

# Rows that are looked at for the key column, and so the most values that a table gives: enough to recognise a sibling,
# and a table of a million rows costs no more than one of three hundred.
_KEY_ROWS = 300
# A key column has a value in most rows; the first column may repeat its values some times, another one few of them, and
# most of its values have a letter.
_FILLED = 0.5
_FEW = 0.2
_DISTINCT = 0.7
_WORDED = 0.5
# Shorter columns are the same by accident.
_COLUMN_ROWS = 2
# Digits of the largest row number: years have more.
_COUNTER_DIGITS = 3


def evidence(tables: Iterable[Table], config: Config) -> dict[str, Ragged]:
    """The evidence of each table for typed edges, in one pass.

    `header` holds the column names, `key` the distinct values of the key column, each as a whole, `column` the first
    column as one piece, its values in order, and `caption` the words of the caption; empty ones are dropped. A text is
    normalised (case, accents, punctuation), then hashed by CRC-32 to 31 bits: stable between processes, and two texts
    in a million share one by accident with p < 1/2000.

    Args:
        tables: The tables; only caption, header and rows are read.
        config: `edge_kinds` says which kinds are computed (`cells` comes from the term counts), `numbers` how numbers
            in captions are read.

    Returns:
        For each kind a batch of N rows of ids, distinct and rising within each row; values int32.
    """
    kinds = [kind for kind in EVIDENCE_KINDS if kind in config.edge_kinds]
    numbers = cast(Numbers, config.numbers)
    readers: dict[str, Callable[[Table], Iterable[str]]] = {
        "header": lambda table: map(_phrase, table.header),
        "key": lambda table: map(_phrase, _key_values(table)),
        "column": _first_column,
        "caption": lambda table: terms(table.caption, numbers),
    }
    values, lengths = {kind: array("i") for kind in kinds}, {kind: array("q") for kind in kinds}
    for table in tables:
        for kind in kinds:
            ids = sorted(
                {zlib.crc32(text.encode("utf-8", "replace")) & 0x7FFFFFFF for text in readers[kind](table) if text}
            )
            values[kind].extend(ids)
            lengths[kind].append(len(ids))
    return {
        kind: Ragged.from_lengths(
            torch.from_numpy(np.array(values[kind])).to(INDEX_DTYPE),
            torch.from_numpy(np.array(lengths[kind])).to(OFFSET_DTYPE),
        )
        for kind in kinds
    }


def key_column(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    """The column that names the rows: the first one, by convention, unless it can't.

    A first column that is mostly empty, has few values (such as a gender) or merely numbers the rows names nothing, and
    tables that share it don't belong together for that. Then it is the leftmost column whose values are mostly there,
    mostly distinct and mostly words; None if there is none.

    Args:
        header: The K column names.
        rows: Rows of K texts.
    """
    for column in range(len(header)):
        filled = [value for row in rows if (value := row[column].strip())]
        distinct = set(filled)
        if len(filled) <= _FILLED * len(rows) or (len(distinct) == 1 and len(filled) > 1):
            continue
        worded = sum(any(map(str.isalpha, value)) for value in filled)
        if column == 0 and len(distinct) > _FEW * len(filled) and not _is_counter(distinct):
            return 0
        if column and len(distinct) > _DISTINCT * len(filled) and worded > _WORDED * len(filled):
            return column
    return None


def _is_counter(values: set[str]) -> bool:
    """Whether values are small whole numbers with few gaps, such as ranks and row numbers, also "4."; years are not."""
    numerals = {value.removesuffix(".") for value in values}
    numbers = {int(value) for value in numerals if value.isdecimal() and len(value) <= _COUNTER_DIGITS}
    return len(numbers) == len(values) > 1 and max(numbers) - min(numbers) < 1.5 * len(numbers)


def _key_values(table: Table) -> set[str]:
    if not table.header:
        return set()
    rows = list(islice(table.rows, _KEY_ROWS))
    column = key_column(table.header, rows)
    return set() if column is None else {row[column] for row in rows}


def _first_column(table: Table) -> list[str]:
    """The first column as one text: where a table was split by columns, each part has it, even if it only counts."""
    if not table.header or len(table.rows) < _COLUMN_ROWS:
        return []
    return ["\n".join(_phrase(row[0]) for row in islice(table.rows, _KEY_ROWS)).strip()]


def _phrase(text: str) -> str:
    """A whole name or value, its words folded; one without words, such as "%", stays as it is."""
    return " ".join(terms(text, "keep")) or text.strip()
