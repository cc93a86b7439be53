"""What does a build cost, and how much of it is not the encoder?

For each set, `gtr index` runs in a process of its own. Reported are the wall seconds of each stage, the share of the
build outside the encoder, the peak memory of the process, the size of the index, and what was read only in part.
Loading the encoder is a constant of some seconds: it is shown, and left out of the share on both sides.
"""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

import _common as common

from gtr_gpu.progress import ENCODING, LOADING_ENCODER

# What the whole of TabFact may cost.
MAX_SHARE, MAX_MEMORY = 0.25, 2e9


def measure(options: Namespace, name: str) -> dict[str, Any]:
    """Builds the index of one set and returns what it cost."""
    folder, process = common.build_index(options.data, options.indexes, name, options.limit)
    report = json.loads(process.output)
    info = json.loads(common.run_gtr("info", folder, "--json").output)
    seconds = info["summary"]["seconds"]
    outside = process.seconds - seconds[LOADING_ENCODER] - seconds[ENCODING]
    return {
        "set": name,
        "tables": report["tables"],
        "terms": info["terms"],
        "process_seconds": process.seconds,
        "cpu_seconds": process.cpu_seconds,
        "stage_seconds": seconds,
        "outside_stages_seconds": process.seconds - sum(seconds.values()),
        "outside_encoder_seconds": outside,
        "outside_encoder_share": outside / (outside + seconds[ENCODING]),
        "peak_memory_bytes": process.peak_memory,
        "index_bytes": sum(file.stat().st_size for file in folder.iterdir()),
        "left_out": report["left_out"],
        "failed": len(report["failed"]) + report["lines_failed"],
        "notes": report["notes"],
    }


def report(measured: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    costs = [
        [
            one["set"],
            f"{one['tables']:,}",
            f"{one['process_seconds']:.1f} s",
            f"{one['stage_seconds'][ENCODING]:.1f} s",
            f"{one['outside_encoder_seconds']:.1f} s",
            common.percent(one["outside_encoder_share"]),
            f"{1000 * one['outside_encoder_seconds'] / one['tables']:.2f} ms",
            common.megabytes(one["peak_memory_bytes"]),
            common.megabytes(one["index_bytes"]),
        ]
        for one in measured
    ]
    header = ["set", "tables", "whole process", "encoding", "outside", "share outside", "outside, a table"]
    header += ["peak memory", "index"]
    names = list(dict.fromkeys(stage for one in measured for stage in one["stage_seconds"]))
    stages = [[name, *(f"{one['stage_seconds'].get(name, 0):.2f}" for one in measured)] for name in names]
    stages.append(["start, end and all else", *(f"{one['outside_stages_seconds']:.2f}" for one in measured)])
    kinds = list(dict.fromkeys(kind for one in measured for kind in one["left_out"]))
    left_out = [[kind.replace("_", " "), *(f"{one['left_out'].get(kind, 0):,}" for one in measured)] for kind in kinds]
    left_out.append(["files or lines that failed", *(f"{one['failed']:,}" for one in measured)])
    sets = [one["set"] for one in measured]
    parts = [
        common.markdown_table(header, costs),
        "Wall seconds of each stage:",
        common.markdown_table(["stage", *sets], stages),
        "What was read, and what of it only in part (`beyond window`: it counts as words, but the encoder did not read "
        "it):",
        common.markdown_table(["", *sets], left_out),
        *(f"- {one['set']}: {note}" for one in measured for note in one["notes"]),
    ]
    return "\n\n".join(parts)


def main() -> int:
    """Runs the benchmark; status 1 where the whole of TabFact costs more than it may."""
    options = common.parser(__doc__).parse_args()
    measured = []
    for name in options.sets:
        common.say(f"building the index of {name}")
        measured.append(measure(options, name))
    common.write_results(options.results, "build", __doc__, options.limit, {"sets": measured}, report(measured))
    whole = [one for one in measured if one["set"] == "tabfact" and options.limit is None]
    dear = [one for one in whole if one["outside_encoder_share"] > MAX_SHARE or one["peak_memory_bytes"] > MAX_MEMORY]
    return 1 if dear else 0


if __name__ == "__main__":
    raise SystemExit(main())
