"""Two plots of a group: what the coarse stage keeps, and what recall costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gtr_gpu.evaluation.comparison import Group

_COLORS = {"baseline": "tab:gray", "gtr": "tab:blue", "oracle": "tab:red"}


def draw(group: Group, folder: Path) -> list[Path]:
    """Draws what the group has figures for.

    Args:
        group: The runs.
        folder: Where to; made where it is not there.

    Returns:
        The PNG files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = "-".join(group.name)
    paths = []
    if any(row.record["coverage"] for row in group.rows):
        paths.append(_coverage(group, folder / f"{stem}-coverage.png"))
    paths.append(_latency(group, folder / f"{stem}-latency.png"))
    return paths


def _coverage(group: Group, path: Path) -> Path:
    figure, axes = _axes(f"{_title(group)}\ncoarse stage")
    for row in group.rows:
        points = row.record["coverage"]
        if not points:
            continue
        kept, covered = ([100 * point[name] for point in points] for name in ("kept", "all_gold"))
        (line,) = axes.plot(kept, covered, marker=".", label=row.method)
        own = [place for place, point in enumerate(points) if point["own"]]
        axes.plot([kept[place] for place in own], [covered[place] for place in own], "o", color=line.get_color())
    axes.axhline(95, color="lightgray", linewidth=0.8, zorder=0)
    _log(axes)
    axes.set_xlabel("candidates, % of the corpus (large dots: the method's own setting)")
    axes.set_ylabel("questions with all gold tables among them, %")
    axes.set_ylim(top=101)
    axes.legend(fontsize=8, frameon=False)
    return _save(figure, path)


def _latency(group: Group, path: Path) -> Path:
    metric = f"Recall@{group.cuts[0]}"
    figure, axes = _axes(f"{_title(group)}\nrecall against time")
    labels = []
    for row in group.rows:
        x, y = 1000 / row.record["queries_per_second"], 100 * row.figures[metric].mean
        hollow = "none" if row.record["label_used"] else _COLORS[row.record["kind"]]
        axes.plot(x, y, "o", color=_COLORS[row.record["kind"]], markerfacecolor=hollow)
        labels.append((f"{row.method} (label used)" if row.record["label_used"] else row.method, (x, y)))
    _log(axes)
    axes.margins(x=0.2)
    axes.set_xlabel("milliseconds a question, in batches, encoding apart")
    axes.set_ylabel(f"{metric}, %")
    _place(axes, labels)
    return _save(figure, path)


def _place(axes: Any, labels: list[tuple[str, tuple[float, float]]]) -> None:  # noqa: ANN401 (matplotlib axes)
    """Writes each label beside its point, lower where another one stands."""
    taken: list[tuple[float, float, float]] = []
    for text, point in sorted(labels, key=lambda label: -label[1][1]):
        left, bottom = axes.transData.transform(point)
        width, start = 7.0 * len(text), bottom
        while any(left < end and left + width > begin and abs(bottom - at) < 12 for begin, end, at in taken):
            bottom -= 3
        taken.append((left, left + width, bottom))
        place = (6, 2 + (bottom - start) * 72 / axes.figure.dpi)
        axes.annotate(text, point, textcoords="offset points", xytext=place, fontsize=7)


def _title(group: Group) -> str:
    task, protocol, questions, split = group.name
    return f"{task}, {protocol}: {questions} questions, split {split}"


def _axes(title: str) -> tuple[Any, Any]:
    # Not pyplot, which keeps state for the whole process and may look for a screen.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _log(axes: Any) -> None:  # noqa: ANN401 (matplotlib axes)
    """Makes x logarithmic, with plain numbers."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _save(figure: Any, path: Path) -> Path:  # noqa: ANN401 (a matplotlib figure)
    figure.savefig(path, dpi=120)
    return path
