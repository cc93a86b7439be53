"""From a search's edges to the relations of a prompt."""

import json

from gtr_gpu.prompts import PromptRelation, prompt_relations
from gtr_gpu.prompts.relations import relation_line
from gtr_gpu.results import Edge


def test_kinds_become_types_and_the_larger_score_counts():
    edges = [
        *(Edge(0, 1, "semantic", 0.4), Edge(0, 1, "cells", 0.6), Edge(0, 2, "key", 0.9), Edge(0, 2, "column", 0.2)),
        *(
            Edge(1, 2, "header", 0.5),
            Edge(0, 1, "header", 0.49),
            Edge(1, 2, "caption", 0.995),
            Edge(0, 1, "caption", 0.98),
        ),
    ]
    assert prompt_relations(edges) == [
        PromptRelation(2, 3, "same_caption", 0.995),
        PromptRelation(1, 3, "shared_key", 0.9),
        PromptRelation(1, 2, "similarity", 0.6),
        PromptRelation(2, 3, "same_schema", 0.5),
    ]


def test_ties_go_by_numbers_and_scores_stay_within_one():
    edges = [Edge(1, 2, "key", 1.0000001), Edge(0, 2, "key", 1.0), Edge(0, 1, "semantic", -0.1), Edge(0, 1, "new", 1.0)]
    assert prompt_relations(edges) == [PromptRelation(1, 3, "shared_key", 1.0), PromptRelation(2, 3, "shared_key", 1.0)]
    assert prompt_relations([]) == []


def test_a_relation_is_one_line_of_json():
    line = relation_line(PromptRelation(1, 2, "similarity", 0.67449))
    assert line == (
        '{"source_node": "Table 1", "target_node": "Table 2", "relationship": {"type": "similarity", "score": 0.674}}'
    )
    assert json.loads(line)["relationship"]["score"] == 0.674
