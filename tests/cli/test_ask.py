"""`gtr ask`: what it prints, what it keeps, and what it refuses before anything is loaded."""

import json

import pytest
from answer_fakes import FakeModel

from gtr_gpu import language_models
from gtr_gpu.answers.journal import Journal
from gtr_gpu.answers.record import Answered, ReadTable, Unanswered, UsedCell
from gtr_gpu.cli import answered
from gtr_gpu.cli import ask as ask_command
from gtr_gpu.cli.view import View
from gtr_gpu.language_models.model import Completion, ModelError

GOOD = '<reasoning>\n1. Table 1 gives Norway.\n2. Its gold is "2".\n</reasoning>\n<answer>\n2\n</answer>'
HOSTILE = "[red]bold[/red] \x1b[2J\x9b31m :smile: a\nb\u202ec\xad"


@pytest.fixture
def model(monkeypatch):
    """The model that every command opens, and what it was opened with."""
    model = FakeModel(lambda prompt, number: GOOD)
    model.opened = {}

    def opened(name, base_url, **options):
        model.opened = {"model": name, "base_url": base_url, **options}
        return model

    monkeypatch.setattr(language_models, "open_model", opened)
    return model


@pytest.fixture
def terminal(monkeypatch):
    """Makes stdout a terminal."""
    monkeypatch.setattr(ask_command, "_is_terminal", lambda: True)


@pytest.fixture
def batch(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps({"query": f"q{n}", "query_id": n, "answer": "no"}) + "\n" for n in range(5)))
    return path


def ask(gtr, folder, *words):
    return gtr("ask", folder, "--model", "m", *words)


def test_a_pipe_gets_tab_separated_lines(gtr, fake, folder, model):
    status, out, err = ask(gtr, folder, "Who won gold?", "-k", 2)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "# Who won gold?",
        "answer\t2",
        "table\t1\tMedals of 2012\ta.csv",
        "cell\t1\t1\tgold\t2",
        "cell\t1\t1\tnation\tNorway",
        "reasoning\t1. Table 1 gives Norway.",
        'reasoning\t2. Its gold is "2".',
    ]


def test_json_is_one_object_a_question(gtr, fake, folder, model):
    status, out, err = ask(gtr, folder, "Who won gold?", "Where?", "-k", 2, "--json", "--quiet")
    assert (status, err) == (0, "")
    first, second = map(json.loads, out.splitlines())
    assert first == {
        "query_id": "1",
        "query": "Who won gold?",
        "answer": "2",
        "reasoning": '1. Table 1 gives Norway.\n2. Its gold is "2".',
        "tables": [
            {
                "number": 1,
                "table_id": "a.csv",
                "caption": "Medals of 2012",
                "cited": True,
                "rows_shown": 1,
                "rows": 1,
            },
            {"number": 2, "table_id": "b.csv", "caption": "", "cited": False, "rows_shown": 1, "rows": 1},
        ],
        "cells": [
            {"table": 1, "table_id": "a.csv", "row": 0, "column": "gold", "text": "2"},
            {"table": 1, "table_id": "a.csv", "row": 0, "column": "nation", "text": "Norway"},
        ],
        "unknown_tables": [],
        "left_out_tables": 0,
        "model": "fake",
        "prompt_tokens": first["prompt_tokens"],
        "completion_tokens": len(GOOD.split()),
        "finish_reason": "stop",
        "seconds": 0.25,
        "raw": GOOD,
    }
    assert second["query_id"] == "2"


