"""How many times as fast are the kernels as what one would take instead, and how far from this machine's limit?

Each row is one work, done by us and by a peer on the same data: processes of their own, equal threads, equal stopping
rules, run in turn (A B A B …); the ratio is the median over the turns of the peer's time divided by ours, with the
least and greatest beside it. Results are compared before anything is timed. The last column divides our time by the
least that this machine needs for the work's matrix products or memory traffic, both measured between the turns; it is
empty where that can't be said. Peers that take over a hundred times as long do a part of the work (the items say how
much), and times are those of an item. `python benchmarks/ops.py` follows our own operations over time by
pytest-benchmark; ratios to others can't come from there, since it runs one thing after the other in one process.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import _common as common
from _contest import Sizes, be_competitor, measure, report

GROUPS = ("graph", "clusters", "texts", "search", "segments")


def group_of(name: str) -> ModuleType:
    """The module of a group."""
    return importlib.import_module(f"_groups.{name}")


def main() -> int:
    """Runs the benchmark, or one of its processes."""
    parser = common.parser(__doc__, sets=("tabfact",))
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, help="groups of rows (default: all)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of a pair")
    parser.add_argument("--seconds", type=float, default=30, help="after which a pair has no more turns, from 3 on")
    parser.add_argument("--threads", type=int, help="threads of each process (default: as many as there are cores)")
    parser.add_argument("--group", choices=GROUPS, help="be a process of this group (internal)")
    parser.add_argument("--folder", type=Path, help="where that process finds its data (internal)")
    parser.add_argument("--prepare", action="store_true", help="write the group's data (internal)")
    parser.add_argument("--serve", metavar="COMPETITOR", help="be the process that is timed (internal)")
    options = parser.parse_args()
    options.script = Path(__file__)
    sizes = Sizes.of(options.limit)
    if options.group:
        group = group_of(options.group)
        if options.prepare:
            group.prepare(options, sizes, options.folder)
        else:
            be_competitor(group, options.serve, options.folder, sizes)
        return 0
    measured = [row for name in options.only for row in measure(name, group_of(name), options, sizes)]
    partial = "" if tuple(options.only) == GROUPS else "-" + "-".join(options.only)
    common.write_results(
        options.results, f"kernels{partial}", __doc__, options.limit, {"rows": measured}, report(measured)
    )
    return 0 if all(row["same"]["same"] for row in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
