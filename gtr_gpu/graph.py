"""The graph that the edges of all kinds make together: pairs of tables, and how far they are believed to be one."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from gtr_gpu.neighbors import OutEdges
from gtr_gpu.ragged import Ragged, SparseMatrix

# Fitted by logistic regression to the tables that are there for it; `benchmarks/fit.py` prints these numbers. The
# log-odds that two neighbours are parts of one table, before any evidence:
BIAS = -6.7
# What evidence of a kind adds: that each is among the other's nearest, that both have the same, to the last piece, and
# that both have some but not the same.
LOG_ODDS: Mapping[tuple[str, str], float] = {
    ("semantic", "mutual"): 1.1,
    ("header", "mutual"): 1.5,
    ("column", "mutual"): 2.3,
    ("cells", "mutual"): 1.8,
    ("header", "equal"): 4.3,
    ("key", "equal"): 1.4,
    ("column", "equal"): 4.8,
    ("caption", "equal"): 3.0,
    # Less than was fitted (-11): the benchmark's parts all have their source's caption, those of others may not.
    ("caption", "different"): -4.0,
}
# The share of such pairs among those neighbours, and how many of a corpus's own pairs it weighs as much as.
SHARE = 0.17
_SHARE_WEIGHT = 20
_SHARE_ROUNDS = 100

# Edges that are believed less are left out: all of a table's together would move nothing.
_LEAST_BELIEF = 0.02


def believed_graph(
    edges: Mapping[str, OutEdges],
    signatures: Mapping[str, Tensor],
    weights: Mapping[str, float],
    alive: Tensor,
) -> SparseMatrix:
    """One graph of all kinds of edges, W(t, u) = the belief that t and u belong together, as parts of one table do.

    Log-odds are added up over the kinds: of two tables that are each other's nearest by a kind, and of two that have
    the very same evidence, such as all column names. One kind alone convinces nobody, since there is always somebody
    nearest; several kinds do. How many of the pairs are parts of one table depends on the corpus, and is estimated from
    all pairs together: in a corpus of whole tables the same evidence convinces less. Each table believes in itself, so
    that weak edges do no harm where none is strong.

    Args:
        edges: For each kind the neighbours of tables 0 to N - 1.
        signatures: For each kind that has evidence, see `signatures_of`, `[N]`, int64.
        weights: How much a kind's evidence counts, 1 by default; at 0 its edges are left out as well.
        alive: Which tables take part, `[N]`, bool.

    Returns:
        W `[N, N]`, symmetric, entries above 0 and at most 1, with 1 on the diagonal of tables that are alive, float32.

    Raises:
        ValueError: The edges are not those of N tables.
    """
    n_tables = alive.numel()
    weights = {kind: weights.get(kind, 1.0) for kind in (*edges, *signatures)}
    pairs, found = pair_evidence({kind: of for kind, of in edges.items() if weights[kind] > 0}, signatures, alive)
    odds = torch.full((pairs.numel(),), BIAS, dtype=torch.float64)
    for (kind, what), holds in found.items():
        odds += weights[kind] * LOG_ODDS[kind, what] * holds
    belief = _for_this_corpus(odds)
    kept = belief >= _LEAST_BELIEF
    low, high, strengths = pairs[kept] // n_tables, pairs[kept] % n_tables, belief[kept].float()
    own = alive.nonzero().flatten()
    return SparseMatrix.from_entries(
        torch.cat([low, high, own]),
        torch.cat([high, low, own]),
        torch.cat([strengths, strengths, torch.ones(own.numel())]),
        (n_tables, n_tables),
    )


def pair_evidence(
    edges: Mapping[str, OutEdges], signatures: Mapping[str, Tensor], alive: Tensor
) -> tuple[Tensor, dict[tuple[str, str], Tensor]]:
    """What speaks for each pair of neighbours, and against it.

    Args:
        edges: For each kind the neighbours of tables 0 to N - 1.
        signatures: For each kind that has evidence, `[N]`, int64.
        alive: Which tables take part, `[N]`, bool.

    Returns:
        Each pair of tables of which one is among the other's nearest, as smaller id · N + larger id, rising, `[P]`,
        int64; and for each entry of `LOG_ODDS` that kinds are there for, whether it holds, `[P]`, bool.

    Raises:
        ValueError: The edges are not those of N tables.
    """
    n_tables = alive.numel()
    chosen = {}
    for kind, of_kind in edges.items():
        if len(of_kind) != n_tables:
            raise ValueError(f"the edges of kind {kind} must be those of {n_tables} tables, got {len(of_kind)}")
        chosen[kind] = _pairs(of_kind, alive)
    nothing = torch.empty(0, dtype=torch.int64)
    pairs = torch.unique(torch.cat([nothing, *(joined for joined, _ in chosen.values())]))
    low, high = pairs // n_tables, pairs % n_tables
    found = {}
    for kind, what in LOG_ODDS:
        if what == "mutual" and kind in chosen:
            joined, mutual = chosen[kind]
            found[kind, what] = torch.zeros(pairs.numel(), dtype=torch.bool)
            found[kind, what][torch.searchsorted(pairs, joined[mutual])] = True
        elif what != "mutual" and kind in signatures:
            first, second = signatures[kind][low], signatures[kind][high]
            same = first == second
            found[kind, what] = (first != 0) & (second != 0) & (same if what == "equal" else ~same)
    return pairs, found


def signatures_of(evidence: Ragged) -> Tensor:
    """One number for each table's evidence, the same where all pieces are the same.

    Args:
        evidence: Ids of pieces, distinct and rising in each row; N rows, int32.

    Returns:
        `[N]`, int64; 0 for tables without evidence. Two others are equal by accident with p = 2^-64.
    """
    total = torch.zeros(len(evidence), dtype=torch.int64, device=evidence.device)
    return total.index_add_(0, evidence.segment_ids(), _spread(evidence.values.long()))


def _for_this_corpus(odds: Tensor) -> Tensor:
    """What log-odds `[P]` become where another share of the pairs are parts of one table: probabilities `[P]`.

    The share is the one that the probabilities add up to, found by expectation maximisation (Saerens, Latinne and
    Decaestecker, Adjusting the outputs of a classifier to new a priori probabilities, 2002). It is never more than the
    fitted one: where all tables have the same header, it says nothing, though all pairs seem to be parts of one table.
    """
    share, belief = SHARE, torch.sigmoid(odds)
    for _ in range(_SHARE_ROUNDS):
        before = share
        share = min((float(belief.sum()) + SHARE * _SHARE_WEIGHT) / (belief.numel() + _SHARE_WEIGHT), SHARE)
        belief = torch.sigmoid(odds + math.log(share / (1 - share)) - math.log(SHARE / (1 - SHARE)))
        if abs(share - before) < SHARE / 1000:
            break
    return belief


def _spread(values: Tensor) -> Tensor:
    """Numbers that are spread over 64 bits, so that sums of different ones differ (the finaliser of SplitMix64)."""
    values = (values + 1) * -7046029254386353131
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685)):
        values = (values ^ _shifted(values, shift)) * factor
    return values ^ _shifted(values, 31)


def _shifted(values: Tensor, by: int) -> Tensor:
    """Shifted to the right and filled up by zeros; torch fills up by copies of the sign."""
    return (values >> by) & ((1 << (64 - by)) - 1)


def _pairs(edges: OutEdges, alive: Tensor) -> tuple[Tensor, Tensor]:
    """Each pair of neighbours once, as smaller id · N + larger id, rising, and whether each chose the other.

    A table that was there before the other came has chosen without it: whether it would, its last choice tells.
    """
    n_tables = len(edges)
    targets = edges.ids.long()
    sources = torch.arange(n_tables)[:, None].expand_as(targets)
    valid = (targets >= 0) & (targets != sources) & (edges.similarities > 0)
    valid &= alive[sources] & alive[targets.clamp_min(0)]
    sources, targets, similarities = sources[valid], targets[valid], edges.similarities[valid]
    keys = torch.minimum(sources, targets) * n_tables + torch.maximum(sources, targets)
    pairs, entry, times = torch.unique(keys, return_inverse=True, return_counts=True)
    mutual = times > 1
    mutual[entry[similarities > edges.similarities[targets, -1]]] = True
    return pairs, mutual
