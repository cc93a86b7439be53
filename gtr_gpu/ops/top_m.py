"""The m most similar rows of each row, exactly, by dense features, in bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import MOST_ITEMS, check_count, check_range, check_tensor, device_of
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ragged import INDEX_DTYPE

__all__ = ["MAX_TILE", "dense_top_m", "merge_top_m"]

# Numbers that a tile may hold at once (float32): 64 MB.
MAX_TILE = 1 << 24
# The tile's sides on a CPU: its products stay in the last cache, and rows of half precision are converted seldom.
_TILE_HEIGHT = 512
_TILE_WIDTH = 8192
_FEATURES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# A lane of the kernel's is this many of a tile's columns.
_LANES, _GROUP = 64, 1024


@operation("tile_top_m_f32")
def dense_top_m(
    queries: Tensor, rows: Tensor, m: int, exclude: Tensor | None = None, max_tile: int = MAX_TILE
) -> tuple[Tensor, Tensor]:
    """The m rows with the highest dot product with each query.

    Args:
        queries: `[M, d]`, any floating dtype; products are float32.
        rows: `[N, d]`.
        m: Rows that are wanted for each query, at least 0.
        exclude: For each query one row that doesn't count, such as itself, or -1; `[M]`, int64.
        max_tile: Products that are held at once; bounds the memory.

    Returns:
        Row ids `[M, m]`, int32, best first, ties to the smaller id, padded by -1, and their products `[M, m]`, float32,
        padded by -inf.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    device = device_of("queries", queries, Tensor)
    check_tensor("queries", queries, (None, None), _FEATURES, device)
    check_tensor("rows", rows, (None, queries.shape[1]), _FEATURES, device)
    check_count("m", m, 0, MOST_ITEMS)
    check_count("max_tile", max_tile, 1)
    n_queries, n_rows = queries.shape[0], rows.shape[0]
    if exclude is not None:
        check_tensor("exclude", exclude, (n_queries,), (torch.int64,), device)
        check_range("exclude", exclude, n_rows, lower=-1)
    if not serves("dense_top_m", device):
        return reference.top_m.dense_top_m(queries, rows, m, exclude, max_tile)
    ids = torch.full((n_queries, m), -1, dtype=INDEX_DTYPE, device=device)
    best = torch.full((n_queries, m), -torch.inf, device=device)
    if min(n_queries, n_rows, m) == 0:
        return ids, best
    high = n_queries if device.type == "cuda" else _TILE_HEIGHT
    width = min(n_rows, max(_LANES, min(_TILE_WIDTH, max_tile)))
    height = min(n_queries, high, max(1, max_tile // width))
    buffer = torch.empty(height * width, device=device)
    scratch = scratch_bytes((-(-width // _GROUP) * _LANES, 4), (m, 4), (m, 4))
    skip = None if exclude is None else exclude.contiguous()
    for start in range(0, n_rows, width):
        right = rows[start : start + width].float().T
        for first in range(0, n_queries, height):
            left = queries[first : first + height].float()
            n = left.shape[0]
            tile = buffer[: n * right.shape[1]].view(n, right.shape[1])
            torch.mm(left, right, out=tile)
            part = slice(first, first + n)
            own = None if skip is None else skip[part]
            launch("tile_top_m_f32", n, [tile, tile.shape[1], m, start, own, ids[part], best[part]], scratch)
    return ids, best


@operation("merge_top_m_f32")
def merge_top_m(ids: Tensor, scores: Tensor, more_ids: Tensor, more_scores: Tensor) -> tuple[Tensor, Tensor]:
    """The m best of two lists for each query, which share no id.

    Args:
        ids: `[M, m]`, int32, padded by -1.
        scores: `[M, m]`, float32, padded by -inf.
        more_ids: `[M, a]`, int32 or int64; where its score is -inf, an id counts for nothing.
        more_scores: `[M, a]`, float32.

    Returns:
        The ids `[M, m]`, int32, and scores `[M, m]`, best first, ties to the smaller id.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    device = device_of("ids", ids, Tensor)
    check_tensor("ids", ids, (None, None), (INDEX_DTYPE,), device)
    check_tensor("scores", scores, tuple(ids.shape), (torch.float32,), device)
    check_tensor("more_ids", more_ids, (ids.shape[0], None), (INDEX_DTYPE, torch.int64), device)
    check_tensor("more_scores", more_scores, tuple(more_ids.shape), (torch.float32,), device)
    if not serves("merge_top_m", device):
        return reference.top_m.merge_top_m(ids, scores, more_ids, more_scores)
    lists = (ids, scores, more_ids.to(INDEX_DTYPE), more_scores)
    merged, best = torch.empty_like(lists[0]).contiguous(), torch.empty_like(scores).contiguous()
    arrays = [part.contiguous() for part in lists]
    launch("merge_top_m_f32", ids.shape[0], [ids.shape[1], more_ids.shape[1], *arrays, merged, best])
    return merged, best
