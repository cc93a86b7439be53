"""How long do our own operations take, by pytest-benchmark, to be followed over time?

The works of `kernels.py` that are ours, one after the other in this process, in groups beside those of the reference.
The JSON file that is written is one that `pytest-benchmark compare` reads; pytest-benchmark prints its table.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import _common as common
import pytest
from _contest import Sizes, Work, Works

from kernels import GROUPS, group_of


class Given:
    """Gives the tests their works, each group's made when it is first asked for, and the results the machine."""

    def __init__(self, options: Namespace) -> None:
        self._options = options
        self._sizes = Sizes.of(options.limit)
        self._works: dict[str, Works] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each work of ours."""
        works: dict[tuple[str, str], None] = {}
        for name in self._options.only:
            for row in group_of(name).rows(self._sizes):
                works |= {(name, task): None for task in (row.ours, row.peer) if task.startswith("gtr/")}
        metafunc.parametrize(("group", "task"), list(works), ids=[f"{name}: {task[4:]}" for name, task in works])

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """Says of the machine what other benchmarks say, and not its name."""
        machine_info.clear()
        machine_info.update(common.machine())

    @pytest.fixture
    def work(self, group: str, task: str, tmp_path_factory: pytest.TempPathFactory) -> Work:
        """The work to be timed."""
        if group not in self._works:
            folder = tmp_path_factory.mktemp(group)
            group_of(group).prepare(self._options, self._sizes, folder)
            self._works[group] = group_of(group).COMPETITORS["gtr"](folder, self._sizes)
        return self._works[group][task.removeprefix("gtr/")]

    @pytest.fixture
    def rounds(self) -> int:
        """How often it is timed."""
        return int(self._options.rounds)


def test_work(benchmark: Any, work: Work, group: str, rounds: int) -> None:  # noqa: ANN401 (no types)
    """Times one work."""
    benchmark.group = group
    benchmark.extra_info["items"] = work.items
    benchmark.pedantic(work.run, rounds=rounds, warmup_rounds=1)


def main() -> int:
    """Runs pytest on this file."""
    parser = common.parser(__doc__, sets=("tabfact",))
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, help="groups of works (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed")
    parser.add_argument("--threads", type=int, help="threads (default: as many as there are cores)")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads or common.machine()["cores"]))
    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results.resolve() / f"{common.result_stem('ops', options.limit)}.json"
    settings = ["-q", "-p", "no:cacheprovider", "-W", "default", "--rootdir", str(Path(__file__).parent)]
    shown = ["--benchmark-columns", "min,median,iqr,rounds", "--benchmark-sort", "name", "--benchmark-disable-gc"]
    return int(pytest.main([__file__, *settings, *shown, "--benchmark-json", str(file)], plugins=[Given(options)]))


if __name__ == "__main__":
    sys.exit(main())
