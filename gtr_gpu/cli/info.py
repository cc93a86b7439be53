"""`gtr info`: what an index holds and how it searches; the knobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gtr_gpu.cli import common
from gtr_gpu.cli.common import put
from gtr_gpu.cli.summary import left_out_texts
from gtr_gpu.cli.text import counted, visible
from gtr_gpu.config import KNOBS, Config, Knob
from gtr_gpu.errors import GTRError


def run(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder of an index.", show_default=False)
    ] = None,
    knobs: Annotated[bool, typer.Option("--knobs", help="List all knobs: with DIR, as that index has them.")] = False,
    as_json: common.Json = False,
) -> None:
    """Show what an index holds and how it searches, or list the knobs."""
    if folder is None:
        if not knobs:
            raise GTRError("info needs the folder of an index, or --knobs for the list of knobs")
        _put_knobs(Config(), as_json)
        return
    common.check_index(folder)

    from gtr_gpu.index import GTRIndex

    with GTRIndex.load(folder) as index:
        facts, config = index.info(), index.config
    if knobs:
        _put_knobs(config, as_json)
    elif as_json:
        common.put_json(facts)
    else:
        pairs = list(_facts(facts))
        width = max(len(label) for label, _ in pairs)
        for label, text in pairs:
            put(f"{label:<{width}}  {text}".rstrip())


def _facts(facts: Mapping[str, Any], indent: str = "") -> Iterator[tuple[str, str]]:
    """Facts as labels and texts, nested ones indented; of the config only what differs from the default."""
    for name, value in facts.items():
        label = indent + visible(name).replace("_", " ")
        if name == "config":
            default = Config().to_json()
            value = {
                knob: item for knob, item in value.items() if _plain(item) != _plain(default[knob])
            } or "the default"
        if name == "left_out" and isinstance(value, Mapping):
            read = (counted(value.get(count, 0), noun) for count, noun in (("tables", "table"), ("rows", "row")))
            yield f"{indent}read", ", ".join(read)
            yield from ((label if n == 0 else "", text) for n, text in enumerate(left_out_texts(value)))
        elif isinstance(value, Mapping):
            if value:
                yield label, ""
                yield from _facts(value, indent + "  ")
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            yield from ((label if number == 0 else "", visible(item)) for number, item in enumerate(value))
        elif value not in (None, ""):
            yield label, _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value)
    return visible(str(value))


def _put_knobs(config: Config, as_json: bool) -> None:
    values, default = config.to_json(), Config().to_json()
    if as_json:
        common.put_json([_knob_to_json(name, knob, values[name], default[name]) for name, knob in KNOBS.items()])
        return
    for stage in ("build", "search"):
        put(f"Knobs of the {stage}:")
        put()
        for name, knob in KNOBS.items():
            if knob.stage == stage:
                symbol = f" ({knob.symbol})" if knob.symbol else ""
                changed = f", here {_value(values[name])}" if values[name] != default[name] else ""
                put(f"  {name}{symbol} = {_value(default[name])}{changed}")
                put(f"      {knob.text}{_range(knob)}")
        put()
    put("A search takes those of the search: gtr search DIR --set NAME=VALUE. A build takes all, and keeps them.")


def _knob_to_json(name: str, knob: Knob, value: object, default: object) -> dict[str, Any]:
    infinite = (float("-inf"), float("inf"))
    return {
        "name": name,
        "symbol": knob.symbol,
        "stage": knob.stage,
        "value": value,
        "default": default,
        "low": None if knob.low in infinite else knob.low,
        "high": None if knob.high in infinite else knob.high,
        "choices": list(knob.choices),
        "text": knob.text,
    }


def _value(value: object) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "(none)"
    return str(value) if value != "" else "(none)"


def _range(knob: Knob) -> str:
    if knob.choices:
        return f"; {', '.join(knob.choices)}"
    if knob.low == float("-inf"):
        return ""
    return f"; at least {knob.low:g}" if knob.high == float("inf") else f"; {knob.low:g} to {knob.high:g}"
