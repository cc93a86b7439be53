"""`gtr prompt`: the prompt on stdout, what was left out on stderr, and mistakes told before anything is loaded."""

import json

import pytest

from gtr_gpu.tables.table import Table


def test_the_prompt_goes_to_stdout_and_a_note_to_stderr(gtr, fake, folder):
    status, out, err = gtr("prompt", folder, "Who won gold?")
    assert status == 0
    assert "<table1>Table 1: Medals of 2012\n| nation | gold |\n|---|---|\n| Norway | 2 |\n</table1>" in out
    assert "\nQuestion: Who won gold?\n" in out
    assert '"relationship": {"type": "shared_key", "score": 0.5}' in out and "same_schema" not in out
    assert err.startswith("note: -k is 10, but the index holds 3 tables\nnote: ")
    assert err.endswith("tokens by estimate; nothing was left out\n")


def test_options_reach_the_prompt(gtr, fake, folder, tmp_path):
    (tmp_path / "table.jinja").write_text("T{{ table.number }} {{ table.body }}\n")
    words = [
        "--format",
        "csv",
        "--answer",
        "verification",
        "--no-relations",
        "--no-reasoning",
        "--few-shot",
        "1",
        "-k",
        "2",
    ]
    _, out, _ = gtr("prompt", folder, "Norway won", *words, "--templates", tmp_path)
    assert "T1 nation,gold\nNorway,2\nT2" in out and "Capitals" not in out
    assert "Graph-Related" not in out and "<reasoning>" not in out and "Example question" in out
    assert "True if the tables support it" in out


def test_what_was_left_out_is_told(gtr, fake, folder):
    fake.corpus = [Table(f"{n}", "", ["a", "b"], [["x y z " * 20] * 2] * 50) for n in range(3)]
    _, _, err = gtr("prompt", folder, "Who?", "--prompt-tokens", 600)
    assert "left out: " in err and " of 3 tables" in err and " rows of the others" in err


def test_knobs_of_the_search_can_be_set(gtr, fake, folder):
    status, _, _ = gtr("prompt", folder, "Who?", "--preset", "paper", "--set", "damping=0.25")
    ((_, _, config),) = fake.asked
    assert (status, config.damping, config.transfer) == (0, 0.25, "dense")
    status, _, err = gtr("prompt", folder, "Who?", "--set", "damping=2")
    assert status == 2 and "damping" in err


def test_json_has_one_object_a_question(gtr, fake, folder, tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text('{"query": "Who?", "query_id": "a"}\n{"query": "Where?"}\n')
    status, out, err = gtr("prompt", folder, "--queries", path, "--json", "-k", 2)
    first, second = map(json.loads, out.splitlines())
    assert (status, err) == (0, "")
    assert (first["query_id"], second["query_id"]) == ("a", "2")
    assert first["query"] == "Who?" and "Question: Who?" in first["prompt"]
    assert [table["table_id"] for table in first["tables"]] == ["a.csv", "b.csv"]
    assert first["counted_by"] == "estimate" and first["left_out_tables"] == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["Who?", "-k", "0"], "-k must be at least 1, got 0"),
        (["Who?", "--prompt-tokens", "0"], "prompt_tokens must be at least 1, got 0"),
        (["Who?", "--prompt-tokens", "50"], "prompt_tokens must be at least "),
        (["Who?", "--few-shot", "9"], "--few-shot must be between 0 and 2"),
        (["Who?", "--few-shot", "1", "--examples", "x.jsonl"], "leave one out"),
        (["Who?", "--examples", "x.jsonl"], "x.jsonl can't be read"),
        (["Who?", "--templates", "nowhere"], "templates must be a folder, got 'nowhere'"),
        (["Who?", "--tokenizer", "/nowhere/tokenizer"], "the tokenizer '/nowhere/tokenizer' can't be had"),
        (["--queries", "x.jsonl"], "add --json"),
        ([], "there is no question"),
        ([" "], "must hold at least one word"),
    ],
)
def test_mistakes_are_one_line(gtr, fake, folder, words, told):
    status, out, err = gtr("prompt", folder, *words)
    assert (status, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("gtr: ") and told in last


@pytest.mark.parametrize("command", ["prompt", "ask"])
def test_templates_and_names_that_are_none_are_told_before_anything_is_loaded(gtr, fake, folder, tmp_path, command):
    (tmp_path / "table.jinja").write_text("{% for %}")
    cases = {
        ("--templates", ""): "it is empty; give a path",
        ("--templates", tmp_path / "none"): "templates must be a folder",
        ("--templates", tmp_path): "table.jinja, line 1 is broken",
        ("--examples", ""): "it is empty; give a path",
        ("--tokenizer", " "): "it is empty; give a name",
    }
    for options, said in cases.items():
        status, out, err = gtr(command, folder, "Who?", *options)
        assert (status, out) == (2, "") and said in err, options
    assert not fake.asked
