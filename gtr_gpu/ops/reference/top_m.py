"""The m most similar rows of each row by dense features, exactly, in bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ragged import INDEX_DTYPE

# Numbers that a tile may hold at once (float32): 64 MB.
MAX_TILE = 1 << 24
_BLOCK = 64


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


def _empty(n_rows: int, m: int, device: torch.device) -> tuple[Tensor, Tensor]:
    ids = torch.full((n_rows, m), -1, dtype=INDEX_DTYPE, device=device)
    return ids, torch.full((n_rows, m), -torch.inf, device=device)


def _round_up(width: int) -> int:
    return -(-width // _BLOCK) * _BLOCK