def test_options_reach_the_model_the_search_and_the_prompt(gtr, fake, folder, model, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    words = ["--base-url", "http://h/v1", "--api-key-env", "MY_KEY", "--tokenizer", "t", "--timeout", "7", "--retries"]
    words += ["1", "--concurrency", "3", "--max-new-tokens", "99", "--format", "csv", "--no-relations", "--few-shot"]
    words += ["1", "--answer", "list", "--set", "damping=0.5", "-k", "2", "--prompt-tokens", "3000"]
    status, out, _ = ask(gtr, folder, "q", *words, "--json")
    assert status == 0
    assert model.opened == {
        "model": "m",
        "base_url": "http://h/v1",
        "key_variable": "MY_KEY",
        "tokenizer": "t",
        "timeout": 7.0,
        "retries": 1,
        "concurrency": 3,
    }
    assert model.limits == [99]
    (prompt,) = model.asked
    assert "nation,gold" in prompt and "Graph-Related" not in prompt and "Example question" in prompt
    assert json.loads(out)["answer"] == ["2"]
    assert fake.asked[0][1:] == (2, fake.asked[0][2]) and fake.asked[0][2].damping == 0.5


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("<answer>NA</answer>", "the model gave none"),
        (" ", "the model wrote nothing"),
        (Completion("The answer is", "length", 1, 2, 1.0), "the model wrote 64 tokens without coming to one; "),
    ],
)
@pytest.mark.parametrize("where", ["pipe", "terminal", "json"])
def test_no_answer_is_said(gtr, fake, folder, model, monkeypatch, reply, reason, where):
    if where == "terminal":
        monkeypatch.setattr(ask_command, "_is_terminal", lambda: True)
    done = reply if isinstance(reply, Completion) else Completion(reply, "stop", 1, 2, 1.0)
    monkeypatch.setattr(model, "_one", lambda *given: done)
    status, out, _ = ask(gtr, folder, "q", "-k", 1, "--max-new-tokens", 64, *(["--json"] if where == "json" else []))
    assert status == 0
    if where == "json":
        assert json.loads(out)["answer"] is None
    else:
        assert "no answer" in out
        assert reason in " ".join(out.split())


def test_a_terminal_is_shown_the_reasoning_as_it_comes(gtr, fake, folder, model, terminal):
    status, out, err = ask(gtr, folder, "Who won gold?", "-k", 2)
    assert (status, err) == (0, "")
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines == [
        "Who won gold?",
        "1. Table 1 gives Norway.",
        '2. Its gold is "2".',
        "",
        "  Answer  2",
        "  Tables  Table 1 Medals of 2012",
        "          a.csv",
        "  Cells   Table 1, row 1, gold: 2",
        "          Table 1, row 1, nation: Norway",
        lines[9],
        "",
    ]
    assert lines[9].startswith("  Model   fake, ") and lines[9].endswith(" written, 0.2 s")


def test_several_questions_on_a_terminal(gtr, fake, folder, model, terminal):
    model.reply = lambda prompt, number: ModelError("the server is busy") if number else GOOD
    status, out, err = ask(gtr, folder, "Who?", "Where?", "-k", 2)
    assert status == 1
    assert "  1. Table 1 gives Norway." in out and "Where?\n  the server is busy" in out
    assert err == (
        "gtr: 1 question: the server is busy\n"
        "gtr: 1 of 2 questions were not completed; with --out FILE, a second run asks them alone\n"
    )


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_question_that_failed(gtr, fake, folder, model, words):
    model.reply = lambda prompt, number: ModelError("the server ended its stream too early; ask again")
    status, out, err = ask(gtr, folder, "q", "-k", 1, *words)
    assert (status, err) == (1, "gtr: the server ended its stream too early; ask again\n")
    if words:
        assert json.loads(out) == {
            "query_id": "1",
            "query": "q",
            "error": "the server ended its stream too early; ask again",
        }
    else:
        assert out == ""


def test_a_failed_question_on_a_terminal(gtr, fake, folder, model, terminal):
    model.reply = lambda prompt, number: ModelError("busy")
    assert ask(gtr, folder, "q", "-k", 1) == (1, "q\n", "gtr: busy\n")


