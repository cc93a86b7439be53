"""Sums of sorted groups of rows, against torch's own ways; all in one process, since they share its threads."""

from __future__ import annotations

import importlib.util
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _contest import Row, Sizes, Work, Works, close

WIDTH = 64
_PER_GROUP = 100


def prepare(options: Namespace, sizes: Sizes, folder: Path) -> None:
    """Writes where groups begin; some are empty."""
    starts = np.sort(np.random.default_rng(0).integers(sizes.summands, size=max(1, sizes.summands // _PER_GROUP)))
    np.save(folder / "offsets.npy", np.concatenate([[0], starts, [sizes.summands]]))


def gtr(folder: Path, sizes: Sizes) -> Works:
    """Our sums, which run in float64, and what torch offers, in float32; torch-scatter where it is installed."""
    import torch

    from gtr_gpu.ops.segments import segment_sum

    offsets = torch.from_numpy(np.load(folder / "offsets.npy"))
    values = torch.randn(sizes.summands, WIDTH, generator=torch.Generator().manual_seed(0))
    n_groups, places = offsets.numel() - 1, torch.arange(sizes.summands)
    owner = torch.repeat_interleave(offsets.diff())
    sums = torch.nn.functional.embedding_bag
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "ours": lambda: segment_sum(values, offsets),
        "embedding_bag": lambda: sums(places, values, offsets, mode="sum", include_last_offset=True),
        "index_add_": lambda: torch.zeros(n_groups, WIDTH).index_add_(0, owner, values),
        "segment_reduce": lambda: torch.segment_reduce(values, "sum", offsets=offsets, axis=0),
    }
    if importlib.util.find_spec("torch_scatter"):
        from torch_scatter import segment_csr

        ways["torch-scatter"] = lambda: segment_csr(values, offsets)
    needs = {"bytes": 4.0 * WIDTH * (sizes.summands + n_groups)}
    return {
        name: Work(run, sizes.summands, lambda found: {"sums": found.numpy()}, needs if name == "ours" else {})
        for name, run in ways.items()
    }


COMPETITORS: dict[str, Callable[[Path, Sizes], Works]] = {"gtr": gtr}


def rows(sizes: Sizes) -> list[Row]:
    """The pairs to compare."""
    work = f"sums of {sizes.summands:,} × {WIDTH} rows in groups of about {_PER_GROUP}"
    peers = ["embedding_bag", "index_add_", "segment_reduce"]
    if importlib.util.find_spec("torch_scatter"):
        peers.append("torch-scatter")
    return [Row(work, "gtr/ours", f"gtr/{peer}", peer, close("sums", 1e-4)) for peer in peers]
