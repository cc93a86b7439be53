"""Universal parts of speech from spaCy's fine tags, remembered by tag and word rather than matched token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

PARTS_OF_SPEECH = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM",
    "VERB", "X",
)  # fmt: skip

# Rules with these keys look at nothing but the tag and the lower-case word of one token.
_LOCAL_KEYS = {"TAG", "LOWER", "IS_SPACE"}
_MOST_REMEMBERED = 1_000_000


class RememberedRules:
    """What a pipeline's attribute ruler makes of a tag and a word, asked once for each pair."""

    def __init__(self, nlp: Any) -> None:  # noqa: ANN401 (a spaCy pipeline; spaCy is loaded late)
        self._vocab = nlp.vocab
        self._ruler = nlp.get_pipe("attribute_ruler")
        self._known: dict[tuple[int, int], int] = {}

    @staticmethod
    def can_replace(nlp: Any) -> bool:  # noqa: ANN401
        """Whether the ruler of a pipeline without a parser finds each part of speech from one token's tag and word."""
        if "attribute_ruler" not in nlp.pipe_names or "morphologizer" in nlp.pipe_names:
            return False
        for rule in nlp.get_pipe("attribute_ruler").patterns:
            if "POS" not in rule["attrs"]:
                continue
            for pattern in rule["patterns"]:
                keys = {key for token in pattern for key in token}
                # Without a parser no rule that asks for a dependency ever matches.
                if "DEP" not in keys and (len(pattern) != 1 or not keys <= _LOCAL_KEYS):
                    return False
        return True

    def __call__(self, tags: npt.NDArray[np.uint64], words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """The spaCy numbers of parts of speech `[T]` from those of tags and lower-case words `[T]`."""
        pairs = list(zip(tags.tolist(), words.tolist(), strict=True))
        if len(self._known) > _MOST_REMEMBERED:
            self._known.clear()
        self._ask([pair for pair in dict.fromkeys(pairs) if pair not in self._known])
        return np.fromiter((self._known[pair] for pair in pairs), dtype=np.uint64, count=len(pairs))

    def _ask(self, pairs: Sequence[tuple[int, int]]) -> None:
        from spacy.tokens import Doc

        if not pairs:
            return
        strings = self._vocab.strings
        doc = Doc(self._vocab, words=[strings[word] for _, word in pairs], tags=[strings[tag] for tag, _ in pairs])
        self._known.update(zip(pairs, (token.pos for token in self._ruler(doc)), strict=True))
