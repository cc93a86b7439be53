"""Dense baselines: the inner product of sentence vectors with all tables, exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from gtr_gpu.evaluation.methods.method import Resources, Scorer
from gtr_gpu.tables import Table


class Dense(Scorer):
    """Cosines of sentence vectors; any encoder.

    Args:
        name: What reports call it.
        cells: Whether the encoder reads rows, as many as fit into its window, or caption and header alone.
        resources: What methods share.
    """

    def __init__(self, name: str, cells: bool, resources: Resources) -> None:
        super().__init__(resources)
        self.name = name
        self._config = resources.encodings.config().override({"encode_rows": cells})

    @property
    def settings(self) -> Mapping[str, object]:
        """The encoder and what it reads."""
        knobs = ("text_style", "encode_rows", "max_tokens")
        encoder = self.resources.encodings.of(self._config)
        return {"encoder": encoder.fingerprint} | {knob: getattr(self._config, knob) for knob in knobs}

    def index(self, tables: Sequence[Table]) -> None:
        """Encodes tables."""
        self.n_tables = len(tables)
        self._encoder = self.resources.encodings.of(self._config)
        self._vectors = self._encoder.tables_with(tables, self._config, f"Encoding tables, {self.name}")

    def prepare(self, queries: Sequence[str]) -> None:
        """Encodes all questions, so that those of like length go together."""
        self._encoder.encode_queries(queries)

    def score(self, queries: Sequence[str]) -> Tensor:
        """Cosines, `[B, N]`."""
        return self._encoder.encode_queries(queries)[0] @ self._vectors.T
