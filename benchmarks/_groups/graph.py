"""PageRank and the whole fine stage on a made graph of 60,000 tables, against graph libraries and a dense S.

Tables are points of a mixture in 16 dimensions, turned into 384 so that cosines stay what they are; the graph joins
each to its m nearest (exact), with weights cos^8, both ways. A question is a point beside one of them; its seeds are
the 200 nearest tables, its candidates these and their neighbours, its personalisation the softmax of its cosines with
the seeds.

The walk has damping .85 and stops where the sum of residuals falls below 1e-6 for all but igraph, whose solver has a
tolerance of its own, 1e-10: ours has that too where it is compared with it. In a power iteration, such as SciPy's here,
a step's change is the residual; ours is Chebyshev's iteration, which needs fewer steps to the same one. SciPy's
matrices are Pᵀ in CSR and float64, made beforehand, as are igraph's graphs and NetworkX's; scikit-network takes W and
makes its own P.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from _contest import Arrays, Row, Sizes, Work, Works, close, not_compared

if TYPE_CHECKING:
    import torch

    from gtr_gpu.ragged import SparseMatrix

NEIGHBORS = (3, 8)
SEEDS = 200
DAMPING, TOLERANCE, ITERATIONS = 0.85, 1e-6, 200
IGRAPH_TOLERANCE = 1e-10
FLOOR, KEPT, TEMPERATURE = 0.3, 50, 0.05
_LATENT, _WIDTH, _PER_TOPIC = 16, 384, 40


def prepare(options: Namespace, sizes: Sizes, folder: Path) -> None:
    """Writes the graphs, the questions' candidates and their transfer matrices."""
    import torch

    from gtr_gpu.neighbors import semantic_edges
    from gtr_gpu.ops.segments import segment_softmax
    from gtr_gpu.ops.transfer import induced_transfer, widen
    from gtr_gpu.ragged import Ragged

    draw = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw)

    topics = normal(max(1, sizes.nodes // _PER_TOPIC), _LATENT)
    points = topics[torch.randint(len(topics), (sizes.nodes,), generator=draw)] + normal(sizes.nodes, _LATENT) / 2
    points = torch.nn.functional.normalize(points, dim=1)
    turn = torch.linalg.qr(normal(_WIDTH, _LATENT)).Q.T
    asked = points[torch.randint(sizes.nodes, (sizes.queries,), generator=draw)] + normal(sizes.queries, _LATENT) / 10
    asked = torch.nn.functional.normalize(asked, dim=1)
    scores = asked @ points.T
    n_seeds, n_candidates = min(SEEDS, sizes.nodes // 4), min(sizes.candidates, sizes.nodes)
    seeds = scores.topk(n_seeds, 1).indices.sort(1).values
    fine = scores.topk(n_candidates, 1).indices.sort(1).values
    arrays = {
        "features": points @ turn,
        "fine_candidates": fine.int(),
        "fine_scores": scores.gather(1, fine),
    }
    edges = semantic_edges(points, max(NEIGHBORS))
    for m in NEIGHBORS:
        graph = _undirected(edges.ids[:, :m].long(), edges.similarities[:, :m] ** 8)
        offsets = torch.arange(0, seeds.numel() + 1, n_seeds)
        candidates = widen(Ragged(seeds.flatten().int(), offsets), graph)
        owner = candidates.segment_ids()
        seeded = torch.zeros(sizes.queries, sizes.nodes, dtype=torch.bool).scatter_(1, seeds, True)
        values = scores[owner, candidates.values.long()]
        values = torch.where(seeded[owner, candidates.values.long()], values, -torch.inf)
        transfer = induced_transfer(candidates, graph)
        arrays |= {
            f"graph_offsets_{m}": graph.columns.offsets,
            f"graph_columns_{m}": graph.columns.values,
            f"graph_weights_{m}": graph.weights,
            f"candidates_{m}": candidates.values,
            f"offsets_{m}": candidates.offsets,
            f"h_{m}": segment_softmax(values, candidates.offsets, TEMPERATURE),
            f"transfer_offsets_{m}": transfer.weights.columns.offsets,
            f"transfer_columns_{m}": transfer.weights.columns.values,
            f"transfer_weights_{m}": transfer.weights.weights,
            f"degrees_{m}": transfer.degrees,
        }
    np.savez(folder / "graph.npz", **{name: array.numpy() for name, array in arrays.items()})


def _undirected(targets: torch.Tensor, strengths: torch.Tensor) -> SparseMatrix:
    """Each table's neighbours `[n, m]` as a symmetric matrix."""
    import torch

    from gtr_gpu.ragged import SparseMatrix

    n_tables = len(targets)
    sources = torch.arange(n_tables)[:, None].expand_as(targets)
    keys = torch.minimum(sources, targets) * n_tables + torch.maximum(sources, targets)
    pairs, entry = torch.unique(keys, return_inverse=True)
    weights = torch.zeros(len(pairs)).scatter_(0, entry.flatten(), strengths.flatten())
    low, high = pairs // n_tables, pairs % n_tables
    ends = torch.cat([low, high]), torch.cat([high, low])
    return SparseMatrix.from_entries(*ends, weights.repeat(2), (n_tables, n_tables))


# Ours


def gtr(folder: Path, sizes: Sizes) -> Works:
    """Our operations, and the reference's."""
    import torch

    from gtr_gpu.ops.dispatch import use
    from gtr_gpu.ops.pagerank import personalized_pagerank
    from gtr_gpu.ops.segments import segment_softmax, segment_top_k
    from gtr_gpu.ops.transfer import induced_transfer, similarity_transfer
    from gtr_gpu.ops.types import Ranks, Transfer
    from gtr_gpu.ragged import Ragged, SparseMatrix

    arrays = {name: torch.from_numpy(array) for name, array in _load(folder).items()}
    works: dict[str, Work] = {}

    def walk(transfer: Transfer, h: torch.Tensor, tolerance: float = TOLERANCE) -> Ranks:
        return personalized_pagerank(transfer, h, damping=DAMPING, tolerance=tolerance, max_iterations=10 * ITERATIONS)

    def by_reference(run: Callable[[], Any]) -> Any:  # noqa: ANN401 (what it runs)
        with use("reference"):
            return run()

    def ranks_of(ranks: Ranks) -> Arrays:
        return {"ranks": ranks.values.numpy()}

    def graph_of(m: int) -> SparseMatrix:
        columns = Ragged(arrays[f"graph_columns_{m}"], arrays[f"graph_offsets_{m}"])
        return SparseMatrix(columns, arrays[f"graph_weights_{m}"], len(columns))

    for m in NEIGHBORS:
        graph, h = graph_of(m), arrays[f"h_{m}"]
        candidates = Ragged(arrays[f"candidates_{m}"], arrays[f"offsets_{m}"])
        columns = Ragged(arrays[f"transfer_columns_{m}"], arrays[f"transfer_offsets_{m}"])
        matrix = SparseMatrix(columns, arrays[f"transfer_weights_{m}"], len(columns))
        transfer = Transfer(matrix, arrays[f"degrees_{m}"], candidates.offsets)
        # Each step reads a column, a weight and a number of x for each edge, and seven numbers for each candidate.
        steps = walk(transfer, h).iterations
        traffic = 12 * matrix.columns.lengths + 28
        running = torch.cat([traffic.new_zeros(1), traffic.cumsum(0)])[candidates.offsets]
        needs = {"cached_bytes": float((running.diff() * steps).sum())}
        works |= {
            f"pagerank {m}": Work(lambda t=transfer, h=h: walk(t, h), sizes.queries, ranks_of, needs),
            f"pagerank {m} exact": Work(lambda t=transfer, h=h: walk(t, h, IGRAPH_TOLERANCE), sizes.queries, ranks_of),
            f"reference {m}": Work(lambda t=transfer, h=h: by_reference(lambda: walk(t, h)), sizes.queries, ranks_of),
            f"induced {m}": Work(
                lambda c=candidates, g=graph, h=h: walk(induced_transfer(c, g), h), sizes.queries, ranks_of
            ),
        }

    together, features = graph_of(NEIGHBORS[0]), arrays["features"]
    tables, scores = arrays["fine_candidates"], arrays["fine_scores"]

    def fine(n: int, transfer_of: Callable[[Ragged], Transfer]) -> tuple[torch.Tensor, Ranks]:
        offsets = torch.arange(0, n * tables.shape[1] + 1, tables.shape[1])
        candidates = Ragged(tables[:n].flatten(), offsets)
        h = segment_softmax(scores[:n].flatten(), offsets, TEMPERATURE)
        ranks = walk(transfer_of(candidates), h)
        return segment_top_k(ranks.values, candidates.values, offsets, KEPT)[0], ranks

    def similar(candidates: Ragged) -> Transfer:
        return similarity_transfer(candidates, lambda rows: features[rows.long()], FLOOR)

    works |= {
        "fine": Work(
            lambda: fine(sizes.queries, lambda candidates: induced_transfer(candidates, together)), sizes.queries
        ),
        "fine dense": Work(lambda: fine(sizes.few, similar), sizes.few, lambda found: ranks_of(found[1])),
    }
    return works


# Peers


def dense(folder: Path, sizes: Sizes) -> Works:
    """The fine stage as the authors' code does it, one question at a time: a dense S, cut, normalised, multiplied."""
    import torch

    arrays = _load(folder)
    features, tables = torch.from_numpy(arrays["features"]), torch.from_numpy(arrays["fine_candidates"])
    shares = torch.softmax(torch.from_numpy(arrays["fine_scores"]) / TEMPERATURE, 1)

    def ask(query: int) -> torch.Tensor:
        rows = features[tables[query].long()]
        similarity = rows @ rows.T
        similarity[similarity < FLOOR] = 0
        transfer = similarity / similarity.sum(1, keepdim=True)
        h = shares[query]
        x = h
        for _ in range(ITERATIONS):
            moved = (1 - DAMPING) * h + DAMPING * (transfer.T @ x)
            change = float((moved - x).abs().sum())
            x = moved
            if change < TOLERANCE:
                break
        x.topk(min(KEPT, len(x)))
        return x

    def run() -> list[torch.Tensor]:
        return [ask(query) for query in range(sizes.few)]

    return {"fine": Work(run, sizes.few, lambda found: {"ranks": torch.cat(found).numpy()})}


def scipy(folder: Path, sizes: Sizes) -> Works:
    """Power iteration on CSR matrices: question by question, all at once, and with the subgraphs still to be taken."""
    arrays = _load(folder)
    works: dict[str, Work] = {}

    def joined(found: list[np.ndarray]) -> Arrays:
        return {"ranks": np.concatenate(found)}

    for m in NEIGHBORS:
        parts = [(*_transposed(weights), h) for _, weights, h in _subgraphs(arrays, m)]
        graph = _csr(arrays, f"graph_{{}}_{m}")
        tables = [(nodes, h) for nodes, _, h in _subgraphs(arrays, m)]
        h, offsets = arrays[f"h_{m}"].astype(np.float64), arrays[f"offsets_{m}"]
        together = (*_transposed(_csr(arrays, f"transfer_{{}}_{m}")), h, offsets)

        def one_by_one(parts: list[Any] = parts) -> list[np.ndarray]:
            return [_walk(*part) for part in parts]

        def at_once(together: tuple[Any, np.ndarray, np.ndarray, np.ndarray] = together) -> list[np.ndarray]:
            return [_walk_together(*together)]

        def induced(tables: list[Any] = tables, graph: Any = graph) -> list[np.ndarray]:  # noqa: ANN401
            return [_walk(*_transposed(graph[nodes][:, nodes]), h) for nodes, h in tables]

        works |= {
            f"one by one {m}": Work(one_by_one, sizes.queries, joined),
            f"together {m}": Work(at_once, sizes.queries, joined),
            f"induced {m}": Work(induced, sizes.queries, joined),
        }
    return works


def _transposed(weights: Any) -> tuple[Any, np.ndarray]:  # noqa: ANN401 (SciPy is imported late)
    """α·Pᵀ in SciPy's CSR, and the rows without an edge."""
    degrees = np.asarray(weights.sum(1)).ravel()
    dangling = np.flatnonzero(degrees == 0)
    degrees[dangling] = 1
    # W is symmetric, so that Pᵀ is W with its columns divided by the degrees.
    matrix = weights.copy()
    matrix.data *= (DAMPING / degrees)[matrix.indices]
    return matrix, dangling


def _walk(matrix: Any, dangling: np.ndarray, h: np.ndarray) -> np.ndarray:  # noqa: ANN401
    """One question's power iteration."""
    x, restart = h.copy(), (1 - DAMPING) * h
    for _ in range(ITERATIONS):
        moved = matrix @ x
        moved += restart
        if dangling.size:
            moved += (DAMPING * x[dangling].sum()) * h
        x -= moved  # becomes the change; its memory is not needed any more
        change = np.abs(x, out=x).sum()
        x = moved
        if change < TOLERANCE:
            break
    return x


def _walk_together(matrix: Any, dangling: np.ndarray, h: np.ndarray, offsets: np.ndarray) -> np.ndarray:  # noqa: ANN401
    """All questions as one block-diagonal matrix, until the last of them has converged."""
    x, restart = h.copy(), (1 - DAMPING) * h
    lengths = np.diff(offsets)
    owner = np.repeat(np.arange(len(lengths)), lengths)[dangling]
    for _ in range(ITERATIONS):
        moved = matrix @ x
        moved += restart
        lost = np.bincount(owner, x[dangling], minlength=len(lengths))
        moved += np.repeat(DAMPING * lost, lengths) * h
        x -= moved
        change = np.add.reduceat(np.abs(x, out=x), offsets[:-1]).max()
        x = moved
        if change < TOLERANCE:
            break
    return x


def igraph(folder: Path, sizes: Sizes) -> Works:
    """python-igraph, with its default solver (PRPACK)."""
    from igraph import Graph

    arrays = _load(folder)
    works: dict[str, Work] = {}
    for m in NEIGHBORS:
        parts = []
        for _, weights, h in _subgraphs(arrays, m):
            entries = weights.tocoo()
            upper = entries.row < entries.col
            pairs = np.stack([entries.row[upper], entries.col[upper]], 1)
            parts.append((Graph(n=len(h), edges=pairs.tolist()), entries.data[upper].tolist(), h.tolist()))

        def run(parts: list[Any] = parts) -> list[list[float]]:
            return [
                graph.personalized_pagerank(directed=False, damping=DAMPING, reset=h, weights=weights)
                for graph, weights, h in parts
            ]

        works[f"pagerank {m}"] = Work(run, sizes.queries, _concatenated)
    return works


def scikit_network(folder: Path, sizes: Sizes) -> Works:
    """scikit-network's power iteration."""
    from sknetwork.ranking import PageRank

    arrays = _load(folder)
    works: dict[str, Work] = {}
    for m in NEIGHBORS:
        parts = [(weights, h) for _, weights, h in _subgraphs(arrays, m)]
        solver = PageRank(damping_factor=DAMPING, solver="piteration", n_iter=ITERATIONS, tol=TOLERANCE)

        def run(parts: list[Any] = parts, solver: PageRank = solver) -> list[np.ndarray]:
            return [solver.fit_predict(weights, h) for weights, h in parts]

        works[f"pagerank {m}"] = Work(run, sizes.queries, _concatenated)
    return works


def networkx(folder: Path, sizes: Sizes) -> Works:
    """NetworkX; a part of the questions."""
    import networkx as nx

    arrays = _load(folder)
    works: dict[str, Work] = {}
    for m in NEIGHBORS:
        parts = []
        for _, weights, h in _subgraphs(arrays, m, sizes.few):
            graph = nx.from_scipy_sparse_array(weights)
            parts.append((graph, dict(enumerate(h.tolist()))))

        def run(parts: list[Any] = parts) -> list[list[float]]:
            # Its tolerance is that of a node.
            return [list(nx.pagerank(graph, DAMPING, h, ITERATIONS, TOLERANCE / len(h)).values()) for graph, h in parts]

        works[f"pagerank {m}"] = Work(run, len(parts), _concatenated)
    return works


COMPETITORS: dict[str, Callable[[Path, Sizes], Works]] = {
    "gtr": gtr,
    "dense": dense,
    "scipy": scipy,
    "igraph": igraph,
    "scikit-network": scikit_network,
    "networkx": networkx,
}


def rows(sizes: Sizes) -> list[Row]:
    """The pairs to compare."""
    same = close("ranks", 1e-5)
    found: list[Row] = []
    for m in NEIGHBORS:
        work, ours = f"PageRank, {sizes.queries} questions, m = {m}", f"gtr/pagerank {m}"
        found += [
            Row(work, ours, f"scipy/one by one {m}", "SciPy CSR power iteration", same, 10),
            Row(work, ours, f"scipy/together {m}", "SciPy, one block-diagonal matrix", same),
            Row(work, f"{ours} exact", f"igraph/pagerank {m}", "igraph (both to 1e-10)", same, 10),
            Row(work, ours, f"scikit-network/pagerank {m}", "scikit-network", same, 10),
            Row(work, ours, f"networkx/pagerank {m}", "NetworkX", same, 100),
            Row(work, ours, f"gtr/reference {m}", "our reference in torch", same),
            Row(
                f"subgraphs and PageRank, m = {m}",
                *(f"gtr/induced {m}", f"scipy/induced {m}", "SciPy, slices of the graph", same),
            ),
        ]
    work = f"fine stage, {sizes.queries} questions, {sizes.candidates:,} candidates"
    other = "graph and dense S differ by design"
    return [
        *found,
        Row(work, "gtr/fine", "dense/fine", "dense S, one question at a time", not_compared(other), 200),
        Row("the same with S from all pairs", "gtr/fine dense", "dense/fine", "dense S", same),
    ]


def _load(folder: Path) -> Arrays:
    return dict(np.load(folder / "graph.npz"))


def _csr(arrays: Arrays, pattern: str) -> Any:  # noqa: ANN401 (a SciPy matrix; SciPy is imported late)
    from scipy import sparse

    offsets, columns, weights = (arrays[pattern.format(part)] for part in ("offsets", "columns", "weights"))
    n = len(offsets) - 1
    return sparse.csr_matrix((weights.astype(np.float64), columns, offsets.astype(np.int32)), shape=(n, n))


def _subgraphs(arrays: Arrays, m: int, n: int | None = None) -> Iterator[tuple[np.ndarray, Any, np.ndarray]]:
    """The tables, W and h of each question, W in SciPy's CSR and float64."""
    whole, offsets = _csr(arrays, f"transfer_{{}}_{m}"), arrays[f"offsets_{m}"]
    for start, stop in zip(offsets[:-1][:n], offsets[1:][:n], strict=True):
        h = arrays[f"h_{m}"][start:stop].astype(np.float64)
        yield arrays[f"candidates_{m}"][start:stop], whole[start:stop, start:stop], h / h.sum()


def _concatenated(found: list[Any]) -> Arrays:
    return {"ranks": np.concatenate([np.asarray(ranks) for ranks in found])}
