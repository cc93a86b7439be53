"""The coarse stage on its own: which candidates it leaves, and how it fares at other sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from gtr_gpu.coarse import find_candidates, questions_at_once, uses_clusters
from gtr_gpu.config import MODALITIES, Config
from gtr_gpu.features.semantic import Encoder, choose_device
from gtr_gpu.questions import QueryFeatures, QuestionReader
from gtr_gpu.ragged import Ragged, cat_ragged
from gtr_gpu.snapshot import Snapshot
from gtr_gpu.storage import IndexFolder

_PARTS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Coverage:
    """How good the candidates of some questions are.

    Attributes:
        knob: What was varied, with its value, such as `n_seeds=100`.
        own: Whether that is the method's own setting.
        all_gold: Share of questions with all their gold tables among the candidates.
        recall: Mean share of the gold tables among the candidates.
        candidates: Mean number of candidates.
        kept: Mean share of the corpus among the candidates.
    """

    knob: str
    own: bool
    all_gold: float
    recall: float
    candidates: float
    kept: float

    def to_json(self) -> dict[str, object]:
        """As plain values."""
        return asdict(self)


class CoarseStage:
    """The coarse stage of an index; shares nothing with its searches but the files.

    Args:
        path: The index's folder.
        encoder: The encoder that it was built with.
        config: Search knobs, and the index's build knobs.
        device: `auto`, `cpu` or `cuda`.
    """

    def __init__(self, path: Path, encoder: Encoder, config: Config, device: str) -> None:
        folder, chosen = IndexFolder(path), choose_device(device)
        self._encoder = encoder
        self._reader = QuestionReader()
        self.snapshot = folder.open_snapshot(lambda manifest: Snapshot.open(folder, manifest, chosen))
        self.config = config

    def read(self, queries: Sequence[str], config: Config, k: int) -> Iterator[QueryFeatures]:
        """The questions in the features of the tables, in blocks whose candidates are to be found with these knobs."""
        clusters = uses_clusters(self.snapshot, config)
        step = questions_at_once(self.snapshot, config, k)
        for start in range(0, len(queries), step):
            block = queries[start : start + step]
            yield self._reader.read(block, self._encoder, self.snapshot, config, clusters)[0]

    @torch.no_grad()
    def candidates(self, queries: Sequence[str], config: Config, k: int) -> Ragged:
        """The candidates of each question with other search knobs, Q rows."""
        blocks = self.read(queries, config, k)
        return cat_ragged([find_candidates(block, self.snapshot, config, k).tables.to("cpu") for block in blocks])

    def coverage(self, queries: Sequence[str], gold: Ragged, k: int) -> list[Coverage]:
        """The candidates at the method's own size and at a quarter, a half, twice and four times of it."""
        found = []
        for knob, value in self._sizes():
            config = self.config.override({knob: value}) if knob else self.config
            own = config == self.config
            # Fewer seeds than results would be raised to as many as results are asked for.
            candidates = self.candidates(queries, config, k if own else 1)
            found.append(coverage_of(candidates, gold, self.snapshot.n_tables, f"{knob}={value}", own))
        return found

    def _sizes(self) -> list[tuple[str, int]]:
        if not uses_clusters(self.snapshot, self.config):
            knob, own = "n_seeds", self.config.n_seeds
        else:
            knob, own = "n_probe", self.config.n_probe
        most = self.snapshot.n_tables
        if knob == "n_probe":
            most = max(len(self.snapshot.clusters.centroids(modality)) for modality in MODALITIES)
        if not own:
            return [(knob, 0)]
        sizes = sorted({max(1, round(part * own)) for part in _PARTS})
        return [(knob, size) for size in sizes if size <= most or size == own]


def coverage_of(candidates: Ragged, gold: Ragged, n_tables: int, knob: str, own: bool) -> Coverage:
    """Compares candidates with gold tables, Q rows each."""
    found, counts = gold_held(candidates, gold, n_tables).double(), gold.lengths.double()
    sizes = candidates.lengths.double()
    return Coverage(
        knob,
        own,
        float((found == counts).double().mean()),
        float((found / counts).mean()),
        float(sizes.mean()),
        float((sizes / n_tables).mean()),
    )


def gold_held(candidates: Ragged, gold: Ragged, n_tables: int) -> Tensor:
    """How many of the gold tables of each row are among its candidates, `[Q]`, int64."""
    held = torch.isin(
        gold.segment_ids() * n_tables + gold.values, candidates.segment_ids() * n_tables + candidates.values
    )
    return torch.zeros(len(gold), dtype=torch.int64).index_add_(0, gold.segment_ids(), held.long())
