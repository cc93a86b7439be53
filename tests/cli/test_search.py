"""`gtr search`: what it prints, and what it refuses before anything is loaded."""

import io
import json

import pytest

from gtr_gpu.cli import hits, search
from gtr_gpu.cli.queries import Query
from gtr_gpu.cli.view import View
from gtr_gpu.results import Edge
from gtr_gpu.tables.table import Table


def test_json_is_one_object_a_query(gtr, fake, folder):
    status, out, err = gtr("search", folder, "Who won?", "Where?", "-k", 2, "--json", "--edges")
    assert (status, err) == (0, "")
    first, second = map(json.loads, out.splitlines())
    assert first == {
        "query_id": "1",
        "query": "Who won?",
        "tables": [
            {"table_id": "a.csv", "caption": "Medals of 2012", "score": 1.0, "rank": 1},
            {"table_id": "b.csv", "caption": "", "score": 0.5, "rank": 2},
        ],
        "edges": [
            {"source": "a.csv", "target": "b.csv", "type": "header", "score": 0.25},
            {"source": "a.csv", "target": "b.csv", "type": "key", "score": 0.5},
        ],
        "iterations": 7,
        "converged": True,
        "candidates": 3,
    }
    assert second["query_id"] == "2"


def test_edges_are_empty_unless_asked_for(gtr, fake, folder):
    assert json.loads(gtr("search", folder, "q", "--json")[1])["edges"] == []


def test_a_pipe_gets_tab_separated_lines(gtr, fake, folder):
    status, out, _ = gtr("search", folder, "Who?", "--edges")
    assert status == 0
    assert out.splitlines() == [
        "# Who?",
        "1\t1.0000\tMedals of 2012\ta.csv",
        "2\t0.5000\t(city, people)\tb.csv",
        "3\t0.3333\tCapitals\tc.csv",
        "# 1 - 3\tkey 0.50, header 0.25",
    ]


def test_k_above_n_gives_n_tables_and_a_note(gtr, fake, folder):
    _, out, err = gtr("search", folder, "q", "-k", 50, "--json")
    assert len(json.loads(out)["tables"]) == 3
    assert err == "note: -k is 50, but the index holds 3 tables\n"
    assert fake.asked[0][1] == 3


def test_notes_of_the_search_are_told_once(gtr, fake, folder, monkeypatch):
    monkeypatch.setattr(search, "BATCH", 1)
    fake.result_notes = ["a question was cut"]
    _, _, err = gtr("search", folder, "q", "r", "-k", 1)
    assert err == "note: a question was cut\n"


def test_many_queries_go_in_batches(gtr, fake, folder, tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text(
        "".join(json.dumps({"query": f"q{n}", "query_id": n, "label": "a.csv"}) + "\n" for n in range(1100))
    )
    status, out, _ = gtr("search", folder, "--queries", path, "--json", "-k", 1)
    assert status == 0
    assert [json.loads(line)["query_id"] for line in out.splitlines()] == list(range(1100))
    assert [len(batch) for batch, _, _ in fake.asked] == [512, 512, 76]


def test_knobs_reach_the_search(gtr, fake, folder):
    gtr("search", folder, "q", "--preset", "paper", "--set", "damping=0.5", "--set", "n_probe=3")
    config = fake.asked[0][2]
    assert (config.damping, config.n_probe, config.transfer) == (0.5, 3, "dense")
    assert config.n_clusters == 0, "the knobs of the build stay the index's"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["q", "-k", "0"], "-k must be at least 1, got 0"),
        (["q", "-k", "x"], "Invalid value for '-k'"),
        (["q", "--preset", "papr"], "did you mean 'paper'?"),
        (["q", "--set", "dampin=1"], "did you mean 'damping'?"),
        (["q", "--set", "damping=2"], "damping must be a number of at least 0 and at most 0.999, got 2"),
        (["q", "--set", "n_clusters=5"], "n_clusters is a knob of the build"),
        (["q", "--set", "damping"], "NAME=VALUE"),
        ([], "there is no question"),
        ([""], "question 1 must hold at least one word"),
        (["fine", " \t"], "question 2 must hold at least one word"),
        (["q", "--queries", "f.jsonl"], "got both"),
        (["--queries", "/no/such.jsonl"], "/no/such.jsonl can't be read: no such file"),
        (["q", "--colour"], "No such option"),
    ],
)
def test_mistakes_are_one_sentence(gtr, fake, folder, words, expected):
    fake.error = AssertionError("loaded before the check")
    status, out, err = gtr("search", folder, *words)
    assert (status, out) == (2, "")
    assert expected in err
    assert err.startswith("gtr: ")
    assert err.count("\n") == 1


