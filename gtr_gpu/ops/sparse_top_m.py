"""The m most similar rows of each sparse row, exactly, in bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import (
    MOST_ITEMS,
    check_count,
    check_range,
    check_rising,
    check_sparse,
    check_tensor,
    device_of,
)
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix, offsets_from_lengths

_BLOCK = 64
# Rows whose products a team holds at once: they stay in a core's second-level cache.
_TILE = 1 << 16
# Looking which rows can still be among the best is tried where such shares of all pairs of rows that meet in a column
# are left, for columns that are among the most common ones.
_LEVELS = (0.97, 0.93, 0.88, 0.8, 0.7, 0.55, 0.35, 0.15)
_LEVEL_COLUMNS = 1 << 14
# Looking at one row, and at an entry of it, costs as much as adding so many postings.
_ROW_COST = 32
_ENTRY_COST = 2
_FEATURES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


@operation("sparse_top_m_f32", "sparse_top_m_bf16", "sparse_top_m_f16", "rests_at_levels")
def sparse_top_m(
    queries: SparseMatrix,
    rows: SparseMatrix,
    m: int,
    exclude: Tensor | None = None,
    tie_break: tuple[Tensor, Tensor] | None = None,
    max_tile: int = _TILE,
) -> tuple[Tensor, Tensor]:
    """The m rows with the highest dot product with each query, among those with one above 0; both sparse.

    Columns that most rows share cost most and tell least. They are looked at last, and only in rows that can still be
    among the m best; still, a caller does well to drop them.

    Args:
        queries: `[M, V]`, float32, no entry below 0, rows of unit length or less.
        rows: The rows to search, `[N, V]`, float32, no entry below 0, of unit length or less.
        m: Rows that are wanted for each query.
        exclude: For each query one row that doesn't count, such as itself, or -1; `[M]`, int64.
        tie_break: Dense features of the queries `[M, d]` and of the rows `[N, d]`: of rows that tie for a place, those
            with the higher dot product of these come first.
        max_tile: Rows of which products are held at once for each query that is worked on; bounds the memory.

    Returns:
        Row ids `[M, m]`, int32, best first, ties to the higher tie break, then to the smaller id, padded by -1, and
        their products `[M, m]`, float32, rounded to 2^-20 so that equal rows tie exactly, padded by -inf.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    device = device_of("queries", queries, SparseMatrix)
    _check(queries, rows, m, exclude, tie_break, max_tile, device)
    if not serves("sparse_top_m", device):
        return reference.sparse_top_m.sparse_top_m(queries, rows, m, exclude, tie_break, max_tile)
    n_queries, n_rows = queries.shape[0], rows.shape[0]
    ids = torch.full((n_queries, m), -1, dtype=INDEX_DTYPE, device=device)
    best = torch.full((n_queries, m), -torch.inf, device=device)
    if min(n_queries, n_rows, m, queries.weights.numel(), rows.weights.numel()) == 0:
        return ids, best
    rank = _rank(rows)
    by_column = _transpose(rows, rank)
    searched = _transpose(by_column)
    asking = searched if queries is rows else _transpose(_transpose(queries, rank))
    tile = max(1, min(-(-n_rows // _BLOCK), max_tile // _BLOCK)) * _BLOCK
    levels, costs = _levels(by_column)
    rests = torch.empty((len(levels), n_rows), device=device)
    places = torch.empty(rests.shape, dtype=INDEX_DTYPE, device=device)
    launch("rests_at_levels", n_rows, [*_arrays(searched), levels, len(levels), n_rows, rests, places])
    longest = int(asking.columns.lengths.max())
    features: tuple[Tensor | None, Tensor | None] = (None, None)
    if tie_break is not None:
        dtype = tie_break[0].dtype if tie_break[0].dtype == tie_break[1].dtype else torch.float32
        dtype = dtype if dtype in _FEATURES else torch.float32
        features = (tie_break[0].to(dtype).contiguous(), tie_break[1].to(dtype).contiguous())
    launch(
        f"sparse_top_m_{'f32' if features[0] is None else _FEATURES[features[0].dtype]}",
        n_queries,
        [
            *(*_arrays(asking), *_arrays(by_column), *_arrays(searched)),
            *(None if exclude is None else exclude.contiguous(), *features),
            *(0 if features[0] is None else features[0].shape[1], n_rows, m, tile),
            *(levels, costs, rests, places, len(levels), longest, ids, best),
        ],
        scratch_bytes(
            *((tile, 4), (tile // _BLOCK, 4), (int(levels[0]), 4)),
            *[(tile + m, 4)] * 3,
            *[(m, 4)] * 2,
            *[(longest, 8)] * 2,
        ),
    )
    return ids, best


def _check(
    queries: SparseMatrix,
    rows: SparseMatrix,
    m: int,
    exclude: Tensor | None,
    tie_break: tuple[Tensor, Tensor] | None,
    max_tile: int,
    device: torch.device,
) -> None:
    check_sparse("queries", queries, device)
    check_sparse("rows", rows, device)
    if queries.n_columns != rows.n_columns:
        raise GTRError(f"queries must have {rows.n_columns} columns like rows, got {queries.n_columns}")
    check_rising("queries.columns", queries.columns)
    if rows is not queries:
        check_rising("rows.columns", rows.columns)
    check_count("m", m, 0, MOST_ITEMS)
    check_count("max_tile", max_tile, 1)
    if exclude is not None:
        check_tensor("exclude", exclude, (queries.shape[0],), (torch.int64,), device)
        check_range("exclude", exclude, rows.shape[0], lower=-1)
    if tie_break is not None:
        if not isinstance(tie_break, tuple) or len(tie_break) != 2:
            raise GTRError(f"tie_break must be a pair of tensors, got {type(tie_break).__name__}")
        floats = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
        check_tensor("tie_break[0]", tie_break[0], (queries.shape[0], None), floats, device)
        check_tensor("tie_break[1]", tie_break[1], (rows.shape[0], tie_break[0].shape[1]), floats, device)


def _rank(rows: SparseMatrix) -> Tensor:
    """The place of each column among all, from the one that most rows have on; `[V]`, int32."""
    frequency = torch.bincount(rows.columns.values, minlength=rows.n_columns)
    order = torch.argsort(frequency, descending=True, stable=True)
    rank = torch.empty(rows.n_columns, dtype=INDEX_DTYPE, device=rows.device)
    rank[order] = torch.arange(rows.n_columns, dtype=INDEX_DTYPE, device=rows.device)
    return rank


def _levels(by_column: SparseMatrix) -> tuple[Tensor, Tensor]:
    """Columns at which to look which rows are left, falling, and what looking at one costs; both int32."""
    frequency = by_column.columns.lengths
    pairs = frequency.double().square().cumsum(0)
    shares = torch.tensor(_LEVELS, dtype=torch.float64, device=frequency.device)
    levels = torch.searchsorted(pairs, shares * pairs[-1]).clamp_max(_LEVEL_COLUMNS)
    entries = offsets_from_lengths(frequency)[levels] / by_column.shape[1]
    return levels.to(INDEX_DTYPE), (_ROW_COST + _ENTRY_COST * entries).to(INDEX_DTYPE)


def _transpose(matrix: SparseMatrix, rank: Tensor | None = None) -> SparseMatrix:
    """The matrix by columns, which are numbered anew by `rank`."""
    columns = matrix.columns.values if rank is None else rank[matrix.columns.values]
    _, order = torch.sort(columns, stable=True)
    offsets = offsets_from_lengths(torch.bincount(columns, minlength=matrix.n_columns))
    rows = matrix.row_ids().to(INDEX_DTYPE)[order]
    return SparseMatrix(Ragged(rows, offsets), matrix.weights[order], matrix.shape[0])


def _arrays(matrix: SparseMatrix) -> tuple[Tensor, Tensor, Tensor]:
    return matrix.columns.offsets, matrix.columns.values, matrix.weights
