"""The best tables of each query by its semantic and lexical scores."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import check_count, check_real, check_tensor, device_of
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import Argument, launch, scratch_bytes
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
    shape = _check(semantic, lexical, alive, mix, n)
    device = next(scores.device for scores in (semantic, lexical) if scores is not None)
    if not serves("best_mixed", device):
        return reference.seeds.best_mixed(semantic, lexical, alive, mix, n)
    return _launch("best_mixed", shape, [semantic, lexical, alive, mix], n, device)


@operation("best_refined_f32", "best_refined_f16")
def best_refined(
    rough: Tensor,
    errors: Tensor,
    queries: Tensor,
    features: Tensor,
    lexical: Tensor | None,
    alive: Tensor | None,
    mix: float,
    n: int,
) -> tuple[Ragged, Tensor]:
    """As `best_mixed`, of cosines that are known roughly, and computed exactly where it matters.

    The tables that may be among the best in spite of what rough scores are off are found, and get exact scores: those
    are the result, and the tables are the same as by exact scores of all.

    Args:
        rough: Scores `[B, N]`, bfloat16, see `halved_products`.
        errors: How far they were from the exact ones at most before they were rounded, `[B]`, float32.
        queries: `[B, d]`, float32.
        features: `[N, d]`, float32 or float16; the exact scores are their products with the queries.
        lexical: BM25 `[B, N]`, float32, or None.
        alive: Which tables may be taken, `[N]`, bool; None for all.
        mix: The share of the semantic scores, from 0 to 1.
        n: Tables of each query at most, at least 1.

    Returns:
        Tables and scores as `best_mixed` gives them.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    device = device_of("rough", rough, Tensor)
    shape = _check(rough, lexical, alive, mix, n, rough=True)
    check_tensor("errors", errors, (shape[0],), (torch.float32,), device)
    check_tensor("queries", queries, (shape[0], None), (torch.float32,), device)
    check_tensor("features", features, (shape[1], queries.shape[1]), (torch.float32, torch.float16), device)
    if not serves("best_refined", device):
        return reference.seeds.best_refined(queries, features, lexical, alive, mix, n)
    entry = "best_refined_f16" if features.dtype == torch.float16 else "best_refined_f32"
    arguments: list[Argument] = [rough, errors, queries, features, queries.shape[1], lexical, alive, mix]
    return _launch(entry, shape, arguments, n, device)


def _check(
    semantic: Tensor | None,
    lexical: Tensor | None,
    alive: Tensor | None,
    mix: float,
    n: int,
    rough: bool = False,
) -> tuple[int, int]:
    """Checks the arguments that both operations have; gives B and N."""
    first = ("rough", semantic, torch.bfloat16) if rough else ("semantic", semantic, torch.float32)
    given = [first, ("lexical", lexical, torch.float32)]
    shape: tuple[int | None, int | None] = (None, None)
    device = None
    for name, scores, kind in given:
        if scores is None:
            continue
        device = device or device_of(name, scores, Tensor)
        check_tensor(name, scores, shape, (kind,), device)
        shape = (scores.shape[0], scores.shape[1])
    if device is None:
        raise GTRError("semantic and lexical must not both be None, got no scores")
    n_queries, n_tables = shape
    assert n_queries is not None and n_tables is not None
    if alive is not None:
        check_tensor("alive", alive, (n_tables,), (torch.bool,), device)
    check_count("n", n, 1)
    check_real("mix", mix, 0, 1)
    if n_tables >= _MOST_TABLES:
        raise GTRError(f"semantic and lexical must have fewer than {_MOST_TABLES} columns, got {n_tables}")
    return n_queries, n_tables


def _launch(
    entry: str, shape: tuple[int, int], arguments: list[Argument], n: int, device: torch.device
) -> tuple[Ragged, Tensor]:
    """Gives an entry its scores and room for the results."""
    n_queries, n_tables = shape
    n = min(n, n_tables)
    ids = torch.empty(n_queries, n, dtype=INDEX_DTYPE, device=device)
    scores = torch.empty(n_queries, n, device=device)
    counts = torch.zeros(n_queries, dtype=torch.int64, device=device)
    if n:
        n_blocks = -(-n_tables // _BLOCK)
        launch(
            entry,
            n_queries,
            [*arguments, n_tables, n, ids, scores, counts],
            scratch_bytes((n_tables, 4), (n_blocks, 4), (n_blocks, 4), (n_tables, 4), (n_tables, 4)),
        )
    offsets = offsets_from_lengths(counts)
    if int(offsets[-1]) == n_queries * n:
        return Ragged(ids.view(-1), offsets), scores.view(-1)
    taken = torch.arange(n, device=device) < counts[:, None]
    return Ragged(ids[taken], offsets), scores[taken]
