"""The m most similar rows of each sparse row, exactly, in bounded memory, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ragged import INDEX_DTYPE, SparseMatrix, offsets_from_lengths

_BLOCK = 64
# Similarities are rounded to this step, so that equal evidence is equal whatever the order of the sums.
_STEP = 2.0**-20
# Adding a pair into a tile and finding the best there costs a hundredth of sorting it, for each product of the tile.
_DENSE_SHARE = 128
_PAIRS = 1 << 14


def sparse_top_m(
    queries: SparseMatrix,
    rows: SparseMatrix,
    m: int,
    exclude: Tensor | None,
    tie_break: tuple[Tensor, Tensor] | None,
    max_tile: int,
) -> tuple[Tensor, Tensor]:
    """See `gtr_gpu.ops.sparse_top_m.sparse_top_m`, for checked arguments.

    The work is the number of (query entry, posting) pairs. Where the pairs are more than a 128th of all products, they
    are added into dense tiles, else sorted. At most `max_tile * 64` products or pairs are held at once, but always
    those of 16 queries.
    """
    max_tile *= _BLOCK
    postings = rows.transpose()
    n_queries, n_rows = queries.shape[0], postings.shape[1]
    ids = torch.full((n_queries, m), -1, dtype=INDEX_DTYPE, device=queries.device)
    best = torch.full((n_queries, m), -torch.inf, device=queries.device)
    if min(n_queries, n_rows, m, queries.weights.numel()) == 0:
        return ids, best
    # Pairs up to each query, running.
    pairs = offsets_from_lengths(postings.columns.lengths[queries.columns.values])[queries.columns.offsets]
    dense = int(pairs[-1]) * _DENSE_SHARE >= n_queries * n_rows
    height = min(n_queries, max(16, max_tile // _round_up(n_rows))) if dense else n_queries
    tile = torch.empty(height if dense else 0, _round_up(n_rows), device=queries.device)
    first = 0
    while first < n_queries:
        stop = int(torch.searchsorted(pairs, pairs[first] + max_tile // 4, right=True)) - 1
        stop = min(max(stop, first + 1), first + height)
        skip = None if exclude is None else exclude[first:stop]
        found = _products(queries.slice(first, stop), postings, skip)
        found = _best_of_tile(*found, tile[: stop - first], m) if dense else _summed(*found, n_rows)
        features = None if tie_break is None else (tie_break[0][first:stop], tie_break[1])
        owners, columns, products, places = _ranked(*found, m, features)
        ids[first + owners, places] = columns.to(INDEX_DTYPE)
        best[first + owners, places] = products
        first = stop
    return ids, best


def _products(queries: SparseMatrix, postings: SparseMatrix, exclude: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """All pairs of a query's entry and a posting of its column: query rows, row ids (both int64) and products `[P]`."""
    positions, offsets = postings.columns.positions(queries.columns.values)
    repeats = offsets.diff()
    rows = torch.repeat_interleave(queries.row_ids(), repeats, output_size=positions.numel())
    weights = torch.repeat_interleave(queries.weights, repeats, output_size=positions.numel())
    columns, products = postings.columns.values[positions].long(), weights * postings.weights[positions]
    if exclude is not None:
        products = products.masked_fill(columns == exclude[rows], 0)
    return rows, columns, products


def _summed(rows: Tensor, columns: Tensor, products: Tensor, n_rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """The sums of products at the same place, all of them, by sorting."""
    keys, entry = torch.unique(rows * n_rows + columns, return_inverse=True)
    sums = torch.zeros(keys.numel(), device=keys.device).index_add_(0, entry, products)
    return keys // n_rows, keys % n_rows, sums


def _best_of_tile(
    rows: Tensor, columns: Tensor, products: Tensor, tile: Tensor, m: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums of products at the same place that are among the m best of their row or tie with the last of these.

    The tile `[R, whole blocks]` is overwritten. The m-th best is also that of the m blocks with the highest maxima,
    whichever of equal ones are taken.
    """
    height, width = tile.shape
    tile.zero_().view(-1).index_add_(0, rows * width + columns, products)
    blocks = tile.view(height, -1, _BLOCK)
    maxima = blocks.amax(2)
    chosen = maxima.topk(min(m, maxima.shape[1]), 1).indices
    entries = blocks.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).view(height, -1)
    last = entries.topk(min(m, entries.shape[1]), 1).values[:, -1:]
    least = (last - 2 * _STEP).clamp_min(0)
    block_rows, block_ids = (maxima > least).nonzero(as_tuple=True)
    entries = blocks[block_rows, block_ids]
    picked, within = (entries > least[block_rows]).nonzero(as_tuple=True)
    return block_rows[picked], block_ids[picked] * _BLOCK + within, entries[picked, within]


def _ranked(
    rows: Tensor, columns: Tensor, products: Tensor, m: int, features: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The m best entries of each row, from entries by rising row and column, with their places 0 to m - 1."""
    steps = (products / _STEP).round().long()
    kept = (steps > 0).nonzero().flatten()
    order = kept[torch.argsort((rows[kept] << 32) - steps[kept], stable=True)]
    rows, columns, steps = rows[order], columns[order], steps[order]
    starts, lengths = _runs(rows)
    places = torch.arange(rows.numel(), device=rows.device) - starts
    if features is not None:
        # Only rows with entries that tie for the last place need the tie break.
        last = steps[(starts + m - 1).clamp_max(max(rows.numel() - 1, 0))]
        near = ((places < m) | ((steps == last) & (lengths > m))).nonzero().flatten()
        rows, columns, steps = rows[near], columns[near], steps[near]
        order = torch.argsort(_row_dots(*features, rows, columns), descending=True, stable=True)
        order = order[torch.argsort((rows[order] << 32) - steps[order], stable=True)]
        rows, columns, steps = rows[order], columns[order], steps[order]
        places = torch.arange(rows.numel(), device=rows.device) - _runs(rows)[0]
    top = places < m
    return rows[top], columns[top], steps[top] * _STEP, places[top]


def _runs(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Where the run of each item's equal neighbours starts, and its length; rising rows `[T]`."""
    _, run, lengths = torch.unique_consecutive(rows, return_inverse=True, return_counts=True)
    return offsets_from_lengths(lengths)[run], lengths[run]


def _row_dots(left: Tensor, right: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The dot product of `left[rows]` with `right[columns]`, pair by pair, rounded like products; `[P]`, float32."""
    dots = torch.empty(rows.numel(), device=rows.device)
    for start in range(0, rows.numel(), _PAIRS):
        part = slice(start, start + _PAIRS)
        dots[part] = (left[rows[part]].float() * right[columns[part]].float()).sum(1)
    return (dots / _STEP).round()


def _round_up(width: int) -> int:
    return -(-width // _BLOCK) * _BLOCK
