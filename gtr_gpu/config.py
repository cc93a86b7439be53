"""Every knob of the method: its symbol in the paper, its default, its range, and the stage that reads it."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from gtr_gpu.errors import GTRError

Stage = Literal["build", "search"]
Value = bool | int | float | str | tuple[int, ...] | tuple[str, ...]

MODALITIES = ("semantic", "structural", "heuristic")
EDGE_KINDS = ("semantic", "header", "key", "column", "cells", "caption")


@dataclass(frozen=True)
class Knob:
    """What a knob is for and which values it takes.

    Attributes:
        stage: `build` where the value is fixed in an index, `search` where each search may choose it.
        text: One sentence for `gtr info` and the error messages.
        symbol: The paper's symbol, if it has one.
        low: The smallest number allowed.
        high: The largest number allowed.
        choices: The words allowed; for a tuple, in each of its places.
    """

    stage: Stage
    text: str
    symbol: str = ""
    low: float = float("-inf")
    high: float = float("inf")
    choices: tuple[str, ...] = ()


def _knob(default: Any, stage: Stage, text: str, **limits: Any) -> Any:  # noqa: ANN401 (a dataclass field has the type of its default)
    return field(default=default, metadata={"knob": Knob(stage, text, **limits)})


@dataclass(frozen=True)
class Config:
    """The knobs of one index and its searches. `Config.preset("paper")` is the published setting, exactly."""

    # What is read of a table
    row_limit: int = _knob(1000, "build", "rows of a table that are kept and read; the others are counted", low=1)
    cell_limit: int = _knob(100_000, "build", "cells of a table that are kept, in whole rows", low=1)
    text_style: str = _knob(
        "plain", "build", "how a table becomes text", symbol="s", choices=("plain", "tagged", "paper")
    )
    encode_rows: bool = _knob(True, "build", "whether the encoder reads rows after the header, as many as fit")

    # Semantic features
    encoder: str = _knob("sentence-transformers/all-MiniLM-L6-v2", "build", "a Hugging Face encoder, by name or folder")
    encoder_revision: str = _knob("", "build", "the revision of the encoder on the hub")
    pooling: str = _knob("auto", "build", "how token vectors become one", choices=("auto", "mean", "cls"))
    query_prefix: str = _knob("auto", "build", "text put before a question; `auto` knows the E5 and BGE families")
    passage_prefix: str = _knob("auto", "build", "text put before a table; `auto` knows the E5 and BGE families")
    max_tokens: int = _knob(256, "build", "tokens of a table that the encoder reads, at most its window", low=8)
    feature_dtype: str = _knob("float32", "build", "how semantic features are stored", choices=("float32", "float16"))

    # Structural features
    spacy_model: str = _knob("auto", "build", "a spaCy pipeline with a tagger, or `blank:xx` for counts without one")
    structural_features: str = _knob(
        "tags", "build", "six numbers as in the paper, or one for each part of speech", choices=("tags", "paper")
    )
    standardize: bool = _knob(True, "build", "whether structural features are centred and scaled before clustering")

    # Heuristic features
    numbers: str = _knob(
        "short",
        "build",
        "`fold` makes every number its shape, `short` keeps whole numbers below 10,000, `keep` keeps all",
        choices=("fold", "short", "keep"),
    )

    stemming: str = _knob(
        "auto",
        "build",
        "whether words are reduced to stems: `auto` by the rules of the spaCy model's language",
        choices=("auto", "none"),
    )

    sublinear: bool = _knob(True, "build", "whether TF-IDF counts a repeated word 1 + ln(count) times")

    # Clusters and hypergraph
    n_clusters: int = _knob(0, "build", "clusters of each modality; 0 takes the square root of N", symbol="K", low=0)
    kmeans_starts: int = _knob(3, "build", "starts of k-means, of which the best is kept", low=1, high=100)
    kmeans_iterations: int = _knob(25, "build", "rounds of one start of k-means at most", low=1)
    kmeans_sample: int = _knob(
        64, "build", "tables for each cluster, drawn at random, that centroids are trained on; 0 takes all", low=0
    )
    n_typical: int = _knob(20, "build", "typical nodes of a cluster", symbol="k", low=1)

    # Neighbour graph
    edge_kinds: tuple[str, ...] = _knob(EDGE_KINDS, "build", "kinds of edges between tables", choices=EDGE_KINDS)
    n_neighbors: int = _knob(3, "build", "neighbours of a table for each kind of edge", symbol="m", low=1, high=256)
    max_common: int = _knob(500, "build", "a word, name or key shared by more tables than this makes no edge", low=2)

    # Coarse
    coarse: str = _knob(
        "auto",
        "search",
        "`flat` scores all tables, `clusters` only the members of probed clusters",
        choices=("auto", "flat", "clusters"),
    )
    flat_limit: int = _knob(200_000, "search", "`auto` scores all tables up to this many", low=0)
    modalities: tuple[str, ...] = _knob(
        ("semantic", "heuristic"), "search", "modalities whose clusters are probed", choices=MODALITIES
    )
    query_features: str = _knob(
        "native",
        "search",
        "whether a modality scores a question by its own features or by semantic ones",
        choices=("native", "semantic"),
    )
    cluster_score: str = _knob(
        "centroid",
        "search",
        "what a question is compared with in a cluster",
        symbol="S_rep",
        choices=("mean", "best", "centroid"),
    )
    n_probe: int = _knob(8, "search", "clusters probed for each modality", low=1)
    n_seeds: int = _knob(200, "search", "tables with the best scores that the graph starts from; 0 keeps all", low=0)
    hops: int = _knob(1, "search", "steps along the neighbour graph that widen the candidates", low=0, high=3)

    # Fine
    transfer: str = _knob(
        "graph",
        "search",
        "`graph` takes S from the neighbour graph, `dense` from all pairs of candidates",
        symbol="S",
        choices=("graph", "dense"),
    )
    similarity_floor: float = _knob(0.0, "search", "similarities below this count as 0", symbol="τ", low=-1, high=1)
    weight_semantic: float = _knob(1.0, "search", "how much semantic edges count for the belief in an edge", low=0)
    weight_header: float = _knob(1.0, "search", "how much shared column names count for it", low=0)
    weight_key: float = _knob(1.0, "search", "how much shared values of the key column count for it", low=0)
    weight_column: float = _knob(1.0, "search", "how much the same first column counts for it", low=0)
    weight_cells: float = _knob(1.0, "search", "how much shared words in cells count for it", low=0)
    weight_caption: float = _knob(1.0, "search", "how much the same caption, or another one, counts for it", low=0)
    personalization: str = _knob(
        "pooled",
        "search",
        "the scores that the walk returns to; `pooled` counts what a table holds together with its neighbours",
        symbol="h",
        choices=("semantic", "lexical", "mixed", "pooled"),
    )
    mix: float = _knob(
        0.5, "search", "share of the semantic scores in mixed ones, by which seeds are chosen", low=0, high=1
    )
    pooled_bm25: float = _knob(0.14, "search", "share of BM25, divided by its best, in pooled scores", low=0)
    pooled_words: float = _knob(0.18, "search", "share of the part of the question's words that is found", low=0)
    pooled_phrases: float = _knob(0.23, "search", "share of phrases that are cells, column names or captions", low=0)
    pooled_cosine: float = _knob(0.45, "search", "share of the best cosine in pooled scores", low=0)
    temperature: float = _knob(
        0.05, "search", "softmax temperature that sharpens h; 0 divides the clamped scores by their sum", low=0
    )
    damping: float = _knob(0.6, "search", "share of the walk that follows edges", symbol="α", low=0, high=0.999)
    tolerance: float = _knob(1e-6, "search", "change at which the walk stops", symbol="ε", low=0)
    max_iterations: int = _knob(100, "search", "steps of the walk at most", low=1)
    keep: tuple[int, ...] = _knob((), "search", "how many candidates are kept and ranked anew, round by round", low=1)
    stop_words: str = _knob(
        "auto",
        "search",
        "function words of a question that aren't looked up: `auto` takes those of the spaCy model's language",
        choices=("auto", "none"),
    )
    bm25_k1: float = _knob(1.2, "search", "how soon a repeated word stops counting", low=0)
    bm25_b: float = _knob(0.75, "search", "how much long tables are discounted", low=0, high=1)

    # Resources
    max_query_words: int = _knob(512, "search", "words of a question that are read", low=1)
    batch_megabytes: int = _knob(256, "search", "memory for the scores of one batch of questions", low=1)

    def __post_init__(self) -> None:
        for name, knob in KNOBS.items():
            _check(name, knob, getattr(self, name))
        for name in ("modalities", "edge_kinds"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise GTRError(f"{name} must name each kind once, got {','.join(values)}")
        if not self.modalities:
            raise GTRError(f"modalities must be {_describe('modalities')}, got none")

    @classmethod
    def preset(cls, name: str) -> Config:
        """The setting of that name: `default`, or `paper` (GTR as published, without the label).

        Raises:
            GTRError: There is no such preset.
        """
        if name not in PRESETS:
            raise GTRError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}{_did_you_mean(name, PRESETS)}")
        return cls(**cast(Any, PRESETS[name]))

    def override(self, assignments: Iterable[str] | Mapping[str, Value], stage: Stage | None = None) -> Config:
        """A copy with some knobs set.

        Args:
            assignments: `NAME=VALUE` texts, as the command line takes them, or names with values.
            stage: Refuses knobs of the other stage, such as a build's knob in a search.

        Raises:
            GTRError: An unknown knob, a value out of its range, or a knob of another stage.
        """
        values: dict[str, Value] = {}
        pairs: Iterable[tuple[str, Any]]
        pairs = assignments.items() if isinstance(assignments, Mapping) else (_split(text) for text in assignments)
        for name, value in pairs:
            if name not in KNOBS:
                raise GTRError(f"there is no knob {name!r}{_did_you_mean(name, KNOBS)}; `gtr info --knobs` lists them")
            if stage and KNOBS[name].stage != stage:
                remedy = "build the index anew with it" if stage == "search" else "give it to `gtr search`"
                raise GTRError(f"{name} is a knob of the {KNOBS[name].stage}, not of the {stage}; {remedy}")
            values[name] = _parse(name, value) if isinstance(value, str) else value
        return dataclasses.replace(self, **cast(Any, values))

    def searching_as(self, other: Config) -> Config:
        """This build's knobs with the search knobs of another setting."""
        return self.override({name: getattr(other, name) for name, knob in KNOBS.items() if knob.stage == "search"})

    def differences(self, other: Config) -> dict[str, Value]:
        """The knobs that another setting has otherwise, with this one's values."""
        return {name: getattr(self, name) for name in KNOBS if getattr(self, name) != getattr(other, name)}

    def to_json(self) -> dict[str, Value]:
        """All knobs with their values, for a manifest."""
        return {name: getattr(self, name) for name in KNOBS}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Config:
        """The inverse of `to_json`; knobs that are missing take what there was before them, or their defaults.

        Raises:
            GTRError: An unknown knob or a value out of its range.
        """
        return cls().override(_BEFORE | {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


KNOBS: dict[str, Knob] = {f.name: f.metadata["knob"] for f in dataclasses.fields(Config)}
_TYPES: dict[str, type] = {f.name: type(f.default) for f in dataclasses.fields(Config)}
_ITEM_TYPES: dict[str, type] = {"modalities": str, "edge_kinds": str, "keep": int}
_TOO_LARGE = 1 << 62

# What indexes did that were written before there was a knob for it, where the knob's default is another.
_BEFORE: dict[str, Value] = {"stemming": "none"}

PRESETS: dict[str, dict[str, Value]] = {
    "default": {},
    "paper": {
        "text_style": "paper",
        "encode_rows": False,
        "structural_features": "paper",
        "standardize": False,
        "stemming": "none",
        "sublinear": False,
        "n_clusters": 10,
        "kmeans_starts": 10,
        "kmeans_iterations": 300,
        "kmeans_sample": 0,
        "n_typical": 100,
        "coarse": "clusters",
        "modalities": MODALITIES,
        "query_features": "semantic",
        "cluster_score": "mean",
        "n_probe": 1,
        "n_seeds": 0,
        "hops": 0,
        "transfer": "dense",
        "similarity_floor": 0.3,
        "personalization": "semantic",
        "temperature": 0.0,
        "damping": 0.85,
        "max_iterations": 50,
        "keep": (50,),
    },
}


def _split(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise GTRError(f"a knob is set as NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()


def _parse(name: str, text: str) -> Value:
    kind = _TYPES[name]
    try:
        if kind is bool:
            return {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}[text.lower()]
        if kind is tuple:
            item = _ITEM_TYPES[name]
            return tuple(item(part.strip()) for part in text.split(",") if part.strip())
        return cast(Value, kind(text))
    except (KeyError, ValueError):
        raise GTRError(f"{name} must be {_describe(name)}, got {text!r}") from None


def _check(name: str, knob: Knob, value: Value) -> None:
    kind = _TYPES[name]
    accepted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (kind is not bool and isinstance(value, bool)):
        raise GTRError(f"{name} must be {_describe(name)}, got {value!r}")
    for item in value if isinstance(value, tuple) else (value,):
        if kind is tuple and type(item) is not _ITEM_TYPES[name]:
            raise GTRError(f"{name} must be {_describe(name)}, got {item!r}")
        if knob.choices and item not in knob.choices:
            raise GTRError(f"{name} must be {_describe(name)}, got {item!r}{_did_you_mean(str(item), knob.choices)}")
        # Neither infinity nor NaN has a word in JSON, and arrays count in 64 bits.
        if not isinstance(item, str) and not abs(item) < _TOO_LARGE:
            raise GTRError(f"{name} must be {_describe(name)} and below {_TOO_LARGE:.1e}, got {item}")
        if not isinstance(item, str) and not knob.low <= item <= knob.high:
            raise GTRError(f"{name} must be {_describe(name)}, got {item}")


def _describe(name: str) -> str:
    knob, kind = KNOBS[name], _TYPES[name]
    if kind is tuple:
        noun = f"some of {', '.join(knob.choices)}" if knob.choices else "whole numbers"
        return f"{noun}, separated by commas"
    if knob.choices:
        return f"one of {', '.join(knob.choices)}"
    noun = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[kind]
    low = "" if knob.low == float("-inf") else f" of at least {json.dumps(knob.low)}"
    high = "" if knob.high == float("inf") else f"{' and' if low else ' of'} at most {json.dumps(knob.high)}"
    return noun + low + high


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
