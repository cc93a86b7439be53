"""The templates of a prompt: ours, or a user's in place of single ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from gtr_gpu.errors import GTRError

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

_OURS = Path(__file__).parent / "templates"
_ENDING = ".jinja"
_GAPS = re.compile(r"\n{3,}")
_MAIN = f"prompt{_ENDING}"


def template_names() -> list[str]:
    """The names of our templates, which those of a user's folder may have."""
    return sorted(path.name for path in _OURS.glob(f"*{_ENDING}"))


def rendered(folder: Path | None, values: Mapping[str, object]) -> str:
    """The prompt that the templates make of values, which have been escaped already.

    Args:
        folder: A user's templates, which stand in for ours of the same name.
        values: What the templates can name.

    Raises:
        GTRError: The folder holds no template of a known name, or one that is broken.
    """
    with _told(folder):
        # Whether a template ends in a line break depends on its last line, so there is room between all of them.
        return _GAPS.sub("\n\n", _environment(folder).get_template(_MAIN).render(values).strip())


def template_sources(folder: Path | None) -> dict[str, str]:
    """The templates that a prompt may be made with, by name, and what a user's include beside ours.

    Raises:
        GTRError: One of them is broken.
    """
    import jinja2
    from jinja2.meta import find_referenced_templates

    environment = _environment(folder)
    sources: dict[str, str] = {}
    waiting: list[str | None] = [*template_names()]
    while waiting:
        name = waiting.pop()
        if name is None or name in sources or environment.loader is None:
            continue
        with _told(folder):
            try:
                sources[name] = environment.loader.get_source(environment, name)[0]
            except jinja2.TemplateNotFound:
                continue  # it may be included under a condition that never holds
            waiting += find_referenced_templates(environment.parse(sources[name], name))
    return sources


def check_templates(folder: Path) -> None:
    """Checks a user's templates as far as that goes without values.

    Args:
        folder: The folder.

    Raises:
        GTRError: It holds no template of a known name, or one that is broken.
    """
    environment = _environment(folder)
    for name in template_names():
        if (folder / name).is_file():
            with _told(folder):
                environment.get_template(name)


@contextmanager
def _told(folder: Path | None) -> Iterator[None]:
    """Makes one sentence of what is wrong with a template."""
    import jinja2

    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        raise _broken(f"{error.filename or error.name}, line {error.lineno}", error.message or "") from None
    except jinja2.TemplateNotFound as error:
        raise _broken(_place(error.__traceback__), f"there is no template {error.name!r}") from None
    except UnicodeDecodeError as error:
        raise GTRError(f"a template in {folder} is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except Exception as error:  # templates are programs: they can fail in any way
        place = _place(error.__traceback__)
        if place is None:
            raise
        raise _broken(place, str(error) or type(error).__name__) from None


def _broken(place: str | None, reason: str) -> GTRError:
    return GTRError(f"the template {place or _MAIN} is broken: {' '.join(reason.split()).rstrip('.')}; mend it there")


@lru_cache(maxsize=8)
def _environment(folder: Path | None) -> SandboxedEnvironment:
    import jinja2
    from jinja2.sandbox import SandboxedEnvironment

    if folder is not None:
        if not folder.is_dir():
            raise GTRError(f"templates must be a folder, got {str(folder)!r}, which is none")
        known = template_names()
        if not any((folder / name).is_file() for name in known):
            raise GTRError(f"{folder} holds none of the templates {', '.join(known)}; name at least one file so")
    folders = [_OURS] if folder is None else [folder, _OURS]
    # What the values hold is escaped by us, for a prompt and not for HTML.
    return SandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _place(trace: TracebackType | None) -> str | None:
    """The innermost template and line of a traceback."""
    places = [f"{name}, line {line}" for name, line in _lines(trace) if name.endswith(_ENDING)]
    return places[-1] if places else None


def _lines(trace: TracebackType | None) -> Iterator[tuple[str, int]]:
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
