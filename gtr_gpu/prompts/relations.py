"""What a search says of pairs of tables, in the words of a prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gtr_gpu.prompts.prompt import PromptRelation, RelationType

if TYPE_CHECKING:
    from gtr_gpu.results import Edge


class _Reading(NamedTuple):
    """What an edge of some kind is called, and from which score on it is that."""

    type: RelationType
    least: float


# A schema is the same where the tables share at least half of their column names, by weight: one common name such as
# "year" among ten relates tables, but not their schemas. The evidence of a caption is its words, so only where all are
# the same are the captions; below, two captions merely share words.
_READINGS = {
    "semantic": _Reading("similarity", 0.0),
    "cells": _Reading("similarity", 0.0),
    "header": _Reading("same_schema", 0.5),
    "caption": _Reading("same_caption", 0.99),
    "key": _Reading("shared_key", 0.0),
    "column": _Reading("shared_key", 0.0),
}


def prompt_relations(edges: Sequence[Edge]) -> list[PromptRelation]:
    """The relations among the tables of a search, one for each pair and type, the strongest first.

    Args:
        edges: A search's edges of one question, by rank from 0.

    Returns:
        Relations by number from 1; equally strong ones in order of their numbers. Where two kinds of edges are one type
        of relation, the score is the larger one.
    """
    scores: dict[tuple[int, int, RelationType], float] = {}
    for edge in edges:
        reading = _READINGS.get(edge.kind)
        if reading is None or edge.score < reading.least:
            continue
        relation = (min(edge.source, edge.target) + 1, max(edge.source, edge.target) + 1, reading.type)
        scores[relation] = max(scores.get(relation, 0.0), min(max(float(edge.score), 0.0), 1.0))
    found = [PromptRelation(*relation, score) for relation, score in scores.items()]
    return sorted(found, key=lambda one: (-one.score, one.source, one.target, one.type))


def relation_line(relation: PromptRelation) -> str:
    """A relation as the one line of JSON that stands for it in a prompt."""
    return json.dumps(
        {
            "source_node": f"Table {relation.source}",
            "target_node": f"Table {relation.target}",
            "relationship": {"type": relation.type, "score": round(relation.score, 3)},
        }
    )
