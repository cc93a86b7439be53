"""The best tables of each query by its semantic and lexical scores."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import check_tensor
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, offsets_from_lengths

# Tables of a block, whose greatest score a kernel notes.
_BLOCK = 32
_MOST_TABLES = 1 << 31


@operation("best_mixed")
def best_mixed(
    semantic: Tensor | None, lexical: Tensor | None, alive: Tensor | None, mix: float, n: int
) -> tuple[Ragged, Tensor]:
    """Mixes the scores of each query with all tables and takes the best tables.

    Semantic scores alone stay as they are. Otherwise each kind of score is clamped at 0 and divided by its best among
    the tables that are alive, and where there are both, the score is `mix · semantic + (1 - mix) · lexical`.

    Args:
        semantic: Cosines `[B, N]`, float32, or None.
        lexical: BM25 `[B, N]`, float32, or None; not both are None.
        alive: Which tables may be taken, `[N]`, bool; None for all.
        mix: The share of the semantic scores, from 0 to 1.
        n: Tables of each query at most, at least 1.

    Returns:
        Tables, rising, int32, ties for the last place to the smaller one; and their scores `[T]`, float32. Tables at
        -inf are never taken.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    given = {name: scores for name, scores in (("semantic", semantic), ("lexical", lexical)) if scores is not None}
    if not given:
        raise GTRError("semantic and lexical must not both be None, got no scores")
    first = next(iter(given.values()))
    device = first.device if isinstance(first, Tensor) else torch.device("cpu")
    shape: tuple[int | None, int | None] = (None, None)
    for name, scores in given.items():
        check_tensor(name, scores, shape, (torch.float32,), device)
        shape = (scores.shape[0], scores.shape[1])
    n_queries, n_tables = first.shape
    if alive is not None:
        check_tensor("alive", alive, (n_tables,), (torch.bool,), device)
    if n < 1:
        raise GTRError(f"n must be at least 1, got {n}")
    if not 0 <= mix <= 1:
        raise GTRError(f"mix must be from 0 to 1, got {mix}")
    if n_tables >= _MOST_TABLES:
        raise GTRError(f"semantic and lexical must have fewer than {_MOST_TABLES} columns, got {n_tables}")
    if not serves("best_mixed", device):
        return reference.seeds.best_mixed(semantic, lexical, alive, mix, n)
    n = min(n, n_tables)
    ids = torch.empty(n_queries, n, dtype=INDEX_DTYPE, device=device)
    scores = torch.empty(n_queries, n, device=device)
    counts = torch.zeros(n_queries, dtype=torch.int64, device=device)
    if n:
        n_blocks = -(-n_tables // _BLOCK)
        launch(
            "best_mixed",
            n_queries,
            [
                *(rows if rows is None else rows.contiguous() for rows in (semantic, lexical, alive)),
                *(float(mix), n_tables, n, ids, scores, counts),
            ],
            scratch_bytes((n_tables, 4), (n_blocks, 4), (n_blocks, 4), (n_tables, 4), (n_tables, 4)),
        )
    offsets = offsets_from_lengths(counts)
    if int(offsets[-1]) == n_queries * n:
        return Ragged(ids.view(-1), offsets), scores.view(-1)
    taken = torch.arange(n, device=device) < counts[:, None]
    return Ragged(ids[taken], offsets), scores[taken]
