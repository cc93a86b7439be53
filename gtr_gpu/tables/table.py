"""A table as the method sees it: text and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a corpus.

    Only `caption`, `description`, `header` and `rows` are read by a method; `table_id`, `source` and `metadata` never.

    Attributes:
        table_id: The unique name under which results return the table; for files, the path and the sheet.
        caption: A title, or the empty string.
        header: The K column names; names may be empty or repeated.
        rows: The cells, each row exactly K texts.
        description: A longer text about the table, such as a catalogue's entry, or the empty string.
        source: Where the table was read from, for messages.
        n_rows: How many rows the source holds; more than `len(rows)` where a reader stopped at its row limit.
        metadata: Free fields of the source, kept as JSON text, that no method reads.
    """

    table_id: str
    caption: str
    header: list[str]
    rows: list[list[str]]
    description: str = ""
    source: str = ""
    n_rows: int = -1
    metadata: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n_rows < len(self.rows):
            object.__setattr__(self, "n_rows", len(self.rows))
