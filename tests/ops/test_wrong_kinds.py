"""What every operation says of an argument of a wrong kind: a sentence that names it, whichever backend serves."""

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import dispatch, native
from gtr_gpu.ops.halves import Halves, halve
from gtr_gpu.ops.lexical import bm25_scores
from gtr_gpu.ops.types import Transfer
from gtr_gpu.ragged import Ragged, SparseMatrix

BACKENDS = ["reference", *(["native"] if native.extension() else [])]


def matrix(dtype: torch.dtype = torch.float32) -> SparseMatrix:
    """Symmetric, 3 by 3, with an empty row."""
    return SparseMatrix(Ragged.from_rows([[1], [0], []]), torch.ones(2, dtype=dtype), 3)


def proper() -> dict[str, dict[str, Any]]:
    """Arguments of every operation that it takes, all that it has by name."""
    rows, items, offsets = torch.eye(3), torch.tensor([0.5, 0.2, 0.3]), torch.tensor([0, 1, 3])
    batch, graph, counted = Ragged.from_rows([[0, 1], [2]]), matrix(), matrix(torch.int32)
    ids, bounds = torch.arange(3, dtype=torch.int32), {"values": items, "offsets": offsets}
    top = {"m": 1, "exclude": torch.tensor([0, 1, 2]), "max_tile": 64}
    mixed = {"lexical": rows, "alive": torch.ones(3, dtype=torch.bool), "mix": 0.5, "n": 2}
    transfer = Transfer(graph, torch.tensor([1.0, 1, 0]), torch.tensor([0, 2, 3]))
    walk = {"damping": 0.5, "tolerance": 1e-6, "max_iterations": 9}
    lengths = torch.ones(3)
    terms = SparseMatrix(Ragged.from_rows([[0], [1, 2]]), torch.ones(3, dtype=torch.int32), 3)
    return {
        "assign": {"rows": rows, "centroids": rows},
        "best_mixed": {"semantic": rows, **mixed},
        "best_refined": {
            **{"rough": rows.bfloat16(), "errors": torch.zeros(3), "queries": rows, "features": rows},
            **mixed,
        },
        "bm25_weights": {"postings": counted, "lengths": lengths, "average_length": 1.0, "k1": 1.2, "b": 0.75},
        "centroid_scores": {"queries": rows, "centroids": rows},
        "cluster_scores": {"queries": rows, "rows": rows, "typical": batch, "how": "mean"},
        "dense_top_m": {"queries": rows, "rows": rows, **top},
        "distances_to": {"rows": rows, "centroids": rows, "labels": ids},
        "halved_products": {"queries": rows, "halves": halve(rows), "out": torch.empty(3, 3, dtype=torch.bfloat16)},
        "induced_transfer": {"candidates": batch, "graph": graph},
        "members_of": {"probed": Ragged.from_rows([[0], [1]]), "members": batch},
        "means": {
            "sums": torch.ones(1, 2, 3, dtype=torch.float64),
            "counts": torch.ones(1, 2, dtype=torch.float64),
            "centroids": torch.ones(1, 2, 3),
        },
        "merge_top_m": {
            **{"ids": ids[:, None], "scores": items[:, None]},
            **{"more_ids": ids[:, None] + 3, "more_scores": items[:, None]},
        },
        "nearest": {"rows": rows, "centroids": rows},
        "personalized_pagerank": {"transfer": transfer, "personalization": items, **walk},
        "pooled_terms": {"weights": torch.ones(4), "query_terms": terms, "idf": items, "transfer": transfer},
        "posting_scores": {
            **{"query_terms": counted, "weighted": graph, "document_frequency": torch.ones(3, dtype=torch.int64)},
            **{"n_documents": 3, "max_expanded": 99, "out": torch.zeros(3, 3), "first_column": 0},
        },
        "probe": {"scores": rows, "ranges": [range(3)], "n_probe": 1},
        **{name: bounds for name in ("segment_sum", "segment_mean", "segment_max", "segment_normalize")},
        "segment_softmax": {**bounds, "temperature": 0.5},
        **{name: {**bounds, "ids": ids, "k": 2} for name in ("segment_top_k", "segment_top_k_ragged")},
        "similarity_transfer": {"candidates": batch, "gather": lambda tables: rows[tables.long()], "floor": 0.1},
        "sparse_product": {"rows": graph, "dense": rows},
        "sparse_top_m": {"queries": graph, "rows": graph, **top, "tie_break": (rows, rows)},
        "structural_counts": {
            "parts": batch,
            "letters": ids,
            "flags": torch.ones(3, 1, dtype=torch.bool),
            "n_parts": 3,
        },
        "term_counts": {"tokens": batch, "n_terms": 3, "marked": torch.ones(3, dtype=torch.bool)},
        "term_weights": {
            **{"query_terms": terms, "tables": batch, "weighted": graph, "first_table": 0, "out": torch.zeros(4)},
        },
        "union": {"batches": [batch, batch]},
        "update": {"rows": rows, "labels": ids, "n_clusters": 3, "room": torch.zeros(3, 3, dtype=torch.float64)},
        "widen": {"candidates": batch, "graph": graph},
    }


