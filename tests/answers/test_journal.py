"""The file of a batch: what is written stays, and is taken up again."""

import fcntl
import json
import os
import subprocess
import sys

import pytest

from gtr_gpu.answers.journal import Journal
from gtr_gpu.errors import GTRError

SETTINGS = {"model": "m", "k": 10, "prompt": {"format": "markdown", "examples": None}}


def fill(path, number=3, **options):
    with Journal(path, SETTINGS, **options) as journal:
        for n in range(number):
            journal.add({"query_id": n, "query": f"q{n}", "answer": f"a{n} é\u2028"})
    return path.read_bytes()


def test_what_was_recorded_is_found_again(tmp_path):
    path = tmp_path / "a.jsonl"
    data = fill(path)
    lines = [json.loads(line) for line in data.splitlines()]
    assert [line["query_id"] for line in lines] == [0, 1, 2]
    assert lines[1] == {"query_id": 1, "query": "q1", "answer": "a1 é\u2028", "settings": SETTINGS}
    with Journal(path, SETTINGS) as journal:
        assert len(journal) == 3
        assert journal.get("1", "q1")["answer"] == "a1 é\u2028", "1 and '1' are one name, as in a file of questions"
        assert journal.get(3, "q3") is None
    assert path.read_bytes() == data


def test_each_line_is_on_the_disk_before_the_next(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    with Journal(tmp_path / "a", SETTINGS) as journal:
        for n in range(3):
            journal.add({"query_id": n, "query": "q"})
            assert synced[-1] == (tmp_path / "a").stat().st_size
    assert len(set(synced)) == 3


@pytest.mark.parametrize("keep", [1, 5, 14, 40, -1])
def test_a_torn_line_is_cut_off(tmp_path, keep):
    path = tmp_path / "a"
    whole = fill(path)
    last = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole[: -len(last)] + last.rstrip(b"\n")[: keep if keep > 0 else len(last) - 2])
    with Journal(path, SETTINGS) as journal:
        assert len(journal) == 2
        assert journal.get(2, "q2") is None
        journal.add({"query_id": 2, "query": "q2", "answer": "a2 é\u2028"})
    assert path.read_bytes() == whole


def test_only_a_torn_line(tmp_path):
    path = tmp_path / "a"
    for torn in (b"{", b'{"query_id": ', b'{"query_id": 0, "que', b"\0\0\0", b""):
        path.write_bytes(torn)
        with Journal(path, SETTINGS) as journal:
            journal.add({"query_id": 0, "query": "q0"})
        assert [json.loads(line)["query_id"] for line in path.read_bytes().splitlines()] == [0]


def test_a_last_line_without_its_end_is_whole(tmp_path):
    path = tmp_path / "a"
    whole = fill(path)
    path.write_bytes(whole[:-1])
    with Journal(path, SETTINGS) as journal:
        assert len(journal) == 3
        journal.add({"query_id": 3, "query": "q3"})
    assert path.read_bytes().startswith(whole)
    assert path.read_bytes().count(b"\n") == 4


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (SETTINGS | {"k": 20}, "(k: 10 there, 20 now)"),
        (SETTINGS | {"model": "n", "k": 20}, '(model: "m" there, "n" now; k: 10 there, 20 now)'),
        (SETTINGS | {"prompt": {"format": "csv", "examples": None}}, '(prompt.format: "markdown" there, "csv" now)'),
        (SETTINGS | {"new": 1}, "(new: null there, 1 now)"),
        ({"model": "m"}, "(k: 10 there, null now"),
        (SETTINGS | {"model": "x" * 500}, "…"),
    ],
)
def test_answers_of_other_settings_are_refused_in_one_sentence(tmp_path, settings, expected):
    path = tmp_path / "a"
    data = fill(path)
    with pytest.raises(GTRError) as caught:
        Journal(path, settings)
    message = str(caught.value)
    assert expected in message
    assert message.endswith("give another file, or overwrite it")
    assert "\n" not in message and len(message) < 600
    assert path.read_bytes() == data


def test_overwriting_happens_with_the_first_answer(tmp_path):
    path = tmp_path / "a"
    data = fill(path)
    for settings in (SETTINGS | {"k": 20}, SETTINGS):
        with Journal(path, settings, overwrite=True) as journal:
            assert len(journal) == 0
            assert path.read_bytes() == data, "an endpoint that refuses must not cost the old answers"
            journal.add({"query_id": 7, "query": "q"})
            journal.add({"query_id": 8, "query": "q"})
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        assert [(line["query_id"], line["settings"]) for line in lines] == [(7, settings), (8, settings)]
        path.write_bytes(data)


