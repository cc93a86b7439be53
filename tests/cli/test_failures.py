"""Exit statuses, and the one line that goes with each."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from gtr_gpu.errors import GTRError, IndexFormatError


@pytest.mark.parametrize(
    ("error", "status", "expected"),
    [
        (GTRError("k is wrong"), 2, "gtr: k is wrong\n"),
        (IndexFormatError("a\nb \x1b[1m"), 2, "gtr: a b \N{SYMBOL FOR ESCAPE}[1m\n"),
        (KeyboardInterrupt(), 130, "gtr: interrupted; an index is never left half changed\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 1, "gtr: no space is left on the disk; "),
        (RuntimeError("IoError(Os { code: 28, kind: StorageFull })"), 1, "gtr: no space is left on the disk; "),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 1, "gtr: /x: Permission denied\n"),
        (MemoryError(), 1, "gtr: the memory is used up; "),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), 1, "gtr: the memory is used up; "),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), 1, "gtr: the memory"),
        (BrokenPipeError(), 141, ""),
        (ValueError("odd"), 70, "gtr: this is a bug in gtr: ValueError: odd; "),
    ],
)
def test_an_error_is_one_line_and_a_status(gtr, fake, folder, error, status, expected):
    fake.error = error
    got, out, err = gtr("info", folder)
    assert (got, out) == (status, "")
    assert err.startswith(expected)
    assert err.count("\n") == bool(expected)


def test_an_interrupt_that_a_library_turns_into_another_error_is_one(gtr, fake, folder, monkeypatch):
    def swallow(self):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("could not determine the shape of an object") from None

    monkeypatch.setattr(fake, "info", swallow)
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status, _, err = gtr("info", folder)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, usual)
    assert (status, err) == (130, "gtr: interrupted; an index is never left half changed\n")


def test_memory_that_torch_does_not_get_is_the_machines_fault(gtr, fake, folder, monkeypatch):
    monkeypatch.setattr(fake, "info", lambda self: torch.empty(1 << 60))
    status, _, err = gtr("info", folder)
    assert (status, err.startswith("gtr: the memory is used up; ")) == (1, True)


def test_a_full_disk_behind_another_error_is_told(gtr, fake, folder):
    fake.error = RuntimeError("write failed")
    fake.error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert gtr("info", folder)[0] == 1


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_traceback_only_with_debug(gtr, fake, folder, monkeypatch, how):
    fake.error = ValueError("odd")
    assert "Traceback" not in gtr("info", folder)[2]
    if how == "variable":
        monkeypatch.setenv("GTR_DEBUG", "1")
        assert "Traceback" in gtr("info", folder)[2]
    else:
        assert "Traceback" in gtr("info", folder, "--debug")[2]


def test_debug_after_two_dashes_is_a_question(gtr, fake, folder):
    assert gtr("search", folder, "-k", 1, "--", "--debug")[1].startswith("# --debug\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["serch"], "Did you mean 'search'? `gtr --help`"),
        (["search", "--nope"], "`gtr search --help`"),
        (["index", "a.csv"], "'--out'"),
        (["index", "a.csv", "--out", "o", "--device", "gpu"], "'gpu' is not one of 'auto', 'cpu', 'cuda'"),
        (["demo", "--out", ""], "'--out': it is empty; give a path, or . for the current folder"),
        (["info"], "info needs the folder of an index, or --knobs"),
    ],
)
def test_wrong_usage_is_one_line_with_a_hint(gtr, words, expected):
    status, out, err = gtr(*words)
    assert (status, out) == (2, "")
    assert expected in err
    assert err.count("\n") == 1


def test_help_and_version(gtr):
    for words in (["--help"], ["-h"], *([command, "--help"] for command in COMMANDS)):
        status, out, _ = gtr(*words)
        assert status == 0
        assert "Usage" in out
    assert gtr("--version")[1].startswith("gtr ")
    assert gtr()[0] == 2


COMMANDS = ("index", "search", "ask", "add", "remove", "rebuild", "info", "verify", "doctor", "demo")


def _run(*words, **options):
    return subprocess.run([sys.executable, "-m", "gtr_gpu.cli", *words], check=False, **options)


def test_help_loads_nothing_heavy_and_is_quick():
    heavy = ["torch", "transformers", "spacy", "pyarrow", "numpy", "pandas"]
    code = (
        "import sys; from gtr_gpu.cli import main; status = main(['--help']); "
        f"sys.exit(status or any(name in sys.modules for name in {heavy}))"
    )
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert time.perf_counter() - start < 5, "a fifth of a second, on a machine that does nothing else"


def test_a_mistake_is_told_before_torch_is_loaded(tmp_path):
    code = (
        "import sys; from gtr_gpu.cli import main; status = main(sys.argv[1:]); "
        "sys.exit(status if 'torch' not in sys.modules else 99)"
    )
    for words in (["search", str(tmp_path / "none"), "q"], ["index", "/no/such", "--out", str(tmp_path / "o")]):
        done = subprocess.run([sys.executable, "-c", code, *words], check=False, capture_output=True)
        assert done.returncode == 2


def test_a_reader_that_has_gone_ends_it_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = _run("info", "--knobs", stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_interrupt_while_modules_are_imported():
    code = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from gtr_gpu.cli import main\n"
        "sys.exit(main(['--version']))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"gtr: interrupted\n")


def test_a_full_disk_under_stdout_claims_nothing_of_the_index():
    with open("/dev/full", "wb") as full:  # noqa: PTH123 (a device)
        done = _run("info", "--knobs", stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, b"index" in done.stderr) == (1, False)


def test_a_terminal_that_is_not_unicode():
    done = _run("info", "--knobs", capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert rb"damping (\u03b1)" in done.stdout
    done = _run("doctor", capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"  + gtr-gpu" in done.stdout
