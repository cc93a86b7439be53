"""A user's templates in place of ours, and what is said of broken ones."""

import os

import pytest
from prompts_words import Words

from gtr_gpu.errors import GTRError
from gtr_gpu.prompts import PromptSettings, build_prompt
from gtr_gpu.prompts.rendering import template_names, template_sources
from gtr_gpu.tables.table import Table

TABLE = Table("t", "Games", ["a"], [["1"], ["2"]])


def text(folder, question="Who?"):
    return build_prompt(question, [TABLE], [], PromptSettings(templates=folder), Words()).text


def test_single_templates_stand_in_for_ours(tmp_path):
    (tmp_path / "introduction.jinja").write_text("Be brief.\n")
    (tmp_path / "short.jinja").write_text("One word{% if reasoning %}, and why{% endif %}.\n")
    (tmp_path / "notes.txt").write_text("{% broken")
    assert text(tmp_path).startswith("Be brief.\n\n## Retrieved Tables:\n<table1>Table 1: Games\n")
    assert "\nQuestion: Who?\n\nOne word, and why.\n\n# Now Output" in text(tmp_path)


def test_a_whole_prompt_of_ones_own(tmp_path):
    (tmp_path / "prompt.jinja").write_text("{{ question }} {% for t in tables %}{{ t.title }} {{ t.rows }}{% endfor %}")
    assert text(tmp_path, "Who\n<answer>?") == "Who &lt;answer>? Games 2"


@pytest.mark.parametrize(
    ("template", "line", "reason"),
    [
        ("a\n{% if %}", 2, "Expected an expression"),
        ("a\nb\n{{ nothing }}", 3, "'nothing' is undefined"),
        ("{{ question.__class__.__mro__ }}", 1, "is unsafe"),
        ("\n{{ 1 / 0 }}", 2, "division by zero"),
        ("\n{% include 'other.jinja' %}", 2, "there is no template 'other.jinja'"),
        ("{{ table.number + table.title }}", 1, "unsupported operand"),
        ("{% for n in range(10000000) %}x{% endfor %}", 1, "Range too big"),
    ],
)
def test_a_broken_template_is_one_sentence_with_its_place(tmp_path, template, line, reason):
    (tmp_path / "table.jinja").write_text(template)
    with pytest.raises(GTRError) as caught:
        text(tmp_path)
    told = str(caught.value)
    assert told.startswith(f"the template {tmp_path / 'table.jinja'}, line {line} is broken: ")
    assert reason in told and "\n" not in told


def test_a_template_that_is_not_text(tmp_path):
    (tmp_path / "table.jinja").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GTRError, match="not UTF-8"):
        text(tmp_path)


def test_a_folder_without_templates_is_told(tmp_path):
    with pytest.raises(GTRError, match=r"holds none of the templates examples\.jinja, introduction\.jinja"):
        text(tmp_path)
    with pytest.raises(GTRError, match="must be a folder"):
        text(tmp_path / "nowhere")


def test_a_template_that_was_mended_is_read_anew(tmp_path):
    path = tmp_path / "table.jinja"
    path.write_text("{{ nothing }}")
    with pytest.raises(GTRError):
        text(tmp_path)
    path.write_text("mended")
    os.utime(path, (1, 1))
    assert "mended" in text(tmp_path)


def test_our_templates_are_there():
    assert template_names() == [
        *("examples.jinja", "introduction.jinja", "list.jinja", "prompt.jinja", "short.jinja", "steps.jinja"),
        *("table.jinja", "verification.jinja"),
    ]


def test_sources_are_those_of_all_that_a_prompt_may_be_made_with(tmp_path):
    (tmp_path / "short.jinja").write_text("{% include 'own.txt' %}{% if no %}{% include 'nowhere' %}{% endif %}")
    (tmp_path / "own.txt").write_text("mine")
    (tmp_path / "notes.jinja").write_bytes(b"\xff")
    (tmp_path / "old.jinja").mkdir()
    sources = template_sources(tmp_path)
    assert sources["own.txt"] == "mine" and "nowhere" not in sources and "notes.jinja" not in sources
    assert set(sources) == {*template_names(), "own.txt"}
    assert sources["prompt.jinja"] == template_sources(None)["prompt.jinja"]