def test_a_batch_goes_into_a_file_and_is_gone_on_with(gtr, fake, folder, model, batch, tmp_path):
    out = tmp_path / "a.jsonl"
    model.reply = lambda prompt, number: ModelError(f"busy {number % 2}") if number > 1 else GOOD
    status, shown, err = ask(gtr, folder, "--queries", batch, "--out", out, "-k", 2, "--quiet")
    assert status == 1
    assert shown == f"answered     2 of 5 questions\nfile         {out}\n"
    assert err == (
        "gtr: 2 questions: busy 0\n"
        "gtr: 1 question: busy 1\n"
        "gtr: 3 of 5 questions were not completed; the same command asks them again, and them alone\n"
    )
    assert [json.loads(line)["query_id"] for line in out.read_text().splitlines()] == [0, 1]
    model.reply = lambda prompt, number: " " if number else "<answer>NA</answer>"
    model.asked.clear()
    status, shown, err = ask(gtr, folder, "--queries", batch, "--out", out, "-k", 2, "--quiet")
    assert (status, err) == (0, f"note: 2 of 5 were answered already in {out}\n")
    assert shown.splitlines() == [
        "answered     5 of 5 questions, 3 of them now",
        "no answer    2 of these: the model wrote nothing",
        "no answer    1 of these: the model gave none",
        f"file         {out}",
    ]
    assert len(model.asked) == 3
    status, shown, _ = ask(gtr, folder, "--queries", batch, "--out", out, "-k", 2, "--quiet", "--json")
    assert json.loads(shown) == {
        "questions": 5,
        "answered_earlier": 5,
        "answered": 0,
        "without_answer": 3,
        "missing": 0,
        "failed": [],
        "out": str(out),
    }
    assert len(model.asked) == 3
    status, _, err = ask(gtr, folder, "--queries", batch, "--out", out, "-k", 1, "--quiet")
    assert status == 2
    assert "holds answers of other settings (k: 2 there, 1 now); give another file, or overwrite it" in err
    assert ask(gtr, folder, "--queries", batch, "--out", out, "-k", 1, "--quiet", "--overwrite")[0] == 0
    assert len(model.asked) == 8


def test_a_file_that_another_process_writes_to(gtr, fake, folder, model, batch, tmp_path):
    with Journal(tmp_path / "a", {}):
        status, shown, err = ask(gtr, folder, "--queries", batch, "--out", tmp_path / "a", "-k", 1, "--quiet")
    assert (status, shown, model.asked) == (2, "", [])
    assert (
        err == f"gtr: another process writes answers to {tmp_path / 'a'}; wait until it is done, or give another file\n"
    )


def test_progress_of_a_batch_in_a_log(gtr, fake, folder, model, batch, tmp_path):
    _, _, err = ask(gtr, folder, "--queries", batch, "--out", tmp_path / "a", "-k", 1)
    assert err.startswith("Answering: 5 in ")


def test_a_fatal_fault_keeps_what_came(gtr, fake, folder, model, batch, tmp_path):
    out = tmp_path / "a.jsonl"
    model.reply = lambda prompt, number: ModelError("the key is wrong", fatal=True) if number == 2 else GOOD
    status, _, err = ask(gtr, folder, "--queries", batch, "--out", out, "-k", 1, "--quiet")
    assert status == 1
    assert err == (
        "gtr: the key is wrong\n"
        "gtr: 3 of 5 questions were not completed; the same command asks them again, and them alone\n"
    )
    assert len(out.read_text().splitlines()) == 2


def test_a_server_that_is_not_there(gtr, fake, folder, monkeypatch):
    def refused(*args, **options):
        raise ModelError("the model server at http://h/v1 refuses connections; start it", fatal=True)

    monkeypatch.setattr(language_models, "open_model", refused)
    status, out, err = ask(gtr, folder, "q")
    assert (status, out, err) == (1, "", "gtr: the model server at http://h/v1 refuses connections; start it\n")