def parameters() -> Iterator[tuple[str, str, str]]:
    """Each operation with each of its parameters and what is said to be its type."""
    for name, arguments in proper().items():
        signature = inspect.signature(function_of(name))
        assert set(signature.parameters) == set(arguments), f"{name} is given all that it takes"
        for parameter in signature.parameters.values():
            yield name, parameter.name, str(parameter.annotation)


def function_of(name: str) -> Any:
    dispatch.all_operations()
    (found,) = (
        getattr(module, name)
        for place, module in sys.modules.items()
        if place.startswith("gtr_gpu.ops.") and getattr(getattr(module, name, None), "__module__", None) == place
        if ".reference." not in place and "._" not in place
    )
    return found


def call(name: str, **changes: object) -> object:
    return function_of(name)(**proper()[name] | changes)


COUNTS = [(name, key) for name, key, kind in parameters() if kind == "int"]
REALS = [(name, key) for name, key, kind in parameters() if kind == "float"]
ARRAYS = [(name, key, kind) for name, key, kind in parameters() if any(map(kind.count, ("Tensor", "R", "S", "H")))]


def test_all_operations_are_tried() -> None:
    assert sorted(proper()) == dispatch.all_operations()
    assert len(COUNTS) > 15
    assert len(REALS) > 8
    assert len(ARRAYS) > 50


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", list(proper()))
def test_proper_arguments_are_taken(name: str, backend: dispatch.Backend) -> None:
    if backend == "native" and dispatch.served(name, torch.device("cpu")).backend != "native":
        pytest.skip("made of torch's own operations")
    with dispatch.use(backend):
        call(name)


@pytest.mark.parametrize("value", [-1, 1.0, float("nan"), float("inf"), "3", True, None, torch.tensor(1), 1 << 63])
@pytest.mark.parametrize(("name", "key"), COUNTS)
def test_what_is_no_count(name: str, key: str, value: object) -> None:
    with pytest.raises(GTRError, match=f"^{key} must be (a whole number|at least|at most)"):
        call(name, **{key: value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), "0.5", True, None, [0.5], 10**400])
@pytest.mark.parametrize(("name", "key"), REALS)
def test_what_is_no_number(name: str, key: str, value: object) -> None:
    with pytest.raises(GTRError, match=f"^{key} must be (a number|finite|from|above)"):
        call(name, **{key: value})


@pytest.mark.parametrize(("name", "key"), [pair for pair in REALS if pair[1] != "floor"])
def test_numbers_below_their_range(name: str, key: str) -> None:
    with pytest.raises(GTRError, match=f"^{key} must be .*, got -0.5"):
        call(name, **{key: -0.5})


def test_a_walk_that_never_starts_anew() -> None:
    with pytest.raises(GTRError, match="damping must be below 1, got 1"):
        call("personalized_pagerank", damping=1.0)


@pytest.mark.parametrize(("name", "key"), COUNTS + REALS)
def test_numbers_of_numpy_are_taken(name: str, key: str) -> None:
    value = proper()[name][key]
    call(name, **{key: np.int64(value) if isinstance(value, int) else np.float64(value)})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "key", "kind"), ARRAYS)
def test_what_is_no_array(name: str, key: str, kind: str, backend: dispatch.Backend) -> None:
    wrong: list[object] = [[1.0, 2.0], "text", 7, {}, torch.tensor(1.0), object()]
    wrong += [Ragged([0], torch.tensor([0, 1])), Ragged(torch.zeros(1, dtype=torch.int32), [0, 1])]  # type: ignore[arg-type]
    wrong += [SparseMatrix([[1]], torch.ones(1), 2), Ragged(torch.zeros(1, dtype=torch.int32), torch.tensor(0))]  # type: ignore[arg-type]
    wrong += [Halves([1], 1.0, 1.0), Transfer(None, None, None)]  # type: ignore[arg-type]
    if "None" not in kind:
        wrong.append(None)
    with dispatch.use("reference") if backend == "reference" else dispatch.use("native"):
        for value in wrong:
            if dispatch.served(name, torch.device("cpu")).backend != backend == "native":
                continue
            with pytest.raises(GTRError, match=rf"\b{key}\b"):
                call(name, **{key: value})


def test_what_is_wrong_within_an_array() -> None:
    graph = matrix()
    for wrong, message in (
        (SparseMatrix(graph.columns, graph.weights, 2.5), r"graph\.n_columns must be a whole number, got 2\.5"),  # type: ignore[arg-type]
        (SparseMatrix(graph.columns, [1.0, 1.0], 3), r"graph\.weights must be a tensor, got list"),  # type: ignore[arg-type]
        (SparseMatrix(graph.columns.values, graph.weights, 3), r"graph\.columns must be a Ragged, got Tensor"),  # type: ignore[arg-type]
        (Ragged(graph.columns.values, graph.columns.offsets), "graph must be a SparseMatrix, got Ragged"),
    ):
        with pytest.raises(GTRError, match=message):
            call("induced_transfer", graph=wrong)
    with pytest.raises(GTRError, match=r"ranges\[0\] must be a range, got list"):
        call("probe", ranges=[[0, 1]])
    with pytest.raises(GTRError, match=r"tie_break must be a pair of tensors, got Tensor"):
        call("sparse_top_m", tie_break=torch.eye(3))
    with pytest.raises(GTRError, match=r"gather must be a function, got Tensor"):
        call("similarity_transfer", gather=torch.eye(3))
    with pytest.raises(GTRError, match=r"out must be contiguous, got the strides \[1, 3\]"):
        call("halved_products", out=torch.empty(3, 3, dtype=torch.bfloat16).T)


