"""What a data set is read into, and what the readers of all layouts share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtr_gpu.errors import GTRError, UnreadableSourceError
from gtr_gpu.multitableqa.json_lines import NO_LIMIT
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.tables.normalize import make_table
from gtr_gpu.tables.streams import open_binary, readable


@dataclass(frozen=True)
class Source:
    """The tables and questions of a data set.

    Attributes:
        name: The data set's name.
        layout: The layout that it was found in, for the manifest.
        tables: Its tables, by name unique.
        questions: Its questions, each on one of the tables.
    """

    name: str
    layout: str
    tables: list[SourceTable]
    questions: list[SourceQuestion]

    def check(self) -> Source:
        """Returns the source itself where it is sound.

        Raises:
            GTRError: It has no table or no question, two of one name, or a question on a table that is not there.
        """
        for kind, names in (
            ("table", [table.source_id for table in self.tables]),
            ("question", [question.question_id for question in self.questions]),
        ):
            if not names:
                raise GTRError(f"the source {self.name} has no {kind} ({self.layout}); check that it is complete")
            seen: set[str] = set()
            for name in names:
                if name in seen:
                    raise GTRError(
                        f"the source {self.name} has two {kind}s of the name {name!r}; give each a name of its own, or "
                        "remove one"
                    )
                seen.add(name)
        known = {table.source_id for table in self.tables}
        for question in self.questions:
            if question.table_id not in known:
                raise GTRError(
                    f"the source {self.name} has no table {question.table_id!r}, which its question "
                    f"{question.question_id!r} is on; check that it is complete"
                )
        return self


def source_table(
    source_id: str,
    caption: object,
    header: Sequence[object],
    rows: Iterable[Sequence[object]],
    dataset: str,
    same_as: str | None = None,
) -> SourceTable:
    """A table with clean texts in rows that are all as long as the header."""
    table = make_table(source_id, header, rows, NO_LIMIT, caption=caption)
    return SourceTable(source_id, table.caption, table.header, table.rows, dataset, same_as)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Raises what is wrong with a file as one sentence that names it.

    Raises:
        GTRError: The file can't be read, or its content is not what the layout says.
    """
    try:
        with readable():
            yield
    except UnreadableSourceError as error:
        raise GTRError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise GTRError(f"{path}: it is not valid UTF-8") from None
    except json.JSONDecodeError as error:
        raise GTRError(f"{path}: it is not valid JSON ({error})") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise GTRError(f"{path}: it is not in the release's layout ({_reason(error)})") from None


def read_json(path: Path) -> Any:  # noqa: ANN401 (whatever JSON holds)
    """The value of a JSON file; wrap it in `named`."""
    with open_binary(path) as stream:
        return json.loads(stream.read().decode("utf-8-sig"))


def _reason(error: Exception) -> str:
    return f"there is no {error}" if isinstance(error, KeyError) else str(error)
