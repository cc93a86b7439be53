"""A batch that is killed, or stopped by Ctrl-C, goes on where it was, with a real process and a real server."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from index_fakes import fast_config, make_tables
from model_server import answer, raw, serving

from gtr_gpu import GTRIndex

N_QUESTIONS, CONCURRENCY = 200, 4
TESTS = Path(__file__).parents[1]
pytest.importorskip("openai")


@pytest.fixture(scope="module")
def folder(fake_encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("killed") / "index"
    GTRIndex.build(make_tables(30), path, config=fast_config())
    return path


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text(
        "".join(json.dumps({"query": f"number {n} please", "query_id": n}) + "\n" for n in range(N_QUESTIONS))
    )
    return path


@pytest.fixture
def server():
    """A server that takes a while for each answer, and for some a little longer."""
    with serving() as server:
        good = answer("<reasoning>\n1. Table 1 it is.\n</reasoning>\n<answer>\nyes\n</answer>")

        def slow(call, write):
            time.sleep(0.01 + 0.02 * (len(server.calls) % 3))
            good(call, write)

        server.script = [slow]
        yield server


def asked(server):
    """How often each question was asked for."""
    return Counter(
        int(re.search(r"Question: number (\d+) please", call.prompt).group(1)) for call in server.completions
    )


def run(folder, questions, out, server, *more):
    words = [sys.executable, TESTS / "ask_process.py", "ask", folder, "--queries", questions, "--out", out, "-k", "2"]
    words += ["--base-url", server.url, "--concurrency", str(CONCURRENCY), "--prompt-tokens", "1500", *more]
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        list(map(str, words)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )


def stop(process, server, number, how):
    """Ends a process once so many questions were asked for."""
    end = time.monotonic() + 60
    while len(server.completions) < number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.002)
    process.send_signal(how)
    shown, err = process.communicate(timeout=30)
    # Calls that were under way are over before the next run is looked at, also those that the server had still to read.
    seen = -1
    while server.in_flight or len(server.calls) != seen:
        seen = len(server.calls)
        time.sleep(0.5)
    return process.returncode, shown, err


def recorded(out):
    lines = out.read_bytes().split(b"\n")
    return [json.loads(line)["query_id"] for line in lines[:-1]], lines[-1]


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_what_was_answered_is_never_asked_again(folder, questions, server, tmp_path, how):
    out = tmp_path / "a.jsonl"
    status, _, err = stop(run(folder, questions, out, server), server, N_QUESTIONS // 2, how)
    if how is signal.SIGINT:
        assert status == 130
        assert err.splitlines()[-1].startswith("gtr: interrupted; what was answered is in the file")
    first, (kept, torn) = asked(server), recorded(out)
    assert set(first.values()) == {1}
    assert len(kept) == len(set(kept)) >= N_QUESTIONS // 2 - 2 * CONCURRENCY
    assert not torn or how is signal.SIGKILL
    in_flight = set(first) - set(kept)
    assert len(in_flight) <= CONCURRENCY, "what was asked for and not recorded was under way"

    if how is signal.SIGKILL and not torn:  # as if it had been killed while it wrote
        with out.open("ab") as file:
            file.write(b'{"query_id": 199, "query": "number 199 pl')
    server.calls.clear()
    process = run(folder, questions, out, server)
    shown, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    second = asked(server)
    assert set(second.values()) == {1}
    assert not set(second) & set(kept), "what was answered is not asked again"
    assert set(second) | set(kept) == set(range(N_QUESTIONS))
    names, torn = recorded(out)
    assert sorted(names) == list(range(N_QUESTIONS)) and not torn
    assert f"note: {len(kept)} of {N_QUESTIONS} were answered already in {out}\n" in err
    assert shown.startswith(f"answered     200 of 200 questions, {len(second)} of them now\n")


@pytest.mark.slow
def test_kills_one_after_another(folder, questions, server, tmp_path):
    out = tmp_path / "a.jsonl"
    in_flight = 0
    for number in (20, 30, 50):
        server.calls.clear()
        before = recorded(out)[0] if out.exists() else []
        stop(run(folder, questions, out, server), server, number, signal.SIGKILL)
        kept = recorded(out)[0]
        assert kept[: len(before)] == before, "what was written stays"
        assert not set(asked(server)) & set(before)
        in_flight += len(set(asked(server)) - set(kept))
    assert in_flight <= 3 * CONCURRENCY


@pytest.mark.slow
def test_a_server_that_goes_away_in_the_middle_loses_nothing(folder, questions, server, tmp_path):
    out = tmp_path / "a.jsonl"
    good = server.script[0]

    def failing(call, write):
        if len(server.completions) > 60:
            write(raw(500, b'{"error": {"message": "out of order"}}'))
        else:
            good(call, write)

    server.script = [failing]
    process = run(folder, questions, out, server, "--retries", "0")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "out of order" in err
    assert "were not completed; the same command asks them again, and them alone" in err
    kept = recorded(out)[0]
    assert len(kept) >= 60 - CONCURRENCY
    server.script = [good]
    server.calls.clear()
    process = run(folder, questions, out, server)
    assert process.wait(60) == 0
    process.communicate()
    assert not set(asked(server)) & set(kept)
