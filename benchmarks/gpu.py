"""How near does each operation come to what this GPU can do at most, and does it give what the CPU gives?

Runs offline from the source tree in under ten minutes, with torch, CuPy, NumPy, SciPy, scikit-learn and pytest alone:
the tests of the operations on CUDA, then each operation on made data against the CPU and against its limit, the larger
of its bytes over the measured rate of copies and its operations over the measured rate of matrix products. Times are
medians between CUDA events, after a warm-up. `--device cpu --quick` tries all of it on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _gpu_works import Work, n_bytes, tensors_in, works

from gtr_gpu.ops import cuda, dispatch

ROOT = Path(__file__).resolve().parents[1]
STAND_INS = ROOT / "benchmarks" / "_offline"
_WARM_UP, _RUNS = 3, 15
_WITHIN_S = 400


def main() -> None:
    """Runs the tests and the measurements, and writes both."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options.add_argument("--quick", action="store_true", help="small data, a few runs")
    options.add_argument("--no-tests", action="store_true", help="measure alone")
    options.add_argument("--stand-ins", action="store_true", help="don't use hypothesis and other peers, as if absent")
    options.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = options.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        sys.exit("there is no CUDA device; --device cpu --quick tries the script without one")
    if given.device == "cuda" and (missing := cuda.unavailable()):
        sys.exit(": ".join(missing))
    begun = time.monotonic()
    device = torch.device("cuda:0" if given.device == "cuda" else "cpu")
    facts: dict[str, Any] = {"machine": machine(device), "quick": given.quick}
    facts["tests"] = None if given.no_tests else tested(device, given.quick, given.stand_ins)
    facts["limits"] = limits(device, given.quick)
    facts["operations"] = measured(device, given.quick, facts["limits"], begun + _WITHIN_S)
    facts["seconds"] = round(time.monotonic() - begun)
    write(given.results, facts)
    failed = facts["tests"] is not None and facts["tests"]["status"] != 0
    sys.exit(failed or any(not row["agrees"] for row in facts["operations"]))


def machine(device: torch.device) -> dict[str, Any]:
    """What the results were measured with."""
    facts = {"torch": torch.__version__, "python": platform.python_version()}
    if device.type == "cpu":
        return facts | {"card": f"cpu-{os.cpu_count()}-cores"}
    import cupy

    card = torch.cuda.get_device_properties(device)
    size = {"multiprocessors": card.multi_processor_count, "memory_gb": round(card.total_memory / 1e9)}
    return facts | {"card": card.name, "compute": f"{card.major}.{card.minor}", "cupy": cupy.__version__, **size}


def tested(device: torch.device, quick: bool, stand_ins: bool) -> dict[str, Any]:
    """Runs the operations' tests on the device; packages of the tests that are missing are stood in for."""
    chosen = ["-m", "gpu"] if device.type == "cuda" else ["-k", "not cuda"]
    if quick:
        chosen += ["--deselect", "tests/ops/test_kernels.py"]
    # Behind all other places, so that what is installed is used; in front of them where that isn't wanted.
    place = "insert(0, " if stand_ins or importlib.util.find_spec("hypothesis") is None else "append("
    plugins = ["-p", "no:cacheprovider", *(["-p", "no:hypothesispytest"] if place != "append(" else [])]
    program = (
        f"import sys; sys.path.{place}{str(STAND_INS)!r}); import pytest; "
        f"sys.exit(pytest.main({[*plugins, '-q', 'tests/ops', *chosen]!r}))"
    )
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout[-4000:], done.stderr[-2000:], sep="\n", flush=True)
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)", done.stdout)}
    return {"status": done.returncode, **counts, "seconds": round(time.monotonic() - begun)}


def median_ms(run: Callable[[], Any], device: torch.device, runs: int) -> tuple[float, float]:
    """The median of a run's times and their spread, greatest less least over the median."""
    for _ in range(_WARM_UP):
        run()
    times = []
    for _ in range(runs):
        if device.type == "cuda":
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            run()
            last.record()
            last.synchronize()
            times.append(first.elapsed_time(last))
        else:
            begun = time.perf_counter()
            run()
            times.append(1e3 * (time.perf_counter() - begun))
    middle = statistics.median(times)
    return middle, (max(times) - min(times)) / middle


