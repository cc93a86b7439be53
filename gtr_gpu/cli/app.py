"""The commands put together, and what happens to the errors that they raise."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from gtr_gpu.cli import (
    add,
    ask,
    benchmark,
    benchmark_answer,
    benchmark_run,
    common,
    demo,
    doctor,
    failures,
    index,
    info,
    prompt,
    rebuild,
    remove,
    search,
    verify,
)

app = typer.Typer(name="gtr", add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
for command in (index, search, prompt, ask, add, remove, rebuild, info, verify, doctor, demo):
    app.command(command.__name__.rpartition(".")[2])(command.run)
benchmark.app.command("run")(benchmark_run.run)
benchmark.app.command("answer")(benchmark_answer.run)
app.add_typer(benchmark.app, name="benchmark")
_KEPT = {
    "ask": "what was answered is in the file of --out, where there is one, and the same command goes on from there",
    "benchmark build": "an earlier benchmark stays until the new one is complete, and the same command starts anew",
    "benchmark answer": "what the model said is kept, and the same command goes on from there",
    "benchmark run": "finished runs and the encodings on disk are kept, and the same command goes on from there",
    "benchmark stats": "nothing was changed",
}


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and every log line (or GTR_DEBUG=1).")
    ] = False,
) -> None:
    """Find the few tables, among very many, that together answer a question."""
    if version:
        typer.echo(f"gtr {common.version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def main(args: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        args: The words after `gtr`; those of the process where None.

    Returns:
        The exit status: 0, 2 for a mistake of the user, 130 for Ctrl-C, 1 for what the machine refuses (a full disk,
        a missing right), 70 for a bug, 141 where the reader of a pipe has gone.
    """
    # Threads of torch that spin while they wait slow a machine with other work down tenfold. It has to be said before
    # torch is loaded, and whoever sets it otherwise is obeyed.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    words, debug = _take_debug(list(sys.argv[1:] if args is None else args))
    with common.quiet_libraries(debug):
        begins = (" ".join(words[:2]), *words[:1])
        kept = next((_KEPT[name] for name in begins if name in _KEPT), "an index is never left half changed")
        return failures.guarded(lambda: _invoke(words), debug, kept)


def _invoke(words: list[str]) -> int:
    # Not `app()`: that would print errors in its own way, with a traceback or a box.
    command = typer.main.get_command(app)
    try:
        with command.make_context("gtr", words) as context:
            command.invoke(context)
    except typer.Exit as end:
        return int(end.exit_code)
    finally:
        sys.stdout.flush()
    return 0


def _take_debug(words: list[str]) -> tuple[list[str], bool]:
    """Takes `--debug` out of the words, wherever it stands before a `--`."""
    options = words[: words.index("--")] if "--" in words else words
    debug = "--debug" in options or os.environ.get("GTR_DEBUG", "0") not in ("", "0")
    return [word for word in options if word != "--debug"] + words[len(options) :], debug