@pytest.mark.parametrize(
    "foreign",
    [
        b"hello",
        b"hello\n",
        b"{}\n",
        b"[1]\n",
        b'{"query_id": 1}\n',
        b'{"query_id": 1, "query": "q"}\n',
        b'{"query_id": [1], "query": "q", "settings": {}}\n',
        b"\x89PNG\r\n\x1a\n\0\0",
        b"[" * 5000 + b"\n",
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_of_something_else_is_left_as_it_is(tmp_path, foreign, overwrite):
    path = tmp_path / "a"
    path.write_bytes(foreign)
    with pytest.raises(GTRError, match=r"holds something else than answers of gtr \(line 1\), and was left as it is"):
        Journal(path, SETTINGS, overwrite=overwrite)
    assert path.read_bytes() == foreign


def test_a_damaged_line_in_the_middle(tmp_path):
    path = tmp_path / "a"
    lines = fill(path).splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1][:20] + b"\n", lines[2]]))
    with pytest.raises(GTRError, match="line 2"):
        Journal(path, SETTINGS)


def test_blank_lines_are_nothing(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(fill(path).replace(b"\n", b"\r\n\n"))
    with Journal(path, SETTINGS) as journal:
        assert len(journal) == 3


def test_another_question_of_the_same_name(tmp_path):
    path = tmp_path / "a"
    fill(path)
    with Journal(path, SETTINGS) as journal, pytest.raises(GTRError, match="another question of the query_id 1"):
        journal.get(1, "q2")


def test_one_writer_at_a_time(tmp_path):
    path = tmp_path / "a"
    with Journal(path, SETTINGS) as journal:
        journal.add({"query_id": 0, "query": "q"})
        for _ in range(2):
            with pytest.raises(GTRError, match="another process writes answers to"):
                Journal(path, SETTINGS)
        code = (
            "import sys; from gtr_gpu.answers.journal import Journal; from gtr_gpu.errors import GTRError\n"
            "try: Journal(sys.argv[1], {})\n"
            "except GTRError as error: sys.exit(7 if 'another process' in str(error) else 8)"
        )
        assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 7
    with Journal(path, SETTINGS) as journal:
        assert len(journal) == 1


def test_a_new_file_that_nothing_came_into_is_taken_away(tmp_path):
    path = tmp_path / "a"
    Journal(path, SETTINGS).close()
    assert not path.exists()
    path.touch()
    Journal(path, SETTINGS).close()
    assert path.exists(), "one that was there is the user's"


def test_what_can_not_be_a_file(tmp_path):
    with pytest.raises(GTRError, match=r"can't be written to .*: No such file"):
        Journal(tmp_path / "none" / "a", SETTINGS)
    with pytest.raises(GTRError, match=r"can't be written to .*: Is a directory"):
        Journal(tmp_path, SETTINGS)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GTRError, match="it is no file"):
        Journal(tmp_path / "pipe", SETTINGS)
    with pytest.raises(GTRError, match="it is no file"):
        Journal("/dev/null", SETTINGS)


@pytest.mark.parametrize("where", ["write", "sync"])
def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch, where):
    path = tmp_path / "a"
    data = fill(path)
    write = os.pwrite

    def failing(*given):
        if where == "write":
            write(given[0], given[1][:7], given[2])
        raise OSError(28, "No space left on device")

    with Journal(path, SETTINGS) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite" if where == "write" else "fsync", failing)
            with pytest.raises(OSError, match="No space") as caught:
                journal.add({"query_id": 3, "query": "q3"})
        assert caught.value.filename == str(path)
        assert path.read_bytes() == data
        journal.add({"query_id": 3, "query": "q3"})
    assert path.read_bytes().count(b"\n") == 4


def test_short_writes_are_gone_on_with(tmp_path, monkeypatch):
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, place: write(descriptor, data[:7], place))
    assert fill(tmp_path / "a").count(b"\n") == 3


def test_a_lock_on_a_file_that_was_taken_away_guards_nothing(tmp_path, monkeypatch):
    """Between opening and locking the other process closes its empty file, and so deletes it."""
    path = tmp_path / "a"
    other = Journal(path, SETTINGS)
    lock = fcntl.flock

    def late(descriptor, how):
        other.close()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with Journal(path, SETTINGS) as journal:
        journal.add({"query_id": 0, "query": "q"})
    assert path.read_bytes().count(b"\n") == 1


def test_a_link_that_led_nowhere_is_left_as_it_was(tmp_path):
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "target.jsonl")
    Journal(link, {}).close()
    assert link.is_symlink() and not link.exists()
