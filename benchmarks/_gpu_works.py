"""What `gpu.py` measures: each operation on made data, with the least that it has to move and to compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gtr_gpu.ops import (
    counts,
    halves,
    kmeans,
    lexical,
    pagerank,
    pooling,
    representative,
    seeds,
    segments,
    sparse_top_m,
    top_m,
    transfer,
    union,
)
from gtr_gpu.ops.types import Transfer
from gtr_gpu.ragged import Ragged, SparseMatrix


@dataclass(frozen=True)
class Work:
    """One operation.

    Attributes:
        operation: Its name.
        what: The sizes, for a person.
        run: Does it.
        operations: Additions and multiplications of the matrix product in it; 0 where there is none.
        passes: How often its inputs are read at least; of a walk, its steps.
        within: How far results may lie from the CPU's, beside places where ties fall another way.
        given: What it reads.
    """

    operation: str
    what: str
    run: Callable[[], Any]
    given: Any
    operations: int = 0
    passes: int = 1
    within: float = 1e-5


def tensors_in(value: object) -> Iterator[Tensor]:
    """All tensors of a result or an argument."""
    if isinstance(value, Tensor):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from tensors_in(getattr(value, field.name))
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for part in value:
            yield from tensors_in(part)


def n_bytes(value: object) -> int:
    """The size of all tensors in it."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_in(value))


class Data:
    """Made data on a device; the same numbers on each.

    Args:
        device: Where it goes.
        scale: 1 for a whole run; less for a trial.
    """

    def __init__(self, device: torch.device, scale: float) -> None:
        self.device = device
        self.nodes = max(300, int(60_000 * scale))
        self.queries = max(4, int(512 * scale))
        self.candidates = min(self.nodes // 3, 2_000)
        self.terms = max(500, int(50_000 * scale))

    def _random(self, *shape: int, seed: int) -> Tensor:
        return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))

    @cached_property
    def features(self) -> Tensor:
        rows = torch.randn(self.nodes, 384, generator=torch.Generator().manual_seed(1))
        return torch.nn.functional.normalize(rows).to(self.device)

    @cached_property
    def questions(self) -> Tensor:
        rows = torch.randn(self.queries, 384, generator=torch.Generator().manual_seed(2))
        return torch.nn.functional.normalize(rows).to(self.device)

    @cached_property
    def graph(self) -> SparseMatrix:
        ends = (self._random(2, 8 * self.nodes, seed=3) * self.nodes).long()
        rows, columns = ends[:, ends[0] != ends[1]]
        weights = self._random(rows.numel(), seed=4) + 0.01
        both = torch.cat([rows, columns]), torch.cat([columns, rows])
        return SparseMatrix.from_entries(*both, weights.repeat(2), (self.nodes, self.nodes)).to(self.device)

    def some(self, n_queries: int, n_candidates: int) -> Ragged:
        """Candidates of each query, rising."""
        draws = self._random(n_queries, self.nodes, seed=5)
        return Ragged.from_rows([row.argsort()[:n_candidates].sort().values for row in draws]).to(self.device)

    @cached_property
    def chosen(self) -> Ragged:
        return self.some(self.queries, self.candidates)

    @cached_property
    def scores(self) -> Tensor:
        return self._random(self.chosen.values.numel(), seed=6).to(self.device)

    @cached_property
    def documents(self) -> Ragged:
        lengths = (self._random(self.nodes, seed=7) * 80).long()
        terms = (self._random(int(lengths.sum()), seed=8) ** 3 * self.terms).int()
        return Ragged.from_lengths(terms, lengths).to(self.device)

    @cached_property
    def asked(self) -> SparseMatrix:
        terms = (self._random(self.queries * 8, seed=9) ** 2 * self.terms).int()
        lengths = torch.full((self.queries,), 8)
        return lexical.term_counts(Ragged.from_lengths(terms, lengths).to(self.device), self.terms)[0]

    @cached_property
    def words(self) -> SparseMatrix:
        """The documents as unit rows of weights, without the columns that more than a tenth of them have."""
        counted, _ = lexical.term_counts(self.documents, self.terms)
        columns = counted.columns.values.long()
        rare = (torch.bincount(columns, minlength=self.terms) * 10 <= self.nodes)[columns]
        shape = (self.nodes, self.terms)
        weights = counted.weights[rare].float()
        return SparseMatrix.from_entries(counted.row_ids()[rare], columns[rare], weights, shape).normalized()

    @cached_property
    def clusters(self) -> Ragged:
        """Typical nodes of 64 clusters."""
        return self.some(64, 50)


