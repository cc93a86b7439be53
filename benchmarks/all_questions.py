"""Does every question of every set get a well-formed answer?

All questions of all sets go through `gtr search --queries ... --json`, in a process for each set. Checked are: one line
for each question, in order and with its id and text; k distinct tables each, ranked from 1, whose scores are finite and
never rise; edges between tables of the answer only; candidates no fewer than tables. Whether an answer is right is not
the question here.
"""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections import Counter
from itertools import pairwise
from typing import Any

import _common as common


def faults_of(answer: dict[str, Any], asked: dict[str, Any], k: int) -> list[str]:
    """What is wrong with one answer, in words; nothing where it is sound."""
    tables = answer["tables"]
    ids = [table["table_id"] for table in tables]
    scores = [table["score"] for table in tables]
    return [
        fault
        for fault, wrong in {
            "another query_id": answer["query_id"] != asked["query_id"],
            "another question": answer["query"] != asked["query"],
            f"not {k} tables": len(tables) != k,
            "a table twice": len(set(ids)) != len(ids),
            "ranks that do not count from 1": [table["rank"] for table in tables] != list(range(1, len(tables) + 1)),
            "a score that is no number": not all(math.isfinite(score) for score in scores),
            "a score below 0 or above 1": not all(0 <= score <= 1 for score in scores if math.isfinite(score)),
            "scores that rise": any(later > earlier for earlier, later in pairwise(scores)),
            "an edge to a table outside": any(
                edge[end] not in ids for edge in answer["edges"] for end in ("source", "target")
            ),
            "fewer candidates than tables": answer["candidates"] < len(tables),
        }.items()
        if wrong
    ]


def measure(options: Namespace, name: str) -> dict[str, Any]:
    """Asks all questions of one set and checks the answers."""
    folder = common.index_of(options.data, options.indexes, name, options.limit)
    n_tables = json.loads(common.run_gtr("info", folder, "--json").output)["tables"]
    k = min(options.k, n_tables)
    asked = common.questions_of(options.data, name).resolve()
    process = common.run_gtr("search", folder, "--queries", asked, "-k", str(options.k), "--json")
    lines = process.output.splitlines()
    expected = list(common.read_lines(asked))
    faults: Counter[str] = Counter()
    examples: dict[str, Any] = {}
    zero_tails = unconverged = steps = candidates = 0
    for line, question in zip(lines, expected, strict=False):
        answer = json.loads(line)
        unconverged += not answer["converged"]
        steps += answer["iterations"]
        candidates += answer["candidates"]
        zero_tails += any(table["score"] == 0 for table in answer["tables"])
        for fault in faults_of(answer, question, k):
            faults[fault] += 1
            examples.setdefault(fault, answer["query_id"])
    if len(lines) != len(expected):
        faults["questions without a line, or lines without a question"] = abs(len(lines) - len(expected))
    return {
        "set": name,
        "tables": n_tables,
        "questions": len(expected),
        "answers": len(lines),
        "faults": dict(faults),
        "first_example": examples,
        "converged_share": 1 - unconverged / max(len(lines), 1),
        "mean_iterations": steps / max(len(lines), 1),
        "mean_candidates": candidates / max(len(lines), 1),
        "answers_with_zero_scores": zero_tails,
        "process_seconds": process.seconds,
        "peak_memory_bytes": process.peak_memory,
        "notes": process.notes,
    }


def report(measured: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    rows = [
        [
            one["set"],
            f"{one['tables']:,}",
            f"{one['questions']:,}",
            f"{one['answers']:,}",
            sum(one["faults"].values()),
            common.percent(one["converged_share"]),
            f"{one['mean_iterations']:.1f}",
            f"{one['mean_candidates']:.0f}",
            f"{one['answers_with_zero_scores']:,}",
            f"{one['questions'] / one['process_seconds']:.0f}",
            common.megabytes(one["peak_memory_bytes"]),
        ]
        for one in measured
    ]
    header = ["set", "tables", "questions", "answers", "faults", "converged", "steps", "candidates"]
    header += ["with a score of 0", "a second, encoding and start included", "peak memory"]
    remarks = [f"- {one['set']}: {count:,} with {fault}" for one in measured for fault, count in one["faults"].items()]
    remarks += [f"- {one['set']}: {note}" for one in measured for note in one["notes"]]
    return common.markdown_table(header, rows) + "\n\n" + "\n".join(remarks)


def main() -> int:
    """Runs the benchmark; status 1 where an answer is not well formed."""
    parser = common.parser(__doc__)
    parser.add_argument("-k", type=int, default=10, help="tables for each question")
    options = parser.parse_args()
    measured = []
    for name in options.sets:
        common.say(f"asking all questions of {name}")
        measured.append(measure(options, name))
    common.write_results(options.results, "all_questions", __doc__, options.limit, {"sets": measured}, report(measured))
    return 1 if any(one["faults"] for one in measured) else 0


if __name__ == "__main__":
    raise SystemExit(main())
