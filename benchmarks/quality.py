"""How well are tables found that together answer a question, and what does the default preset gain on every baseline?

Builds MultiTableQA from the real tables by `gtr benchmark build`, with whole tables beside it, and measures methods by
`gtr benchmark run` on the questions of the report split: the built ones, and as they were released. Each is asked the
same sample of questions. The published method and the authors' protocol with the label, which take some twenty seconds
a question on large corpora, run on the small ones only. What is known is not measured again, so a second run takes
minutes.
"""

from __future__ import annotations

import argparse
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import _common as common

DECOMPOSED = ("tfv", "single_hop", "multi_hop", "multi_hop_5523", "tatqa")
WHOLE = ("tfv_3000", "single_hop", "multi_hop", "tatqa")
# Whose tables are sampled where there is a limit.
LARGE = ("tfv", "single_hop", "multi_hop")
PROTOCOLS = ("published", "withheld")


def parser(question: str | None) -> argparse.ArgumentParser:
    """A command line with the options of all benchmarks of MultiTableQA."""
    options = common.parser(question)
    options.add_argument("--work", type=Path, default=common.ROOT / ".cache" / "quality", help="benchmarks and runs")
    options.add_argument("--encodings", type=Path, help="where encodings are kept, if elsewhere")
    return options


def built(options: Namespace) -> list[Path]:
    """Builds the benchmarks of all sets, unless they are there; the folders of their tasks."""
    tasks = []
    for kind, names, sampled in (("split", DECOMPOSED, "multi_hop=5523"), ("whole", WHOLE, "tfv=3000")):
        samples = [sampled]
        folder = options.work / kind
        if options.limit:
            names = tuple(f"{name}_{options.limit}" for name in LARGE)
            samples = [f"{name}={options.limit}" for name in LARGE]
            folder = folder.with_name(f"{kind}-limit{options.limit}")
        if not (folder / "manifest.json").exists():
            common.say(f"building {folder.name}")
            arguments = [word for name in options.sets for word in ("--source", f"{name}={options.data / name}")]
            arguments += [word for sample in samples for word in ("--sample", sample)]
            arguments += ["--no-decompose"] if kind == "whole" else []
            common.run_gtr("benchmark", "build", *arguments, "--out", folder, "--quiet")
        protocols = ("whole",) if kind == "whole" else PROTOCOLS
        tasks += [folder / name / protocol for name in names for protocol in protocols]
    return [task for task in tasks if task.is_dir()]


def measure(options: Namespace, task: Path) -> list[dict[str, Any]]:
    """Runs the methods on a task; the groups of the report."""
    name = "-".join(task.parts[-3:])
    out = options.work / "runs" / name
    with (task / "tables.jsonl").open(encoding="utf-8") as lines:
        n_tables = sum(1 for _ in lines)
    common.say(f"{name}: {n_tables:,} tables")
    encodings = options.encodings or options.work / "encodings"
    arguments = [
        "--methods",
        ",".join(options.methods or ["all"]),
        "--questions",
        options.questions,
        "--sample",
        str(options.sample),
    ]
    common.run_gtr("benchmark", "run", task, "--out", out, "--encodings", encodings, "--quiet", *arguments)
    groups = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return [{"tables": n_tables, **group} for group in groups]


def report(groups: list[dict[str, Any]]) -> str:
    """The default preset beside the best baseline, on each task."""
    rows = []
    for group in groups:
        cuts = group["cuts"]
        found = {method["method"]: method for method in group["methods"]}
        if "gtr-default" not in found or not group["best_baseline"]:
            continue
        mine = found["gtr-default"]
        first = f"Acc@{cuts[0]}"
        baseline = group["best_baseline"][first]
        gain = mine["versus_best_baseline"][first]
        rows.append(
            [
                *(group["task"], group["protocol"], f"{group['tables']:,}", group["questions"]),
                baseline,
                _three(found[baseline], cuts),
                f"**{_three(mine, cuts)}**",
                f"{100 * gain['difference']:+.1f} ({100 * gain['low']:+.1f} to {100 * gain['high']:+.1f})",
                _worst(group, mine),
                _three(found["gtr-paper"], cuts) if "gtr-paper" in found else "",
            ]
        )
    n_baselines = max(sum(method["kind"] == "baseline" for method in group["methods"]) for group in groups)
    header = [
        *("task", "protocol", "tables", "questions", "best baseline", "its Acc", "default preset's Acc"),
        *("gain at the first k", "least gain of any k", "preset `paper`"),
    ]
    return "\n\n".join(
        [
            "Acc at 10, 20 and 50 tables, of whole tables at 1, 5 and 10: the share of questions with all gold tables "
            "that high, in %. The best baseline is the best of "
            f"{n_baselines} at the first k, with 95 % intervals of the paired gain; the "
            "least gain is over the best baseline at each k, which may be another one.",
            common.markdown_table(header, rows),
        ]
    )


def _three(method: dict[str, Any], cuts: list[int]) -> str:
    return " ".join(f"{100 * method['metrics'][f'Acc@{cut}']['mean']:.1f}" for cut in cuts)


def _worst(group: dict[str, Any], mine: dict[str, Any]) -> str:
    gains = {cut: mine["versus_best_baseline"][f"Acc@{cut}"]["difference"] for cut in group["cuts"]}
    cut = min(gains, key=gains.__getitem__)
    return f"{100 * gains[cut]:+.1f} at {cut}"


def main() -> int:
    """Builds, measures and reports."""
    options_of = parser(__doc__)
    options_of.add_argument("--sample", type=int, default=600, help="questions of each task and set")
    options_of.add_argument("--methods", nargs="+", metavar="METHOD", help="only these")
    options_of.add_argument("--tasks", nargs="+", metavar="TASK", help="only these, such as tfv or whole/tatqa")
    options_of.add_argument("--questions", default="both", choices=("built", "raw", "both"))
    options = options_of.parse_args()
    groups = []
    for task in built(options):
        name = f"whole/{task.parts[-2]}" if task.name == "whole" else task.parts[-2]
        if not options.tasks or name in options.tasks:
            groups += measure(options, task)
    common.write_results(options.results, "quality", __doc__, options.limit, {"groups": groups}, report(groups))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
