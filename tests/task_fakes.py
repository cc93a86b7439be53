"""A small task for the harness's tests: families of three tables, as sub-tables of one source."""

import random
from dataclasses import replace

from index_fakes import make_queries, make_tables

from gtr_gpu.multitableqa.task import Question, Task

POISON = "zanzibar"


def make_task(n_tables=60, n_questions=24, shuffle=0, raw=True, name="made", protocol="published"):
    """A task; another shuffle has other ids and another order of tables, and the same questions in another order."""
    tables = make_tables(n_tables)
    # The three tables of a family share a caption, as sub-tables of one source do.
    captions = [tables[row - row % 3].caption for row in range(n_tables)]
    rows = random.Random(shuffle).sample(range(n_tables), n_tables)
    names = random.Random(f"names {shuffle}").sample(range(10**6), n_tables)
    shown = [
        replace(tables[row], table_id=f"{names[row]:06x}", caption=captions[row], source="", metadata={})
        for row in rows
    ]
    sources = [f"source {shuffle} {row // 3} {POISON}" for row in rows]
    splits = ["tune" if row // 3 % 3 == 0 else "report" for row in rows]

    def questions(seed):
        texts = make_queries(tables, n_questions, seed)
        chosen = random.Random(f"queries/{seed}").sample(tables, n_questions)
        found = []
        for text, table in zip(texts, chosen, strict=True):
            row = int(table.table_id[1:])
            source = f"source {shuffle} {row // 3} {POISON}"
            split = "tune" if row // 3 % 3 == 0 else "report"
            found.append(Question(text, source, (POISON, f"answer {POISON}"), split, None))
        return tuple(random.Random(f"order {shuffle}").sample(found, len(found)))

    return Task(name, protocol, tuple(shown), tuple(sources), tuple(splits), questions(0), questions(1) if raw else ())
