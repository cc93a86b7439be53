"""How long work shows itself."""

import io
import sys

import pytest
from rich.console import Console

from gtr_gpu.cli.progress import Bars, Lines, drawn, duration, rate_text


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_lines_are_few_and_tell_rate_and_remaining_time():
    clock, lines = Clock(), []
    with Lines(lines.append, clock).stage("encode", 1000) as stage:
        for _ in range(1000):
            clock.now += 0.1
            stage.advance()
    assert lines[0] == "encode: 10%, 100 of 1,000 (10/s, 1 min 30 s left)"
    assert lines[-1] == "encode: 1,000 in 1 min 40 s"
    assert len(lines) <= 11


def test_lines_come_now_and_then_where_a_stage_is_slow_or_endless():
    clock, lines = Clock(), []
    progress = Lines(lines.append, clock)
    for total in (1_000_000, None):
        with progress.stage("read", total) as stage:
            for _ in range(70):
                clock.now += 1
                stage.advance()
    assert lines[0] == "read: 0%, 30 of 1,000,000 (1.0/s, 277 h 46 min left)"
    assert lines[3] == "read: 5 (1.0/s)"
    assert len(lines) < 20


def test_slow_work_tells_how_long_each_takes():
    assert [rate_text(rate) for rate in (1234.5, 2.5, 0.5, 0.02)] == ["1,234/s", "2.5/s", "0.5/s", "50 s each"]


def test_bars_on_a_terminal():
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    with Bars(console) as bars:
        with bars.stage("encode [red]", 20) as stage:
            stage.advance(20)
        with bars.stage("read") as stage:
            stage.advance(7)
    text = console.file.getvalue()
    assert "encode [red]" in text
    assert "20/20" in text
    assert "7/7" in text


@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_gets_lines_unless_quiet(monkeypatch, quiet):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with drawn(quiet) as progress, progress.stage("read", 1) as stage:
        stage.advance()
    assert sys.stderr.getvalue().startswith("" if quiet else "read: 1 in 0.")
    assert bool(sys.stderr.getvalue()) is not quiet
    assert progress.seconds.keys() == {"read"}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (60, "1 min 0 s"), (7800, "2 h 10 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text
