"""CSV, TSV and their relatives: encoding, delimiter, quoting and header are found out."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from gtr_gpu.errors import UnreadableSourceError
from gtr_gpu.tables.headers import SAMPLE_ROWS, common_width, count_title_rows, has_header
from gtr_gpu.tables.naming import join_captions, readable_name
from gtr_gpu.tables.normalize import make_table
from gtr_gpu.tables.report import Reading
from gtr_gpu.tables.streams import open_text
from gtr_gpu.tables.table import Table

MAX_ROW = 1 << 26
DELIMITERS = ",;\t|"
_SAMPLE = 65_536
_SPOKEN_FOR = {".tsv": "\t", ".tab": "\t", ".psv": "|"}
_BONUS = 0.2


@dataclass(frozen=True)
class Dialect:
    """How a delimited file is written.

    Attributes:
        delimiter: The character between cells.
        quoted: Whether `"` around a cell is a quotation mark.
    """

    delimiter: str
    quoted: bool


def read_delimited(path: Path, name: str, reading: Reading) -> Iterator[Table]:
    """Reads one table from a delimited text file, plain, gzip or zstandard.

    The delimiter is the one of comma, semicolon, tab and bar that cuts the first 64 KB into rows of most equal length
    (an Excel line `sep=;` decides). Rows over the table with one text only are its caption, see `count_title_rows`;
    `has_header` says whether the next row is the header. Without one, all names are empty. Where each row has one cell
    more than the header, the first column is of row names, as R writes them.

    Args:
        path: The file.
        name: Its name, for the id and the caption.
        reading: Limits and report.

    Raises:
        UnreadableSourceError: The file is empty, binary, or has a row of more than 64 million characters.
    """
    # A limit of the whole process, which is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW))
    with open_text(path) as text:
        sample = text.read(_SAMPLE)
        complete = len(sample) < _SAMPLE
        said = re.match(r'\ufeff?"?sep=(.)"?\r?\n', sample)
        preferred = next((_SPOKEN_FOR[suffix] for suffix in Path(name.lower()).suffixes if suffix in _SPOKEN_FOR), "")
        start = said.end() if said else 0
        dialect = find_dialect(sample[start:], complete, said.group(1) if said else None, preferred)
        rows = _rows(_whole_lines(io.StringIO(sample[start:], newline=""), text), dialect)
        try:
            yield _to_table(rows, name, reading)
        except csv.Error as error:
            raise UnreadableSourceError(
                f"it can't be cut into cells ({error}); a closing quotation mark may be missing"
            ) from None


def _to_table(rows: Iterator[list[str]], name: str, reading: Reading) -> Table:
    first = list(itertools.islice(rows, SAMPLE_ROWS))
    if common_width(first) > 1:
        # Lines of spaces; in a table of one column they are empty cells.
        first = [row for row in first if len(row) > 1 or row[0].strip()]
        rows = (row for row in rows if len(row) > 1 or row[0].strip())
    n_titles = count_title_rows(first)
    titles = [cell for row in first[:n_titles] for cell in row if cell.strip()]
    body = first[n_titles:]
    header: list[str] = []
    if body and has_header(body[0], body[1:]):
        header = body.pop(0)
        if body and len(header) + 1 == common_width(body) == min(map(len, body)):
            header = ["", *header]
    caption = join_captions(*titles) or readable_name(name)
    return make_table(
        name, header, itertools.chain(body, rows), reading.limits, caption=caption, source=reading.place(name)
    )


def _rows(lines: Iterator[str], dialect: Dialect) -> Iterator[list[str]]:
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if dialect.quoted else csv.QUOTE_NONE
    size = 0

    def counted() -> Iterator[str]:
        nonlocal size
        for line in lines:
            size += len(line)
            if size > MAX_ROW:
                raise csv.Error(f"a row is longer than {MAX_ROW:,} characters")
            yield line

    for row in csv.reader(counted(), delimiter=dialect.delimiter, quoting=quoting, skipinitialspace=True):
        size = 0
        if row:
            yield row


def _whole_lines(sample: io.StringIO, text: io.TextIOWrapper) -> Iterator[str]:
    """The lines of the sample and of what follows, the one between them whole; of an endless one only the beginning."""
    rest = ""
    for line in itertools.chain(*(iter(partial(part.readline, MAX_ROW + 1), "") for part in (sample, text))):
        line = rest + line
        rest = ""
        if line.endswith(("\n", "\r")) or len(line) > MAX_ROW:
            yield line
        else:
            rest = line
    if rest:
        yield rest


def find_dialect(sample: str, complete: bool = True, delimiter: str | None = None, preferred: str = "") -> Dialect:
    """Finds out how a delimited text is written.

    Args:
        sample: Its beginning.
        complete: Whether that is all of it; otherwise its last line is not looked at.
        delimiter: The delimiter, where it is known.
        preferred: The delimiter that the file's extension speaks for; it wins unless another one fits much better.
    """
    if not complete:
        sample = sample[: max(sample.rfind("\n"), sample.rfind("\r")) + 1] or sample
    best, best_score = Dialect(delimiter or ",", _is_quoted(sample, delimiter or ",")), (0.5, 0)
    for candidate in delimiter or DELIMITERS:
        dialect = Dialect(candidate, _is_quoted(sample, candidate))
        try:
            lines = io.StringIO(sample, newline="")
            widths = [len(row) for row in itertools.islice(_rows(lines, dialect), SAMPLE_ROWS)]
        except csv.Error:
            continue
        width = common_width([[""] * width for width in widths])
        score = (widths.count(width) / max(len(widths), 1) + _BONUS * (candidate == preferred), width)
        if width > 1 and score > best_score:
            best, best_score = dialect, score
    return best


def _is_quoted(sample: str, delimiter: str) -> bool:
    """Whether quotation marks that open a cell are closed again; inches and stray marks are not."""
    mark = re.escape(delimiter)
    opened = len(re.findall(rf'(?:^|{mark}) *"', sample, re.MULTILINE))
    closed = len(re.findall(rf'" *(?:{mark}|\r?$)', sample, re.MULTILINE))
    return opened <= 2 * closed
