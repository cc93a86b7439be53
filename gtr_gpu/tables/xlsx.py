"""Workbooks: each sheet of an .xlsx, .xlsm, .xlsb, .xls or .ods file is a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gtr_gpu.errors import UnreadableSourceError
from gtr_gpu.tables.archive import check_archive, check_extent
from gtr_gpu.tables.headers import SAMPLE_ROWS, count_title_rows, has_header, join_header_rows
from gtr_gpu.tables.naming import join_captions, readable_name, readable_sheet
from gtr_gpu.tables.normalize import clean_text, make_table
from gtr_gpu.tables.report import Reading
from gtr_gpu.tables.streams import file_head, kind_by_magic
from gtr_gpu.tables.table import Table

_MAX_HEADER_ROWS = 10

# The top, left, bottom and right cell of a merged range, all inclusive, counted from the sheet's first used cell.
Range = tuple[int, int, int, int]


def read_xlsx(path: Path, name: str, reading: Reading) -> Iterator[Table]:
    """Reads each sheet that has cells; empty ones and chart sheets give no table.

    Unused rows and columns at the edges are cut. All cells of a merged range get its value. Rows over the table with
    one text only become the caption, else the file's name, each followed by the sheet's name if that says anything.
    `has_header` says whether the next row is the header; a header of merged cells goes on in the rows below, see
    `count_header_rows`.

    Args:
        path: The file.
        name: Its name, for ids and captions.
        reading: Limits and report; a sheet that cannot be read is reported and the others go on.

    Raises:
        UnreadableSourceError: The file is no workbook, damaged, encrypted, or would need very much memory.
    """
    from python_calamine import CalamineWorkbook, SheetTypeEnum

    if kind_by_magic(file_head(path)) == "zip":
        check_extent(path, check_archive(path))
    with _damage("it is damaged or not a workbook"):
        workbook = CalamineWorkbook.from_path(str(path))
    with workbook:
        for info in workbook.sheets_metadata:
            if info.typ != SheetTypeEnum.WorkSheet:
                continue
            try:
                with _damage("the sheet is damaged"):
                    sheet = workbook.get_sheet_by_name(info.name)
                    table = _to_table(sheet, name, reading) if sheet.start is not None else None
            except UnreadableSourceError as error:
                reading.failed(f"{name}#{info.name}", str(error))
                continue
            if table is not None:
                yield table


@contextmanager
def _damage(what: str) -> Iterator[None]:
    from python_calamine import CalamineError, PasswordError

    try:
        yield
    except PasswordError:
        raise UnreadableSourceError("it is encrypted; save it without a password") from None
    except CalamineError as error:
        raise UnreadableSourceError(f"{what} ({error})") from None
    except BaseException as error:
        # A panic of the Rust library is no Exception, and has no name that could be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise UnreadableSourceError(f"{what} ({error})") from None


def _to_table(sheet: Any, name: str, reading: Reading) -> Table:  # noqa: ANN401 (a type of an optional package)
    n_read = reading.limits.rows(sheet.width) + SAMPLE_ROWS
    raw = [[clean_text(cell) for cell in row] for row in sheet.to_python(skip_empty_area=True, nrows=n_read)]
    top, left = sheet.start
    merged = [
        (r1 - top, c1 - left, r2 - top, c2 - left)
        for (r1, c1), (r2, c2) in sheet.merged_cell_ranges or []
        if r1 >= top and c1 >= left
    ]
    n_titles = count_title_rows(raw[:SAMPLE_ROWS])
    n_header = count_header_rows(raw, n_titles, merged)
    titles = [cell for row in raw[:n_titles] for cell in row if cell]
    filled = fill_merged(raw, merged)
    return make_table(
        f"{name}#{sheet.name}",
        join_header_rows(filled[n_titles : n_titles + n_header]),
        filled[n_titles + n_header :],
        reading.limits,
        caption=join_captions(*titles or [readable_name(name)], readable_sheet(sheet.name)),
        source=reading.place(f"{name}#{sheet.name}"),
        n_rows=sheet.height - n_titles - n_header,
    )


def count_header_rows(raw: Sequence[Sequence[str]], first: int, merged: Sequence[Range]) -> int:
    """How many rows from the first one on are the header.

    None if `has_header` says so. Else one, and more where merged cells show it: down to where a cell that begins in
    the first row ends, and the row below a cell that is merged over several columns, if that row could be a header.

    Args:
        raw: Rows before merged cells are filled.
        first: The first row after the titles.
        merged: The merged ranges.
    """
    sample = raw[first : first + SAMPLE_ROWS]
    if not sample or not has_header(sample[0], sample[1:]):
        return 0
    starting = [cells for cells in merged if cells[0] == first]
    count = max([1, *(bottom - first + 1 for _, _, bottom, _ in starting)])
    while (
        any(bottom == first + count - 1 and right > left for _, left, bottom, right in merged)
        and count + 1 < len(sample)
        and has_header(sample[count], sample[count + 1 :])
    ):
        count += 1
    return min(count, _MAX_HEADER_ROWS, len(sample))


def fill_merged(raw: Sequence[Sequence[str]], merged: Sequence[Range]) -> list[list[str]]:
    """The rows with the value of each merged range in all of its cells."""
    rows = [list(row) for row in raw]
    for top, left, bottom, right in merged:
        if top >= len(rows) or left >= len(rows[top]):
            continue
        for row in rows[top : bottom + 1]:
            row[left : right + 1] = [rows[top][left]] * len(row[left : right + 1])
    return rows