@pytest.mark.parametrize("key", ["average_length", "k1", "b", "n_documents", "max_expanded"])
def test_what_is_wrong_of_all_of_bm25(key: str) -> None:
    counted = matrix(torch.int32)
    given = {"lengths": torch.ones(3), "document_frequency": torch.ones(3, dtype=torch.int64), "n_documents": 3}
    given |= {
        "query_terms": counted,
        "postings": counted,
        "average_length": 1.0,
        "k1": 1.2,
        "b": 0.5,
        "max_expanded": 9,
    }
    assert bm25_scores(**given).shape == (3, 3)
    for value in (float("nan"), -1, "1", True):
        with pytest.raises(GTRError, match=f"^{key} must be"):
            bm25_scores(**given | {key: value})


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_start_and_no_cluster(backend: dispatch.Backend) -> None:
    with dispatch.use(backend):
        for rows in (torch.eye(3), matrix()):
            with pytest.raises(GTRError, match="centroids must hold at least one start, got none"):
                call("assign", rows=rows, centroids=torch.empty(0, 2, 3))
            with pytest.raises(GTRError, match="centroids must hold at least one centroid, got none"):
                call("nearest", rows=rows, centroids=torch.empty(2, 0, 3))
            with pytest.raises(GTRError, match="labels must hold at least one start, got none"):
                call("update", rows=rows, labels=torch.empty(0, 3, dtype=torch.int32))
            with pytest.raises(GTRError, match="n_clusters must be at least 1, got 0"):
                call("update", rows=rows, n_clusters=0)
            nothing = rows[:0] if isinstance(rows, torch.Tensor) else rows.slice(0, 0)
            with pytest.raises(GTRError, match="n_clusters must be at least 1, got 0"):
                call("update", rows=nothing, labels=torch.empty(0, dtype=torch.int32), n_clusters=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("columns", [[[1, 1], [0]], [[2, 1], [0]], [[0], [], [0, 2, 1]]])
def test_columns_that_do_not_rise(columns: list[list[int]], backend: dispatch.Backend) -> None:
    rows = Ragged.from_rows(columns)
    wrong = SparseMatrix(rows, torch.full((rows.values.numel(),), 0.5), 3)
    fine = matrix()
    labels = torch.zeros(len(columns), dtype=torch.int32)
    with dispatch.use(backend):
        with pytest.raises(GTRError, match=r"queries\.columns must rise within each row and be distinct"):
            call("sparse_top_m", queries=wrong, exclude=None, tie_break=None)
        with pytest.raises(GTRError, match=r"rows\.columns must rise within each row and be distinct"):
            call("sparse_top_m", queries=fine, rows=wrong, exclude=None, tie_break=None)
        with pytest.raises(GTRError, match=r"rows\.columns must rise within each row and be distinct"):
            call("update", rows=wrong, labels=labels)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("column", [-1, 2, 3])
def test_walks_between_queries(column: int, backend: dispatch.Backend) -> None:
    """Candidate 0 and 1 are of the first query, 2 of the second; there is no 3."""
    for row in range(2):
        ends = [[], [], []]
        ends[row] = [column]
        edge = SparseMatrix(Ragged.from_rows(ends), torch.ones(1), 3)
        walk = Transfer(edge, torch.tensor([1.0, 1, 0]), torch.tensor([0, 2, 3]))
        with dispatch.use(backend), pytest.raises(GTRError, match="must join candidates of one query only"):
            call("personalized_pagerank", transfer=walk)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), -0.5])
def test_walks_by_what_is_no_weight(wrong: float, backend: dispatch.Backend) -> None:
    transfer = proper()["personalized_pagerank"]["transfer"]
    numbers = torch.tensor([wrong, 1.0])
    weights = Transfer(transfer.weights.with_weights(numbers), transfer.degrees, transfer.offsets)
    degrees = Transfer(transfer.weights, torch.tensor([1.0, wrong, 0.0]), transfer.offsets)
    with dispatch.use(backend):
        with pytest.raises(GTRError, match=r"transfer\.weights\.weights must be finite and at least 0, got"):
            call("personalized_pagerank", transfer=weights)
        with pytest.raises(GTRError, match=r"transfer\.degrees must be finite and at least 0, got"):
            call("personalized_pagerank", transfer=degrees)
        with pytest.raises(GTRError, match="personalization must be finite and at least 0, got"):
            call("personalized_pagerank", personalization=torch.tensor([0.5, wrong, 0.5]))
        numbers[0] = 1
        call("personalized_pagerank", transfer=weights)
