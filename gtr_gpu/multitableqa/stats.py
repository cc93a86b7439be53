"""What a benchmark holds, in numbers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.manifest import NAME, benchmark_of, manifest_of, verify_tasks
from gtr_gpu.multitableqa.task import PROTOCOLS, Task, read_task, tasks_in

Numbers = dict[str, int | float]


def task_numbers(task: Task) -> Numbers:
    """The numbers of a task.

    `tables` are what is searched (sub-tables), `source_tables` what they were cut from, and `distractors` the source
    tables that no question is about. `equal_tables` have the same caption, header and rows as another one, so that no
    method can tell them apart.
    """
    asked = {question.source for question in task.questions}
    cells = [len(table.rows) for table in task.tables], [len(table.header) for table in task.tables]
    rows, columns = (round(sum(counts) / len(counts), 2) for counts in cells)
    alike = Counter(json.dumps([table.caption, table.header, table.rows]) for table in task.tables)
    return {
        "source_tables": len(set(task.sources)),
        "distractors": len(set(task.sources) - asked),
        "tables": len(task.tables),
        "equal_tables": sum(count for count in alike.values() if count > 1),
        "rows_per_table": rows,
        "columns_per_table": columns,
        "questions": len(task.questions),
        "questions_to_tune": sum(question.split == "tune" for question in task.questions),
        "questions_with_evidence": sum(question.evidence is not None for question in task.questions),
        "parts_per_question": round(sum(question.parts for question in task.questions) / len(task.questions), 2),
        "raw_questions": len(task.raw),
    }


def numbers_of(folder: Path) -> list[tuple[str, str, Numbers]]:
    """The numbers of every task and protocol of a benchmark: from its manifest, or by reading a foreign set.

    Returns:
        Task, protocol and numbers, in the order of the manifest, which is that of the protocols.

    Raises:
        GTRError: There is no benchmark, or it is damaged.
    """
    manifest = manifest_of(folder)
    if manifest is not None:
        return [
            (name, protocol, counts[protocol])
            for name, counts in manifest.tasks.items()
            for protocol in PROTOCOLS
            if protocol in counts
        ]
    tasks = (read_task(path) for path in tasks_in(folder))
    return [(task.name, task.protocol, task_numbers(task)) for task in tasks]


def verify(folder: Path) -> None:
    """Compares all files of a benchmark, or of tasks of one, with their checksums.

    Raises:
        GTRError: A file is missing or was changed, or there is no benchmark that has checksums.
    """
    manifest = manifest_of(folder)
    if manifest is not None:
        manifest.verify(folder)
        return
    tasks = tasks_in(folder)
    if None in map(benchmark_of, tasks):
        raise GTRError(
            f"there are no checksums to --check, since no {NAME} tells what {str(folder)!r} should hold; give a "
            "benchmark that `gtr benchmark build` made, or leave out --check"
        )
    verify_tasks(tasks)