def limits(device: torch.device, quick: bool) -> dict[str, float]:
    """Bytes a second of a copy, and operations a second of matrix products, float32 and bfloat16."""
    torch.backends.cuda.matmul.allow_tf32 = False
    numbers, side = (1 << 24, 1_024) if quick else (1 << 28, 8_192)
    source, target = torch.rand(numbers, device=device), torch.empty(numbers, device=device)
    found = {"bytes": 8e3 * numbers / median_ms(lambda: target.copy_(source), device, _RUNS)[0]}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        left = torch.rand(side, side, device=device).to(dtype)
        time_ms, _ = median_ms(lambda left=left: left @ left, device, 3 if quick else _RUNS)
        found[name] = 2e3 * side**3 / time_ms
    return found


def measured(device: torch.device, quick: bool, limits: dict[str, float], until: float) -> list[dict[str, Any]]:
    """Each operation's time on the device, on the CPU, its limit, and whether both give the same."""
    rows = []
    scale, runs = (0.01, 3) if quick else (1.0, _RUNS)
    pairs = zip(works(device, scale), works(torch.device("cpu"), scale), strict=True)
    for work, other in pairs:
        if time.monotonic() > until:
            print(f"no time is left for {work.operation} and what follows", flush=True)
            break
        rows.append(row_of(work, other, device, runs, limits))
        print(json.dumps(rows[-1]), flush=True)
    return rows


def row_of(work: Work, other: Work, device: torch.device, runs: int, limits: dict[str, float]) -> dict[str, Any]:
    """One operation, measured."""
    result = work.run()
    begun = time.perf_counter()
    with dispatch.use("reference") if device.type == "cpu" else dispatch.use("native"):
        try:
            expected = other.run()
        except RuntimeError:  # the source tree has no compiled extension
            with dispatch.use("reference"):
                expected = other.run()
    cpu_ms = 1e3 * (time.perf_counter() - begun)
    time_ms, spread = median_ms(work.run, device, runs)
    moved = work.passes * n_bytes(work.given) + n_bytes(result)
    rate = limits["bfloat16" if "bfloat16" in work.what else "float32"]
    limit_ms = 1e3 * max(moved / limits["bytes"], work.operations / rate)
    apart = difference(result, expected)
    return {
        "operation": work.operation,
        "what": work.what,
        "served": dispatch.served(work.operation, device).backend,
        "ms": round(time_ms, 4),
        "spread": round(spread, 3),
        "cpu_ms": round(cpu_ms, 2),
        "limit_ms": round(limit_ms, 7),
        "times_the_limit": round(time_ms / limit_ms, 2),
        "difference": apart,
        "agrees": apart <= work.within,
    }


def difference(found: object, expected: object) -> float:
    """The greatest difference of numbers; of whole numbers the share that differ, since ties may fall another way."""
    worst = 0.0
    for one, other in zip(tensors_in(found), tensors_in(expected), strict=True):
        one = one.cpu()
        if one.shape != other.shape:
            return float("inf")
        if one.numel() == 0:
            continue
        if one.is_floating_point():
            both = one.isfinite() & other.isfinite()
            scale = other[both].abs().max().clamp(min=1) if both.any() else torch.tensor(1.0)
            worst = max(worst, float(((one - other)[both].abs() / scale).max()) if both.any() else 0.0)
        elif float((one != other).double().mean()) > 1e-3:
            return float("inf")
    return worst


def write(folder: Path, facts: dict[str, Any]) -> None:
    """Writes JSON and Markdown, and prints the latter."""
    card, limit = facts["machine"]["card"], facts["limits"]
    stem = "gpu-" + re.sub(r"[^a-z0-9]+", "-", card.lower()).strip("-") + ("-quick" if facts["quick"] else "")
    rates = f"copies {limit['bytes'] / 1e9:,.0f} GB/s, products {limit['float32'] / 1e12:.1f} TFLOP/s in float32"
    lines = [
        f"# {(__doc__ or '').splitlines()[0]}",
        "",
        f"{', '.join(f'{name} {value}' for name, value in facts['machine'].items())}. Measured limits: {rates} and "
        f"{limit['bfloat16'] / 1e12:.1f} in bfloat16. Tests: {facts['tests']}. {facts['seconds']} seconds in all.",
        "",
        "| operation | sizes | served by | ms | spread | CPU ms | limit ms | times the limit | difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in facts["operations"]:
        mark = "" if row["agrees"] else " **differs**"
        lines.append(
            f"| {row['operation']} | {row['what']} | {row['served']} | {row['ms']:,.3f} | {row['spread']:.0%} | "
            f"{row['cpu_ms']:,.1f} | {row['limit_ms']:,.3f} | {row['times_the_limit']:,.1f} | "
            f"{row['difference']:.1e}{mark} |"
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    (folder / f"{stem}.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
