"""What the commands share: options, checks that need nothing heavy, and plain, safe text on the terminal."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gtr_gpu.cli.text import visible
from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError, IndexFormatError

if TYPE_CHECKING:
    from gtr_gpu.tables import ReadReport

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "float32", "bfloat16"]

IndexDir = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of an index.", show_default=False)]
Questions = Annotated[
    list[str] | None, typer.Argument(metavar="QUESTION...", help="Questions, each in quotes.", show_default=False)
]
QueriesFile = Annotated[
    Path | None,
    typer.Option(
        "--queries",
        metavar="FILE",
        help="JSON lines with `query` and, by choice, `query_id`; plain, .gz or .zst, or - for stdin.",
    ),
]
Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="Files, zip archives or folders of tables; `gtr doctor` lists the formats.",
        show_default=False,
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Sets a knob; `gtr info --knobs` lists them. Repeatable."),
]
Preset = Annotated[str, typer.Option("--preset", metavar="default|paper", help="The setting to start from.")]
SearchPreset = Annotated[
    str | None, typer.Option("--preset", metavar="default|paper", help="Search knobs of a preset, not the index's.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first file that can't be read.")]


def version() -> str:
    """The version of the installed package."""
    try:
        return importlib.metadata.version("gtr-gpu")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def program() -> str:
    """How the user would call `gtr` again, for a hint to copy."""
    called = Path(sys.argv[0])
    if called.name != "gtr":
        return "gtr"
    found = shutil.which("gtr")
    if found and Path(found).resolve() == called.resolve():
        return "gtr"
    return os.path.relpath(called) if called.is_relative_to(Path.cwd()) else str(called)


def say(message: str) -> None:
    """Writes one line to stderr, under the program's name."""
    _write(sys.stderr, f"gtr: {visible(message)}")


def note(message: str) -> None:
    """Writes a remark to stderr that is no error."""
    _write(sys.stderr, f"note: {visible(message)}")


def put(line: str = "", end: str = "\n") -> None:
    """Writes one line to stdout, as it is."""
    _write(sys.stdout, line, end)


def put_json(value: Any) -> None:  # noqa: ANN401 (whatever JSON can hold)
    """Writes one line of JSON to stdout, in ASCII, so that every pipe and terminal takes it."""
    put(json.dumps(value))


def _write(stream: Any, line: str, end: str = "\n") -> None:  # noqa: ANN401 (a text stream, or what a test puts there)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + end)


def build_config(preset: str, assignments: Sequence[str] | None, encoder: str | None = None) -> Config:
    """The config of a build.

    Raises:
        GTRError: An unknown preset or knob, a value out of its range, or an encoder without a name.
    """
    if encoder is not None and not encoder.strip():
        raise GTRError("--encoder is empty; give a name on the hub or a folder, or leave it out for the default")
    config = Config.preset(preset).override(assignments or ())
    return config if encoder is None else config.override({"encoder": encoder})


def given_path(text: str | Path) -> Path:
    """The path of an option. Empty text, as an unset variable gives it, would be the current folder.

    Raises:
        typer.BadParameter: There is no text.
    """
    if not str(text):
        raise typer.BadParameter("it is empty; give a path, or . for the current folder")
    return Path(text)


def given_name(text: str) -> str:
    """The name that an option gives.

    Raises:
        typer.BadParameter: There is none.
    """
    if not text.strip():
        raise typer.BadParameter("it is empty; give a name or a folder, or leave the option out")
    return text


def check_search_knobs(preset: str | None, assignments: Sequence[str] | None) -> None:
    """Checks the knobs of a search before anything heavy is loaded.

    Raises:
        GTRError: An unknown preset or knob, a value out of its range, or a knob of the build.
    """
    Config.preset(preset or "default").override(assignments or (), stage="search")


def check_sources(sources: Sequence[str]) -> list[Path]:
    """The paths of the sources.

    Raises:
        GTRError: One of them is not there.
    """
    paths = [Path(source) for source in sources]
    for path in paths:
        # Links that lead nowhere are there, and are reported like other files that can't be read.
        if not os.path.lexists(path):
            raise GTRError(f"there is no file or folder {str(path)!r}; check the path")
    return paths


def check_index(folder: Path) -> Path:
    """The folder of an index.

    Raises:
        IndexFormatError: It is missing, or holds no index.
    """
    # A mistyped path is told at once; what is loaded to tell what is wrong with a folder takes seconds.
    if not folder.exists():
        raise IndexFormatError(f"there is no index at {str(folder)!r}; `gtr index SOURCE... --out {folder}` makes one")
    if not (folder / "manifest.json").is_file():
        from gtr_gpu.storage import IndexFolder

        IndexFolder(folder).read_manifest()
    return folder


@contextmanager
def reasons_of(report: ReadReport) -> Iterator[None]:
    """Where a job fails because no table could be read at all, tells why.

    Raises:
        GTRError: With the reasons of the readers.
    """
    try:
        yield
    except GTRError as error:
        reasons = report.reasons()
        if report.tables or not reasons or reasons in str(error):
            raise
        raise GTRError(f"no table could be read: {reasons}") from error


@contextmanager
def quiet_libraries(debug: bool) -> Iterator[None]:
    """Shows our own warnings as lines on stderr while a command runs, and not what other libraries say of themselves.

    Args:
        debug: Shows all log lines and every library's warnings.
    """
    logger = logging.getLogger("gtr_gpu")
    handler, level = _StderrHandler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)
    with warnings.catch_warnings():
        if not debug:
            os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
            os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
            if not sys.warnoptions:
                warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


class _StderrHandler(logging.Handler):
    """Writes to whatever stderr is at that moment, since a progress display puts itself before it."""

    def emit(self, record: logging.LogRecord) -> None:
        _write(sys.stderr, f"{record.levelname.lower()}: {visible(record.getMessage())}")


def quoted(path: Path) -> str:
    """A path as a shell takes it."""
    return visible(shlex.quote(str(path)))
