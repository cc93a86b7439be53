"""The m most similar rows of each row, exactly, in bounded memory: dense features and sparse ones."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ragged import INDEX_DTYPE, SparseMatrix, offsets_from_lengths

# Numbers that a tile may hold at once (float32): 64 MB.
MAX_TILE = 1 << 24
_BLOCK = 64
# Similarities of sparse rows are rounded to this step, so that equal evidence is equal whatever the order of the sums.
_STEP = 2.0**-20
# Adding a pair into a tile and finding the best there costs a hundredth of sorting it, for each product of the tile.
_DENSE_SHARE = 128
_PAIRS = 1 << 14


def dense_top_m(
    queries: Tensor, rows: Tensor, m: int, exclude: Tensor | None = None, max_tile: int = MAX_TILE
) -> tuple[Tensor, Tensor]:
    """The m rows with the highest dot product with each query.

    Args:
        queries: `[M, d]`, any floating dtype; products are float32.
        rows: `[N, d]`.
        m: Rows that are wanted for each query.
        exclude: For each query one row that doesn't count, such as itself, or -1; `[M]`, int64.
        max_tile: Products that are held at once; bounds the memory.

    Returns:
        Row ids `[M, m]`, int32, best first, ties to the smaller id, padded by -1, and their products `[M, m]`, float32,
        padded by -inf.
    """
    ids, best = _empty(queries.shape[0], m, queries.device)
    if min(queries.shape[0], rows.shape[0], m) == 0:
        return ids, best
    width = min(rows.shape[0], max(_BLOCK, max_tile // 256))
    height = min(queries.shape[0], max(1, max_tile // width))
    buffer = torch.empty(height * _round_up(width), device=queries.device)
    for first in range(0, queries.shape[0], height):
        left = queries[first : first + height].float()
        for start in range(0, rows.shape[0], width):
            right = rows[start : start + width].float()
            tile = _padded_tile(buffer, left.shape[0], right.shape[0])
            torch.mm(left, right.T, out=tile[:, : right.shape[0]])
            if exclude is not None:
                _forbid(tile, exclude[first : first + height] - start, right.shape[0])
            columns, products = _tile_top_m(tile, m)
            part = slice(first, first + left.shape[0])
            ids[part], best[part] = merge_top_m(ids[part], best[part], columns + start, products)
    return ids, best


def sparse_top_m(
    queries: SparseMatrix,
    postings: SparseMatrix,
    m: int,
    exclude: Tensor | None = None,
    tie_break: tuple[Tensor, Tensor] | None = None,
    max_tile: int = MAX_TILE // 4,
) -> tuple[Tensor, Tensor]:
    """The m rows with the highest dot product with each query, among those with one above 0; both sparse.

    The work is the number of (query entry, posting) pairs, so a caller drops columns that most rows share. Where the
    pairs are more than a 128th of all products, they are added into dense tiles, else sorted.

    Args:
        queries: `[M, V]`, float32, no entry below 0, rows of unit length or less.
        postings: The rows to search, transposed: `[V, N]`, float32, its columns of unit length or less.
        m: Rows that are wanted for each query.
        exclude: For each query one row that doesn't count, such as itself, or -1; `[M]`, int64.
        tie_break: Dense features of the queries `[M, d]` and of the rows `[N, d]`: of rows that tie for a place, those
            with the higher dot product of these come first.
        max_tile: Products, or pairs, that are held at once, but always those of 16 queries; bounds the memory.

    Returns:
        Row ids `[M, m]`, int32, best first, ties to the higher tie break, then to the smaller id, padded by -1, and
        their products `[M, m]`, float32, rounded to 2^-20 so that equal rows tie exactly, padded by -inf.
    """
    n_queries, n_rows = queries.shape[0], postings.shape[1]
    ids, best = _empty(n_queries, m, queries.device)
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
        rows, columns, products, places = _ranked(*found, m, features)
        ids[first + rows, places] = columns.to(INDEX_DTYPE)
        best[first + rows, places] = products
        first = stop
    return ids, best


def merge_top_m(ids: Tensor, scores: Tensor, more_ids: Tensor, more_scores: Tensor) -> tuple[Tensor, Tensor]:
    """The m best of two lists for each query, which share no id.

    Args:
        ids: `[M, m]`, int32, padded by -1.
        scores: `[M, m]`, float32, padded by -inf.
        more_ids: `[M, a]`; where its score is -inf, an id counts for nothing.
        more_scores: `[M, a]`, float32.

    Returns:
        The ids `[M, m]`, int32, and scores `[M, m]`, best first, ties to the smaller id.
    """
    m = ids.shape[1]
    all_ids = torch.cat([ids, more_ids.to(ids.dtype)], 1)
    all_scores = torch.cat([scores, more_scores], 1)
    order = torch.argsort(all_ids, 1)
    by_score = torch.argsort(all_scores.gather(1, order), dim=1, descending=True, stable=True)[:, :m]
    order = order.gather(1, by_score)
    ids, scores = all_ids.gather(1, order), all_scores.gather(1, order)
    return ids.masked_fill(scores == -torch.inf, -1), scores


def _padded_tile(buffer: Tensor, height: int, width: int) -> Tensor:
    """A tile in the buffer whose width is whole blocks; what is beyond `width` is -inf."""
    padded = _round_up(width)
    tile = buffer[: height * padded].view(height, padded)
    tile[:, width:] = -torch.inf
    return tile


def _forbid(tile: Tensor, columns: Tensor, width: int) -> None:
    inside = ((columns >= 0) & (columns < width)).nonzero().flatten()
    tile[inside, columns[inside]] = -torch.inf


def _tile_top_m(tile: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """The m best columns of each row of a tile `[R, whole blocks]`, ties to the smaller column.

    The m best lie in the m blocks with the highest maxima (ties to the smaller block): each entry elsewhere has m
    before it. So one pass over the tile finds the maxima, and the rest looks at m blocks only.
    """
    blocks = tile.view(tile.shape[0], -1, _BLOCK)
    m_blocks = min(m, blocks.shape[1])
    chosen = torch.sort(blocks.amax(2), dim=1, descending=True, stable=True).indices[:, :m_blocks].sort(1).values
    entries = blocks.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).view(tile.shape[0], -1)
    products, places = torch.sort(entries, dim=1, descending=True, stable=True)
    products, places = products[:, :m], places[:, :m]
    columns = chosen.gather(1, places // _BLOCK) * _BLOCK + places % _BLOCK
    return columns, products


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


def _empty(n_rows: int, m: int, device: torch.device) -> tuple[Tensor, Tensor]:
    ids = torch.full((n_rows, m), -1, dtype=INDEX_DTYPE, device=device)
    return ids, torch.full((n_rows, m), -torch.inf, device=device)


def _round_up(width: int) -> int:
    return -(-width // _BLOCK) * _BLOCK
