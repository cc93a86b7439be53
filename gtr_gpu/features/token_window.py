"""How the parts of a table's text fill an encoder's window: whole names, whole rows, and counts of what is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gtr_gpu.linearize import CHARACTERS_PER_TOKEN, TableText

Tokenize = Callable[[list[str]], list[list[int]]]

# A guess for the first try: real cells have about three letters a token.
_USUAL_CHARACTERS = 4


@dataclass(slots=True)
class FilledWindow:
    """The tokens of one table that fit, and what didn't.

    Attributes:
        tokens: Token ids without special tokens and prefix.
        cut_lead: Whether the caption and description lost their end.
        cut_names: Column names left out.
        cut_rows: Rows left out.
    """

    tokens: list[int]
    cut_lead: bool
    cut_names: int
    cut_rows: int


@dataclass(slots=True)
class _Open:
    """A table whose window still has room for rows."""

    text: TableText
    window: FilledWindow
    next_row: int = 0


def fill_windows(
    texts: Sequence[TableText], tokenize: Tokenize, room: int, after_prefix: bool = False
) -> list[FilledWindow]:
    """Puts as much of each table as fits into its window: lead, then names, then rows, in whole names and rows.

    A lead that is too long is cut so that the names get what they need, up to half of the window. The first name that
    doesn't fit ends the names, and no row follows then; the first row that doesn't fit ends the rows. Where nothing
    whole fits, the first name or row is cut, and still counts as left out.

    Args:
        texts: The tables.
        tokenize: Turns many strings into token ids without special tokens.
        room: Tokens that each window has for text.
        after_prefix: Whether the text follows a prefix, so that a space stands before it.

    Returns:
        One filled window a table.
    """
    windows = _fill_schemas(texts, tokenize, room, after_prefix)
    unfinished = [
        _Open(text, window)
        for text, window in zip(texts, windows, strict=True)
        if text.rows and not window.cut_names and not window.cut_lead
    ]
    while unfinished:
        unfinished = _fill_rows(unfinished, tokenize, room)
    _fill_empty(texts, windows, tokenize, room)
    return windows


def _fill_schemas(texts: Sequence[TableText], tokenize: Tokenize, room: int, after_prefix: bool) -> list[FilledWindow]:
    bound = room * CHARACTERS_PER_TOKEN
    offered = [_within(text.header, bound) for text in texts]
    parts: list[str] = []
    for text, names in zip(texts, offered, strict=True):
        parts.append(" " * after_prefix + text.lead[:bound])
        parts.extend(" " + name for name in names)
    tokens = iter(tokenize(parts))
    windows = []
    for text, offered_names in zip(texts, offered, strict=True):
        lead = next(tokens)
        name_tokens = [next(tokens) for _ in offered_names]
        lead_room = max(room - sum(map(len, name_tokens)), room // 2)
        kept = lead[:lead_room]
        n_names = 0
        for name in name_tokens:
            if len(kept) + len(name) > room:
                break
            kept += name
            n_names += 1
        cut_lead = len(lead) > lead_room or len(text.lead) > bound
        windows.append(FilledWindow(kept, cut_lead, len(text.header) - n_names, text.n_rows))
    return windows


def _fill_rows(unfinished: list[_Open], tokenize: Tokenize, room: int) -> list[_Open]:
    """Gives each table about as many rows as should fit; returns the tables that took all of them and have more."""
    offers = []
    for table in unfinished:
        free = room - len(table.window.tokens)
        rows = _within(table.text.rows[table.next_row :], free * _USUAL_CHARACTERS) or [table.text.rows[table.next_row]]
        # A row too long to fit is not worth its tokenization: it ends the table's rows, as it would anyway.
        offers.append([row for row in rows if len(row) <= free * CHARACTERS_PER_TOKEN])
    tokens = iter(tokenize([" " + row if row else "" for rows in offers for row in rows]))
    again = []
    for table, rows in zip(unfinished, offers, strict=True):
        fitting = bool(rows)
        for row in [next(tokens) for _ in rows]:
            fitting = fitting and len(table.window.tokens) + len(row) <= room
            if fitting:
                table.window.tokens += row
                table.window.cut_rows -= 1
                table.next_row += 1
        if fitting and table.next_row < len(table.text.rows):
            again.append(table)
    return again


def _fill_empty(texts: Sequence[TableText], windows: list[FilledWindow], tokenize: Tokenize, room: int) -> None:
    for text, window in zip(texts, windows, strict=True):
        if not window.tokens:
            first = next((part for part in (text.lead, *text.header, *text.rows) if part), "")
            window.tokens = tokenize([first[: room * CHARACTERS_PER_TOKEN]])[0][:room]


def _within(parts: list[str], bound: int) -> list[str]:
    """The first parts, up to `bound` characters together."""
    for count, part in enumerate(parts):
        bound -= len(part) + 1
        if bound < 0:
            return parts[:count]
    return parts