def test_an_interrupt_keeps_what_came(gtr, fake, folder, model, batch, tmp_path):
    out = tmp_path / "a.jsonl"

    def reply(prompt, number):
        if number == 3:
            raise KeyboardInterrupt
        return GOOD

    model.reply = reply
    status, _, err = ask(gtr, folder, "--queries", batch, "--out", out, "-k", 1, "--quiet")
    assert status == 130
    assert err == (
        "gtr: interrupted; what was answered is in the file of --out, where there is one, and the same command goes on "
        "from there\n"
    )
    assert len(out.read_text().splitlines()) == 3
    model.reply = lambda prompt, number: GOOD
    model.asked.clear()
    assert ask(gtr, folder, "--queries", batch, "--out", out, "-k", 1, "--quiet")[0] == 0
    assert len(model.asked) == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["q", "--model", " "], "--model is empty"),
        (["q", "--base-url", ""], "--base-url is empty"),
        (["q", "--model", "m", "-k", "0"], "-k must be at least 1, got 0"),
        (["q", "--model", "m", "--max-new-tokens", "0"], "--max-new-tokens must be at least 1, got 0"),
        (["q", "--model", "m", "--prompt-tokens", "0"], "prompt_tokens must be at least 1, got 0"),
        (["q", "--model", "m", "--format", "xml"], "'xml' is not one of"),
        (["q", "--model", "m", "--timeout", "0"], "Invalid value for '--timeout'"),
        (["q", "--model", "m", "--concurrency", "0"], "Invalid value for '--concurrency'"),
        (["q", "--model", "m", "--overwrite"], "--overwrite needs a file to overwrite"),
        (["q", "--model", "m", "--out", "-"], "--out must be a file"),
        (["q", "--model", "m", "--out", ""], "'--out': it is empty"),
        (["q", "--model", "m", "--set", "dampin=1"], "did you mean 'damping'?"),
        (["q", "--model", "m", "--api-key-env", "a=b"], "--api-key-env must be the name of a variable"),
        (["q", "--base-url", "u", "--api-key-env", "NO_SUCH_KEY"], "the environment has no variable NO_SUCH_KEY"),
        (["--model", "m"], "there is no question"),
        (["q", "--model", "m", "--queries", "f"], "got both"),
    ],
)
def test_mistakes_are_one_sentence(gtr, fake, folder, words, expected):
    fake.error = AssertionError("loaded before the check")
    status, out, err = gtr("ask", folder, *words)
    assert (status, out) == (2, "")
    assert expected in err
    assert err.startswith("gtr: ")
    assert err.count("\n") == 1


def hostile():
    table = ReadTable(1, HOSTILE, HOSTILE, True, 1, 2)
    cell = UsedCell(1, HOSTILE, 0, HOSTILE, HOSTILE)
    return Answered("1", HOSTILE, HOSTILE, HOSTILE, (table,), (cell,), (7,), 1, HOSTILE, 1, 1, "stop", 1.0, HOSTILE)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("failed", [False, True])
def test_hostile_text_is_shown_not_obeyed(capsys, terminal, failed):
    from rich.console import Console

    one = Unanswered("1", HOSTILE, HOSTILE) if failed else hostile()
    if terminal:
        console = Console(width=70, markup=False, emoji=False, highlight=False, color_system=None, force_terminal=True)
        answered.put_on_terminal(one, 9, View(console=console))
    else:
        answered.put_plain(one, 9)
    out = capsys.readouterr().out
    assert "[red]bold[/red]" in out and ":smile:" in out
    assert not set(out) & set("\x1b\x9b\u202e\xad")


def stream(pieces, capsys):
    from rich.console import Console

    streamed = answered.Streamed(View(console=Console(width=70, color_system=None)))
    for piece in pieces:
        streamed(piece)
    streamed.end()
    return capsys.readouterr().out


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD, '1. Table 1 gives Norway.\n2. Its gold is "2".\n\n'),
        (
            "<think>\nHm.\n</think>\n<reasoning>\n\nSo.\n</reasoning>\n\n<answer>x</answer> Bye",
            "Hm.\n\nSo.\n\n Bye\n\n",
        ),
        ("5 < 7 &lt;b&gt; & so <b>x</b>\n<answer>", "5 < 7 <b> & so <b>x</b>\n\n"),
        ("\x1b[2J <Final Answer >y</ Answer>\x9b <", "\N{SYMBOL FOR ESCAPE}[2J \\u009b <\n\n"),
        ("<answer>x</answer>", ""),
        ("", ""),
        ("a\n\n\n\n\nb", "a\n\nb\n\n"),
    ],
)
def test_a_stream_in_any_pieces(capsys, text, expected, size):
    assert stream([text[start : start + size] for start in range(0, len(text), size)], capsys) == expected