def test_a_folder_that_is_no_index(gtr, fake, tmp_path):
    assert gtr("search", tmp_path / "none", "q")[2].startswith("gtr: there is no index at ")
    assert "there is no index at" in gtr("search", tmp_path, "q")[2]
    (tmp_path / "writer.lock").touch()
    assert "interrupted build" in gtr("search", tmp_path, "q")[2]


HOSTILE = "[red]bold[/red] \x1b[2J\x9b31m :smile: a\nb\u202ec\ud800\xad\U000e0041"


@pytest.mark.parametrize("terminal", [False, True])
def test_hostile_text_is_shown_not_obeyed(capsys, terminal):
    from rich.console import Console

    answer = hits.Answer(
        Query("1", HOSTILE),
        [
            hits.Hit(1, 0.5, HOSTILE, HOSTILE, hits.visible(HOSTILE)),
            hits.Hit(2, 0.25, "t", "", hits._columns([HOSTILE])),
        ],
        [Edge(0, 1, HOSTILE[:5], 0.5)],
        1,
        True,
        2,
    )
    if terminal:
        console = Console(width=60, markup=False, emoji=False, highlight=False, color_system=None, force_terminal=True)
        hits.put_answer(answer, True, View(console=console))
    else:
        hits.put_plain_answer(answer)
    out = capsys.readouterr().out
    shown = out.replace(" ", "").replace("\n", "")
    assert "[red]bold[/red]" in shown
    assert ":smile:" in shown
    assert "\N{SYMBOL FOR ESCAPE}[2J" in shown
    assert "\\u202e" in shown
    assert "\\u00ad\\U000e0041" in shown
    assert not set(out) & set("\x1b\x9b\u202e\ud800\xad\U000e0041")


def test_a_terminal_of_ascii_gets_codes(monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", stdout)
    query, hit = Query("1", "Größe?"), hits.Hit(1, 0.5, "é", "é", "東京")
    hits.put_answer(hits.Answer(query, [hit, hit], [], 1, True, 2), True, View())
    stdout.flush()
    shown = stdout.buffer.getvalue()
    assert rb"Gr\xf6\xdfe?" in shown
    assert rb"\u6771\u4eac" in shown


def test_hostile_text_in_json_is_ascii(gtr, fake, folder):
    fake.corpus = [Table(HOSTILE, HOSTILE, [], [])]
    status, out, _ = gtr("search", folder, HOSTILE, "-k", 1, "--json")
    assert status == 0
    assert out.isascii()
    assert "\x1b" not in out
    assert json.loads(out)["tables"][0]["caption"] == HOSTILE


def test_a_long_text_is_whole_on_a_narrow_terminal(capsys):
    from rich.console import Console

    name = "/".join(["folder"] * 30)
    answer = hits.Answer(Query("1", "q"), [hits.Hit(1, 0.5, name, "", "x" * 300)], [], 1, True, 1)
    hits.put_answer(answer, True, View(console=Console(width=40, color_system=None)))
    shown = "".join(capsys.readouterr().out.split())
    assert name in shown
    assert "x" * 300 in shown
