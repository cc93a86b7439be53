"""What candidates hold of a question's words together with their neighbours."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from gtr_gpu.ops.types import Transfer
from gtr_gpu.ragged import SparseMatrix


def pooled_terms(
    weights: Tensor, query_terms: SparseMatrix, idf: Tensor, transfer: Transfer, starts: Tensor
) -> tuple[Tensor, Tensor]:
    """See `gtr_gpu.ops.pooling.pooled_terms`; `starts` is where blocks do so in `weights`.

    Of one query after the other, so that no more is held than the weights of its own edges.
    """
    matrix = transfer.weights
    scores, shares = (torch.zeros(len(matrix.columns), device=weights.device) for _ in range(2))
    blocks = zip(pairwise(transfer.offsets.tolist()), pairwise(starts.tolist()), strict=True)
    for query, ((first, last), (start, stop)) in enumerate(blocks):
        if start == stop:
            continue
        terms = query_terms.slice(query, query + 1)
        own = weights[start:stop].view(last - first, -1)
        edges = matrix.slice(first, last)
        neighbours, factors = own[edges.columns.values.long() - first], edges.weights[:, None]
        rows = edges.row_ids()[:, None].expand(neighbours.shape)
        most = own.scatter_reduce(0, rows, factors * neighbours, "amax")
        held = torch.where(neighbours > 0, factors, 0)
        share = (own > 0).float().scatter_reduce_(0, rows, held, "amax")
        importance = idf[terms.columns.values.long()].double()
        scores[first:last] = (most.double() @ (terms.weights * importance)).float()
        shares[first:last] = (share.double() @ importance / importance.sum().clamp_min(1e-300)).float()
    return scores, shares