def works(device: torch.device, scale: float) -> Iterator[Work]:
    """All works, one after the other; memory of one is given back before the next."""
    data = Data(device, scale)
    yield from _walks(data)
    yield from _products(data)
    yield from _sparse(data)
    yield from _clusters(data)
    yield from _segments(data)
    yield from _best(data)
    yield from _texts(data)


def _walks(data: Data) -> Iterator[Work]:
    graph, chosen = data.graph, data.chosen
    sizes = f"{data.queries} queries, {data.candidates:,} candidates each, {graph.weights.numel():,} edges"
    yield Work("induced_transfer", sizes, lambda: transfer.induced_transfer(chosen, graph), chosen)
    yield Work("widen", sizes, lambda: transfer.widen(chosen, graph), chosen)
    few = data.some(max(2, data.queries // 32), data.candidates)

    def similar() -> object:
        return transfer.similarity_transfer(few, lambda tables: data.features[tables.long()], 0.15)

    products = 2 * 384 * data.candidates**2 * len(few)
    yield Work(
        "similarity_transfer", f"{len(few)} queries, {data.candidates:,} candidates each", similar, few, products
    )
    alone = data.some(1, data.nodes * 5 // 6)
    for name, batch in ((sizes, chosen), (f"one query of {alone.values.numel():,} candidates", alone)):
        walked = transfer.induced_transfer(batch, graph)
        h = segments.segment_normalize(data._random(batch.values.numel(), seed=10).to(data.device), batch.offsets)
        steps = int(pagerank.personalized_pagerank(walked, h, **_WALK).iterations.max())

        def walk(walked: Transfer = walked, h: Tensor = h) -> object:
            return pagerank.personalized_pagerank(walked, h, **_WALK).values

        yield Work("personalized_pagerank", f"{name}, {steps} steps", walk, (walked, h), passes=steps, within=1e-6)


_WALK = {"damping": 0.85, "tolerance": 1e-6, "max_iterations": 100}


def _products(data: Data) -> Iterator[Work]:
    features, questions = data.features, data.questions
    sizes = f"{len(questions)} by {len(features):,} of 384 numbers"
    product = 2 * 384 * len(questions) * len(features)
    for dtype in (torch.float32, torch.bfloat16):
        left, right = questions.to(dtype), features.to(dtype)
        name = f"{sizes}, {str(dtype).removeprefix('torch.')}"
        top = lambda left=left, right=right: top_m.dense_top_m(left, right, 100)  # noqa: E731
        yield Work("dense_top_m", name, top, (left, right), product, within=1e-4)
    ids, scores = top_m.dense_top_m(questions, features[: data.nodes // 2], 100)
    more, others = top_m.dense_top_m(questions, features[data.nodes // 2 :], 100)
    more = torch.where(more >= 0, more + data.nodes // 2, more)
    merge = lambda: top_m.merge_top_m(ids, scores, more, others)  # noqa: E731
    yield Work("merge_top_m", f"100 and 100 of {len(questions)}", merge, (ids, scores, more, others))
    for n_clusters in (64, 1_024):
        centroids = features[:: max(1, len(features) // n_clusters)][:n_clusters].clone()
        flops = 2 * 384 * len(features) * len(centroids)
        sizes = f"{len(features):,} rows of 384, K = {len(centroids)}"
        labels, _ = kmeans.assign(features, centroids)
        assign = lambda centroids=centroids: kmeans.assign(features, centroids)[1]  # noqa: E731
        yield Work("assign", sizes, assign, (features, centroids), flops)
        label = lambda centroids=centroids: kmeans.nearest(features, centroids)  # noqa: E731
        yield Work("nearest", sizes, label, (features, centroids), flops)
        update = lambda labels=labels, c=centroids: kmeans.update(features, labels, len(c))  # noqa: E731
        yield Work("update", sizes, update, (features, labels))
        sums, members = (part[None] for part in update())
        mean = lambda s=sums, m=members, c=centroids: kmeans.means(s, m, c[None])[0]  # noqa: E731
        yield Work("means", sizes, mean, (sums, centroids))
        distances = lambda c=centroids, labels=labels: kmeans.distances_to(features, c, labels)  # noqa: E731
        yield Work("distances_to", sizes, distances, (features, labels, centroids))


def _segments(data: Data) -> Iterator[Work]:
    chosen, scores = data.chosen, data.scores
    sizes = f"{len(chosen)} segments of {data.candidates:,}"
    given = (scores, chosen.offsets)
    for function in (
        *(segments.segment_sum, segments.segment_mean, segments.segment_max),
        *(segments.segment_normalize, segments.segment_softmax),
    ):
        yield Work(function.__name__, sizes, lambda function=function: function(*given), given)
    top = lambda: segments.segment_top_k(scores, chosen.values, chosen.offsets, 50)[1]  # noqa: E731
    yield Work("segment_top_k", f"{sizes}, the best 50", top, (*given, chosen.values))
    wide = data.features, torch.arange(0, data.nodes + 1, max(1, data.nodes // 500), device=data.device)
    wide = (wide[0][: int(wide[1][-1])], wide[1])
    yield Work("segment_sum", f"{len(wide[1]) - 1} segments of rows of 384", lambda: segments.segment_sum(*wide), wide)


def _best(data: Data) -> Iterator[Work]:
    cosines = data.questions @ data.features.T
    other = cosines.flip(0).clamp(min=0)
    sizes = f"200 of {data.nodes:,} for {data.queries} queries"
    best = lambda: seeds.best_mixed(cosines, other, None, 0.5, 200)  # noqa: E731
    yield Work("best_mixed", sizes, best, (cosines, other))
    halved = halves.halve(data.features)
    rough = torch.empty(cosines.shape, dtype=torch.bfloat16, device=data.device)
    product = 2 * cosines.numel() * data.features.shape[1]
    multiply = lambda: halves.halved_products(data.questions, halved, rough)  # noqa: E731
    given = (data.questions, halved.rows, rough)
    yield Work(
        "halved_products", f"{sizes.partition('for ')[2]}, {data.nodes:,} rows, bfloat16", multiply, given, product
    )
    errors = multiply()

    def refined() -> object:
        return seeds.best_refined(rough, errors, data.questions, data.features, other, None, 0.5, 200)

    yield Work("best_refined", sizes, refined, (rough, other, data.questions))


def _sparse(data: Data) -> Iterator[Work]:
    """Sparse rows; the limit counts each product of an entry."""
    rows = data.words
    sizes = f"{data.nodes:,} rows of {rows.weights.numel():,} entries"
    pairs = int(rows.columns.values.bincount().double().square().sum())
    top = lambda: sparse_top_m.sparse_top_m(rows, rows, 3)[1]  # noqa: E731
    yield Work("sparse_top_m", f"{sizes}, the best 3", top, rows, 2 * pairs)
    labels = torch.arange(data.nodes, dtype=torch.int32, device=data.device) % 64
    sums, members = kmeans.update(rows, labels, 64)
    centroids = (sums / members[:, None]).float()
    by_column = centroids.T.contiguous()
    sizes, product = f"{sizes}, K = 64", 2 * 64 * rows.weights.numel()
    assign = lambda: kmeans.assign(rows, centroids)[1]  # noqa: E731
    yield Work("assign", sizes, assign, (rows, centroids), product)
    yield Work("nearest", sizes, lambda: kmeans.nearest(rows, centroids), (rows, centroids), product)
    yield Work("update", sizes, lambda: kmeans.update(rows, labels, 64), (rows, labels))
    multiply = lambda: kmeans.sparse_product(rows, by_column)  # noqa: E731
    yield Work("sparse_product", sizes, multiply, (rows, by_column), product)


def _clusters(data: Data) -> Iterator[Work]:
    typical, questions, features = data.clusters, data.questions, data.features
    sizes = f"{len(questions)} queries, {len(typical)} clusters of {typical.values.numel() // len(typical)}"
    product = 2 * features.shape[1] * len(questions) * typical.values.numel()
    score = lambda: representative.cluster_scores(questions, features, typical)  # noqa: E731
    yield Work("cluster_scores", sizes, score, (questions, features[typical.values.long()]), product)
    scores = score()
    probe = lambda: representative.probe(scores, [range(len(typical))], 8)  # noqa: E731
    yield Work("probe", f"8 of {len(typical)} clusters for {len(scores)} queries", probe, scores)
    members, found = data.chosen, probe()
    probed = Ragged(found.values % len(members), found.offsets)
    read = members.select(probed.values).values
    sizes = f"{len(probed)} queries, {read.numel():,} tables of their clusters"
    yield Work("members_of", sizes, lambda: representative.members_of(probed, members), read)
    other = data.some(len(members), data.candidates // 2)
    sizes = f"{len(members)} queries, {data.candidates:,} and {data.candidates // 2:,} tables"
    yield Work("union", sizes, lambda: union.union([members, other]), (members, other))


def _texts(data: Data) -> Iterator[Work]:
    documents, n_terms = data.documents, data.terms
    tokens = documents.values.numel()
    sizes = f"{len(documents):,} rows of {tokens:,} tokens"
    yield Work("term_counts", sizes, lambda: lexical.term_counts(documents, n_terms)[0], documents)
    letters = documents.values % 12 + 1
    flags = torch.stack([documents.values % 7 == 0, documents.values % 5 == 0], 1)
    parts = Ragged(documents.values % 17, documents.offsets)
    count = lambda: counts.structural_counts(parts, letters, flags, 17)  # noqa: E731
    yield Work("structural_counts", sizes, count, (parts, letters, flags))
    postings = lexical.term_counts(documents, n_terms)[0].transpose()
    lengths = documents.lengths.float()
    average = float(lengths.mean())
    weigh = lambda: lexical.bm25_weights(postings, lengths, average).weights  # noqa: E731
    yield Work("bm25_weights", f"{postings.weights.numel():,} postings", weigh, (postings, lengths))
    weighted, frequency = lexical.bm25_weights(postings, lengths, average), postings.columns.lengths
    asked, n_tables = data.asked, len(documents)
    touched = postings.columns.select(asked.columns.values).values
    score = lambda: lexical.posting_scores(asked, weighted, frequency, n_tables)  # noqa: E731
    sizes = f"{data.queries} queries, {touched.numel():,} postings"
    yield Work("posting_scores", sizes, score, (touched, touched), within=1e-4)
    candidates, edges = data.chosen, transfer.induced_transfer(data.chosen, data.graph)
    weigh_terms = lambda: lexical.term_weights(asked, candidates, weighted)  # noqa: E731
    sizes = f"{data.queries} queries, {data.candidates:,} candidates each, {asked.weights.numel():,} terms"
    weights = weigh_terms()
    yield Work("term_weights", sizes, weigh_terms, (candidates, asked))
    idf = lexical.bm25_idf(frequency, n_tables).float()
    pool = lambda: pooling.pooled_terms(weights, asked, idf, edges)  # noqa: E731
    sizes = f"{sizes}, {edges.weights.weights.numel():,} edges"
    yield Work("pooled_terms", sizes, pool, (weights, edges.weights), within=1e-4)
