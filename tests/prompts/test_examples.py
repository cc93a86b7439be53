"""Few-shot examples of files and of the package."""

import json

import pytest

from gtr_gpu.errors import GTRError
from gtr_gpu.prompts import Example, packaged_examples, read_examples
from gtr_gpu.prompts.settings import ANSWER_KINDS


@pytest.mark.parametrize("kind", ANSWER_KINDS)
def test_the_package_has_examples_of_each_kind(kind):
    examples = packaged_examples(kind)
    assert len(examples) == 2
    for one in examples:
        assert one.question and one.reasoning.startswith("1. ") and "Table " in one.reasoning
        assert isinstance(one.answer, tuple) == (kind == "list")
    if kind == "verification":
        assert [one.answer for one in examples] == ["True", "False"]


def test_a_file_of_examples(tmp_path):
    path = tmp_path / "examples.jsonl"
    lines = [{"query": "Who?", "answer": "Ann"}, {"query": "Which?", "reasoning": "1. So.", "answer": ["a", "b"]}]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    assert read_examples(path) == (Example("Who?", "", "Ann"), Example("Which?", "1. So.", ("a", "b")))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "holds no example"),
        ("{", "line 1 is not JSON"),
        ("[]", "line 1 must be an object"),
        ('{"answer": "x"}', "line 1: `query` must be a text, got null"),
        ('\n{"query": " ", "answer": "x"}', "line 2: `query` must be a text"),
        ('{"query": "q", "answer": 3}', "line 1: `answer` must be a text or a list of texts, got 3"),
        ('{"query": "q", "answer": []}', "`answer` must be"),
        ('{"query": "q", "answer": ["a", ""]}', "`answer` must be"),
        ('{"query": "q", "answer": "a", "reasoning": 1}', "`reasoning` must be a text, got 1"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, content, told):
    path = tmp_path / "examples.jsonl"
    path.write_text(content)
    with pytest.raises(GTRError) as caught:
        read_examples(path)
    assert told in str(caught.value) and "examples.jsonl" in str(caught.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(GTRError, match=r"nowhere.jsonl can't be read"):
        read_examples(tmp_path / "nowhere.jsonl")
