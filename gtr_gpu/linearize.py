"""Which text each modality reads of a table: the paper's linearization s, in one place.

Every text is made of the caption, the description, the column names and the kept rows; the id, the source and the
metadata are never read. Runs of whitespace become one space, save in cells whose words are only counted. Empty names
and cells are skipped.

| modality   | caption | description        | column names | cells                                     |
|------------|---------|--------------------|--------------|-------------------------------------------|
| semantic   | yes     | yes                | yes          | whole rows while the window has room      |
| structural | yes     | first 500 letters  | yes          | no                                        |
| heuristic  | yes     | yes                | yes          | all kept ones                             |
| phrases    | yes     | no                 | yes          | all kept ones                             |

`text_style` says how the encoder's text is laid out:

- `plain`: `caption. description. a, b, c.` and then the rows, each `1, 2, 3;`.
- `tagged`: the paper's `[Table] [Caption] caption. [Header] a [Header] b`, and then `[Row] 1, 2`; the description
  follows the caption.
- `paper`: `Caption: caption; Headers: [a, b]`, the text of the authors' code, for all three modalities: no description
  and no cells for features (rows follow for the encoder only where `encode_rows` is set). Names are joined by `, `
  without quotes, empty ones included.

In the `plain` style a table of which the encoder would read nothing is described by its shape, so that it never reads
an empty text.

The encoder's window holds tokens, so rows are only bounded generously here: `CHARACTERS_PER_TOKEN` letters for each
token of the window. Rows that begin after that bound are never read. The encoder cuts exactly, and counts what it
leaves out; where caption, description or names are cut, it reads no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from gtr_gpu.config import Config
from gtr_gpu.tables.table import Table

CHARACTERS_PER_TOKEN = 16
STRUCTURAL_DESCRIPTION = 500

# Latin, Chinese, Arabic and Devanagari.
_SENTENCE_ENDS = ".!?\u3002\uff01\uff1f\u061f\u06d4\u0964"


@dataclass(frozen=True, slots=True)
class TableText:
    """What the encoder is offered of a table, in parts that may each be left out where the window is full.

    Attributes:
        lead: Caption and description.
        header: The column names that aren't empty, with their separators.
        rows: The first rows, each one text; no more than could fit.
        n_rows: The rows that were offered by the table; those missing in `rows` count as not read.
    """

    lead: str
    header: list[str]
    rows: list[str]
    n_rows: int = 0

    def joined(self) -> str:
        """The parts as one text, as an endless window would read it."""
        return " ".join(part for part in (self.lead, *self.header, *self.rows) if part)


def table_text(table: Table, config: Config) -> TableText:
    """The parts of a table's text that the encoder reads, in order of importance."""
    lead, header = _LAYOUTS[config.text_style](table)
    rows = _row_texts(table, config) if config.encode_rows else []
    if not lead and not header and not any(rows):
        lead = f"Table of {len(table.rows)} rows and {len(table.header)} columns."
    return TableText(lead, header, rows, len(table.rows) if config.encode_rows else 0)


def structural_text(table: Table, config: Config) -> str:
    """The text whose tokens and parts of speech are counted: caption, the description's beginning, column names."""
    if config.text_style == "paper":
        return _join_parts(*_paper(table))
    description = one_line(table.description[:STRUCTURAL_DESCRIPTION])
    return _join_parts(_sentences(table.caption, description), _listed(_names(table)))


def heuristic_fields(table: Table, config: Config) -> tuple[str, str]:
    """The two texts that lexical counting reads: what describes a table, and what it holds.

    Returns:
        Caption, description and column names, one a line; and all kept cells, joined by newlines as they are (empty in
        the `paper` style, whose first text is the encoder's).
    """
    if config.text_style == "paper":
        return _join_parts(*_paper(table)), ""
    schema = [one_line(table.caption), one_line(table.description), *_names(table)]
    return "\n".join(filter(None, schema)), "\n".join(filter(None, chain.from_iterable(table.rows)))


def phrase_texts(table: Table, config: Config) -> Iterator[str]:
    """What a question may say word for word: caption, column names and cells, each a phrase."""
    yield table.caption
    yield from table.header
    if config.text_style != "paper":
        yield from chain.from_iterable(table.rows)


def one_line(text: str) -> str:
    """The text with each run of whitespace as one space and none at its ends."""
    return " ".join(text.split())


def _plain(table: Table) -> tuple[str, list[str]]:
    return _sentences(table.caption, table.description), _listed(_names(table))


def _tagged(table: Table) -> tuple[str, list[str]]:
    lead = "[Table]"
    about = _sentences(table.caption, table.description)
    if about:
        lead += f" [Caption] {about}"
    return lead, [f"[Header] {name}" for name in _names(table)]


def _paper(table: Table) -> tuple[str, list[str]]:
    lead = f"Caption: {one_line(table.caption)}; Headers:"
    names = [f"{one_line(name)}," for name in table.header] or [","]
    names[0] = "[" + names[0]
    names[-1] = names[-1][:-1] + "]"
    return lead, names


_LAYOUTS = {"plain": _plain, "tagged": _tagged, "paper": _paper}


def _names(table: Table) -> list[str]:
    return [name for name in map(one_line, table.header) if name]


def _listed(names: list[str]) -> list[str]:
    return [f"{name}," for name in names[:-1]] + [_ended(name) for name in names[-1:]]


def _sentences(*texts: str) -> str:
    return " ".join(_ended(line) for line in map(one_line, texts) if line)


def _ended(text: str) -> str:
    return text if text[-1] in _SENTENCE_ENDS else text + "."


def _join_parts(lead: str, header: list[str]) -> str:
    return " ".join(filter(None, (lead, *header)))


def _row_texts(table: Table, config: Config) -> list[str]:
    before = "[Row] " if config.text_style == "tagged" else ""
    after = "" if config.text_style == "tagged" else ";"
    room = CHARACTERS_PER_TOKEN * config.max_tokens
    texts: list[str] = []
    for row in table.rows:
        if room <= 0:
            break
        cells = ", ".join(one_line(cell) for cell in row if cell and not cell.isspace())
        texts.append(f"{before}{cells}{after}" if cells else "")
        room -= len(texts[-1]) + 1
    return texts
