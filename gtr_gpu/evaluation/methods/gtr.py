"""GTR itself, by its public index: the presets, and coarse stages of one modality alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import cast

import torch

from gtr_gpu import changes
from gtr_gpu.config import KNOBS, Config
from gtr_gpu.errors import IndexFormatError
from gtr_gpu.evaluation.coarse_stage import CoarseStage
from gtr_gpu.evaluation.code import code_fingerprint
from gtr_gpu.evaluation.methods.method import Ranking, Resources, padded
from gtr_gpu.features.semantic import Encoder
from gtr_gpu.index import GTRIndex
from gtr_gpu.progress import ENCODING, LOADING_ENCODER
from gtr_gpu.storage import IndexFolder
from gtr_gpu.tables import Table

_TOGETHER = 512
_SEED = 0


class GTR:
    """GTR with a config; the index is kept and reused for the same tables, build knobs and code.

    Args:
        name: What reports call it.
        config: All knobs.
        resources: What methods share.
    """

    label_used = False

    def __init__(self, name: str, config: Config, resources: Resources) -> None:
        self.name = name
        self.config = config
        self.resources = resources

    @property
    def settings(self) -> Mapping[str, object]:
        """All knobs, the encoder, and the code of the method."""
        config = self.config.to_json() | {"encoder": self.resources.encodings.of(self.config).fingerprint}
        return {"config": config, "code": code_fingerprint("search")}

    @property
    def facts(self) -> Mapping[str, object]:
        """How long the index took to build, encoding apart, whether in this run or an earlier one."""
        seconds: Mapping[str, float] = self._index.summary.get("seconds", {})
        built = sum(taken for stage, taken in seconds.items() if stage not in (LOADING_ENCODER, ENCODING))
        return {"index_reused": self._reused, "build_seconds": round(built, 3)}

    def coarse_stage(self) -> CoarseStage:
        """The coarse stage of the index on its own."""
        return CoarseStage(self._index.path, self._index.encoder, self.config, self.resources.encodings.device)

    def index(self, tables: Sequence[Table]) -> None:
        """Opens the index of these tables, or builds it."""
        encodings = self.resources.encodings
        encoder = cast(Encoder, encodings.of(self.config))
        folder = self.resources.indexes / _index_name(self.config, encoder.fingerprint, tables)
        self._reused = (folder / "manifest.json").exists()
        if self._reused:
            try:
                self._index = GTRIndex(folder, encodings.device, encoder=encoder)
                return
            except IndexFormatError:
                self._reused = False
        changes.build(
            IndexFolder(folder),
            tables,
            self.config,
            lambda: encoder,
            overwrite=True,
            seed=_SEED,
            progress=self.resources.progress,
        )
        encodings.of(self.config).flush()
        self._index = GTRIndex(folder, encodings.device, encoder=encoder)

    def rank(self, queries: Sequence[str], k: int) -> Ranking:
        """Ranks the best k tables for each question."""
        # A walk that keeps its best and ranks them anew would keep more if it were asked for more.
        asked = min([k, *self.config.keep])
        self.resources.encodings.of(self.config).encode_queries(queries)
        parts = [Ranking(torch.zeros(0, asked, dtype=torch.int64), torch.zeros(0, asked))]
        with self.resources.progress.stage(f"Ranking, {self.name}", len(queries)) as stage:
            for start in range(0, len(queries), _TOGETHER):
                block = queries[start : start + _TOGETHER]
                result = self._index.search(block, asked, config=self.config)
                parts.append(Ranking(result.ids, result.scores))
                stage.advance(len(block))
        return padded(Ranking(*(torch.cat(columns) for columns in zip(*parts, strict=True))), k)


def cluster_config(modality: str, config: Config) -> Config:
    """Coarse by the clusters of one modality alone, ranked by the question's cosine: no graph, no words."""
    return config.override(
        {
            "coarse": "clusters",
            "modalities": (modality,),
            "n_seeds": 0,
            "hops": 0,
            "personalization": "semantic",
            "damping": 0.0,
        }
    )


def _index_name(config: Config, encoder: str, tables: Sequence[Table]) -> str:
    knobs = {name: getattr(config, name) for name, knob in KNOBS.items() if knob.stage == "build"}
    facts = [knobs | {"encoder": encoder}, _SEED, code_fingerprint("build")]
    digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=12)
    for table in tables:
        digest.update(json.dumps([table.table_id, table.caption, table.header, table.rows]).encode())
    return digest.hexdigest()
