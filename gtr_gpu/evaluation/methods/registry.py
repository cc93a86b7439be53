"""The methods that a benchmark compares, by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gtr_gpu.errors import GTRError
from gtr_gpu.evaluation.methods.dense import Dense
from gtr_gpu.evaluation.methods.expansion import Expansion
from gtr_gpu.evaluation.methods.fusion import Mix, RankFusion
from gtr_gpu.evaluation.methods.gtr import GTR, cluster_config
from gtr_gpu.evaluation.methods.lexical import BM25, TFIDF
from gtr_gpu.evaluation.methods.method import Method, Resources, Scorer
from gtr_gpu.evaluation.methods.oracle import OraclePruned


@dataclass(frozen=True)
class Entry:
    """A method of the registry.

    Attributes:
        kind: `baseline`, `gtr`, or `oracle`, which is never a baseline and never a headline.
        text: What it is, in one sentence.
        make: Makes it.
        slow: Whether it runs on a sample of the questions unless all are asked for.
    """

    kind: Literal["baseline", "gtr", "oracle"]
    text: str
    make: Callable[[Resources], Method]
    slow: bool = False


def _bm25(cells: bool, resources: Resources) -> Scorer:
    return BM25(f"bm25-{_read(cells)}", cells, resources)


def _dense(cells: bool, resources: Resources) -> Scorer:
    return Dense(f"dense-{_read(cells)}", cells, resources)


def _rrf(cells: bool, resources: Resources) -> Scorer:
    return RankFusion(f"rrf-{_read(cells)}", [_bm25(cells, resources), _dense(cells, resources)], resources)


def _mix(cells: bool, resources: Resources) -> Scorer:
    return Mix(f"mix-{_read(cells)}", [_bm25(cells, resources), _dense(cells, resources)], resources)


def _read(cells: bool) -> str:
    return "all" if cells else "schema"


def _clusters(modality: str) -> Entry:
    def make(resources: Resources) -> Method:
        return GTR(f"clusters-{modality}", cluster_config(modality, resources.encodings.config()), resources)

    return Entry("baseline", f"the members of the best {modality} clusters alone, ranked by cosine", make)


def _gtr(preset: str) -> Callable[[Resources], Method]:
    return lambda resources: GTR(f"gtr-{preset}", resources.encodings.config(preset), resources)


METHODS: dict[str, Entry] = {
    "bm25-schema": Entry("baseline", "BM25 (bm25s, stemmed) over caption and header", lambda r: _bm25(False, r)),
    "bm25-all": Entry("baseline", "BM25 (bm25s, stemmed) over caption, header and cells", lambda r: _bm25(True, r)),
    "tfidf-schema": Entry(
        "baseline", "TF-IDF cosine (scikit-learn) over caption and header", lambda r: TFIDF("tfidf-schema", False, r)
    ),
    "tfidf-all": Entry(
        "baseline", "TF-IDF cosine (scikit-learn) over caption, header and cells", lambda r: TFIDF("tfidf-all", True, r)
    ),
    "dense-schema": Entry("baseline", "cosine of sentence vectors of caption and header", lambda r: _dense(False, r)),
    "dense-all": Entry(
        "baseline", "cosine of sentence vectors of caption, header and the first rows", lambda r: _dense(True, r)
    ),
    "rrf-schema": Entry("baseline", "reciprocal rank fusion of bm25-schema and dense-schema", lambda r: _rrf(False, r)),
    "rrf-all": Entry("baseline", "reciprocal rank fusion of bm25-all and dense-all", lambda r: _rrf(True, r)),
    "mix-schema": Entry("baseline", "half BM25, half cosine, each scaled to 0 … 1: schema", lambda r: _mix(False, r)),
    "mix-all": Entry("baseline", "half BM25, half cosine, each scaled to 0 … 1: all", lambda r: _mix(True, r)),
    "mix+caption": Entry(
        "baseline",
        "mix-all, each table followed by all others with its caption",
        lambda r: Expansion("mix+caption", _mix(True, r), "caption", r),
    ),
    "mix+header": Entry(
        "baseline",
        "mix-all, each table followed by all others with its header",
        lambda r: Expansion("mix+header", _mix(True, r), "header", r),
    ),
    "rrf+caption": Entry(
        "baseline",
        "rrf-all, each table followed by all others with its caption",
        lambda r: Expansion("rrf+caption", _rrf(True, r), "caption", r),
    ),
    "rrf+header": Entry(
        "baseline",
        "rrf-all, each table followed by all others with its header",
        lambda r: Expansion("rrf+header", _rrf(True, r), "header", r),
    ),
    "clusters-semantic": _clusters("semantic"),
    "clusters-structural": _clusters("structural"),
    "clusters-heuristic": _clusters("heuristic"),
    "gtr-paper": Entry("gtr", "GTR as published, without the label: preset paper", _gtr("paper"), slow=True),
    "gtr-default": Entry("gtr", "GTR, preset default", _gtr("default")),
    "oracle-pruned": Entry(
        "oracle",
        "GTR as published, its candidates pruned by the label: no result of a user's",
        lambda r: OraclePruned("oracle-pruned", r.encodings.config("paper"), r),
        slow=True,
    ),
}
"""All methods, by name, in the order in which they run."""


def chosen(names: str) -> list[str]:
    """The names of methods, separated by commas, or `all`; in the registry's order.

    Raises:
        GTRError: A name is unknown, or there is none.
    """
    asked = [name.strip() for name in names.split(",") if name.strip()]
    if not asked:
        raise GTRError(f"methods is empty; give all, or some of {', '.join(METHODS)}")
    for name in asked:
        if name != "all" and name not in METHODS:
            near = difflib.get_close_matches(name, METHODS, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(METHODS)}"
            raise GTRError(f"there is no method {name!r}{hint}")
    return [name for name in METHODS if "all" in asked or name in asked]
