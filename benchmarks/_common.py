"""What the benchmarks share: options, real data, processes that are measured, and results as JSON and Markdown.

Nothing heavy is imported here: a child's peak memory, as Linux counts it, is at least what its parent held when the
child began.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SETS = ("tabfact", "hybridqa", "wtq", "sqa", "tatqa")

_REPORTED_PACKAGES = (
    *("torch", "numpy", "transformers", "spacy"),
    *("scikit-learn", "scipy", "networkx", "bm25s", "faiss-cpu", "numba"),
    *("igraph", "scikit-network", "sparse_dot_topn"),
)
# They change how long threads wait for each other, and so every time on a busy machine.
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


class BenchmarkError(SystemExit):
    """What keeps a benchmark from running, as one sentence on stderr; status 2."""

    def __init__(self, message: str) -> None:
        sys.stderr.write(f"{message}\n")
        super().__init__(2)


def parser(question: str | None, sets: Sequence[str] = SETS) -> argparse.ArgumentParser:
    """A command line with the options that every benchmark has.

    Args:
        question: The script's docstring.
        sets: The sets that it reads unless it is told otherwise.
    """
    options = argparse.ArgumentParser(
        description=question, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    data = Path(os.environ.get("GTR_DATA", ROOT.parent / "shared" / "data"))
    options.add_argument("--data", type=Path, default=data, help="folder of the real tables (default: GTR_DATA)")
    options.add_argument("--sets", nargs="+", default=list(sets), metavar="SET", help=f"default: {' '.join(sets)}")
    options.add_argument("--limit", type=int, metavar="N", help="read at most N tables of a set (default: all)")
    options.add_argument(
        "--indexes", type=Path, default=ROOT / ".cache" / "benchmarks", help="where indexes are kept between benchmarks"
    )
    options.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="where results go")
    return options


def tables_of(data: Path, name: str) -> Path:
    """The file of a set's tables."""
    return _file(data, name, "tables.jsonl.zst")


def questions_of(data: Path, name: str) -> Path:
    """The file of a set's questions."""
    return _file(data, name, "queries.jsonl.zst")


def _file(data: Path, name: str, file: str) -> Path:
    path = data / name / file
    if not path.is_file():
        raise BenchmarkError(f"there is no {name}/{file} in the folder of the data; give another by --data or GTR_DATA")
    return path


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a zstd-compressed JSON lines file."""
    import zstandard

    with zstandard.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def sampled_questions(data: Path, name: str, count: int) -> list[str]:
    """So many questions of a set, spread evenly over it, texts only; all of them where it has fewer."""
    texts = [line["query"] for line in read_lines(questions_of(data, name))]
    step = max(1, len(texts) // count)
    return texts[::step][:count]


# Processes


@dataclass(frozen=True)
class Measured:
    """A process that has ended.

    Attributes:
        output: What it wrote to stdout.
        notes: The remarks that it wrote to stderr.
        seconds: Its wall time, from start to end.
        cpu_seconds: The processor time of all its threads.
        peak_memory: The largest memory it had, in bytes.
    """

    output: str
    notes: list[str]
    seconds: float
    cpu_seconds: float
    peak_memory: int


def run_gtr(*arguments: str | Path) -> Measured:
    """Runs `gtr` in a process of its own.

    Raises:
        BenchmarkError: It failed; says what it wrote to stderr.
    """
    return run_measured([sys.executable, "-m", "gtr_gpu.cli", *map(str, arguments)])


def run_measured(command: Sequence[str]) -> Measured:
    """Runs a process and measures it.

    Raises:
        BenchmarkError: It failed.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            raise BenchmarkError(f"{Path(command[0]).name} {' '.join(command[1:4])} … failed:\n{err.read()[-3000:]}")
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        notes = [line.removeprefix("note: ").rstrip() for line in err if line.startswith("note: ")]
        return Measured(out.read(), notes, seconds, usage.ru_utime + usage.ru_stime, peak)


def index_folder(indexes: Path, name: str, limit: int | None) -> Path:
    """Where the index of a set is kept."""
    return indexes.resolve() / f"{name}-{limit or 'full'}.index"


def build_index(data: Path, indexes: Path, name: str, limit: int | None) -> tuple[Path, Measured]:
    """Builds the index of a set anew."""
    folder = index_folder(indexes, name, limit)
    folder.parent.mkdir(parents=True, exist_ok=True)
    options = ["--limit", str(limit)] if limit else []
    source = tables_of(data, name).resolve()
    return folder, run_gtr("index", source, "--out", folder, "--overwrite", "--json", *options)


def index_of(data: Path, indexes: Path, name: str, limit: int | None) -> Path:
    """The index of a set; built if no benchmark has built it yet."""
    folder = index_folder(indexes, name, limit)
    if not (folder / "manifest.json").is_file():
        say(f"building the index of {name}")
        build_index(data, indexes, name, limit)
    return folder


# Results


def say(line: str) -> None:
    """Tells on stderr how far the benchmark is."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def machine() -> dict[str, Any]:
    """The processor, memory and versions that a result was measured with; nothing that names a person or a place."""
    versions = {"python": platform.python_version()}
    for package in _REPORTED_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = {name: os.environ[name] for name in _THREAD_SETTINGS if name in os.environ}
    facts = {"cpu": _cpu(), "cores": cores, "memory_gb": round(memory / 1e9, 1), "versions": versions}
    return facts | {"thread_settings": threads}


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return " ".join(re.sub(r"\((R|TM)\)|\bCPU\b|@.*", " ", found.group(1)).split())
    return platform.processor() or platform.machine()


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; numbers as they are given, the first column to the left and the others to the right."""
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def result_stem(name: str, limit: int | None) -> str:
    """What a benchmark's results are called on this machine."""
    where = machine()
    slug = re.sub(r"[^a-z0-9]+", "-", f"{where['cpu']} {where['cores']} cores".lower()).strip("-")
    return f"{name}{f'-limit{limit}' if limit else ''}-{slug}"


def write_results(
    folder: Path, name: str, question: str | None, limit: int | None, facts: dict[str, Any], text: str
) -> None:
    """Writes a benchmark's JSON and Markdown, and prints the Markdown.

    Args:
        folder: Where results go.
        name: The benchmark.
        question: The script's docstring, whose first line is the question.
        limit: The limit of tables; goes into the file's name, so that a trial run never replaces a whole one.
        facts: What was measured.
        text: The same for a person.
    """
    where, stem = machine(), result_stem(name, limit)
    versions = ", ".join(f"{name} {value}" for name, value in (where["versions"] | where["thread_settings"]).items())
    lines = [
        f"# {(question or name).strip().splitlines()[0]}",
        "",
        f"`{_command()}` on {where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB. {versions}.",
        "",
        text.strip(),
        "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"benchmark": name, "limit": limit, "machine": where, **facts}
    (folder / f"{stem}.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    (folder / f"{stem}.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


def _command() -> str:
    """How to run the benchmark again: what it was given, without the folders that lie elsewhere on each machine."""
    words: list[str] = []
    given = iter(sys.argv[1:])
    for word in given:
        option, sign, _ = word.partition("=")
        if option not in ("--data", "--indexes", "--results", "--index", "--work", "--encodings"):
            words.append(word)
        elif not sign:
            next(given, None)
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.1f} %"


def megabytes(size: float) -> str:
    """Bytes as megabytes."""
    return f"{size / 1e6:,.0f} MB"
