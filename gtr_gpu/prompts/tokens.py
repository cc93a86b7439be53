"""How long a prompt is in tokens: by the model's own tokenizer, or by an estimate that errs on the long side."""

from __future__ import annotations

import importlib.util
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from gtr_gpu.errors import GTRError


class TokenCounter(Protocol):
    """Counts tokens.

    Attributes:
        name: What counts, for summaries: the tokenizer's name, or `estimate`.
        exact: Whether the counts are the model's own.
    """

    name: str
    exact: bool

    def prompt_tokens(self, text: str) -> int:
        """The tokens of a whole prompt as the model is given it: as a user's message, chat template included."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text on its own; of texts that are put together a good guess, not a bound."""


class TokenizerCounter:
    """Counts by a model's tokenizer.

    Attributes:
        name: The tokenizer's name.
        exact: True.
    """

    exact = True

    def __init__(self, tokenizer: Any, name: str) -> None:  # noqa: ANN401 (any class of Hugging Face's)
        """Takes a Hugging Face tokenizer; one with a chat template counts it, one without its special tokens."""
        self.name = name
        self._tokenizer = tokenizer
        self._chat = bool(getattr(tokenizer, "chat_template", None))

    def prompt_tokens(self, text: str) -> int:
        """The tokens of a whole prompt as the model is given it: as a user's message, chat template included.

        Raises:
            GTRError: The chat template takes no user's message on its own.
        """
        if self._chat:
            text = self._message(text)
        return self._lengths([text], special=not self._chat)[0]

    def count(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text on its own; of texts that are put together a good guess, not a bound."""
        return self._lengths(texts, special=False) if texts else []

    def _message(self, text: str) -> str:
        from jinja2 import TemplateError

        messages = [{"role": "user", "content": text}]
        try:
            return str(self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
        except (TemplateError, ValueError) as error:
            raise GTRError(
                f"the chat template of {self.name} can't be used ({error}); give another tokenizer"
            ) from None

    def _lengths(self, texts: Sequence[str], special: bool) -> list[int]:
        encoded = self._tokenizer(
            list(texts),
            add_special_tokens=special,
            truncation=False,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        return [len(ids) for ids in encoded["input_ids"]]


# A chat template with the system's message that some bring along.
_TEMPLATE_TOKENS = 64
_PROBE_SECONDS = 10.0
# What the fit may miss on other tables and by other tokenizers.
_MARGIN = 1.05
# Words of Latin letters, digits, runs of other ASCII, and the rest: first what is written among Latin letters.
_PIECES = re.compile(
    r"(?P<word>[a-zA-Z]+)|(?P<digit> ?[0-9])|(?P<marks>[^\sa-zA-Z0-9\x7f-\U0010ffff]+)|(?P<line>\n)"
    r"|(?P<latin>[\x7f-\u024f\u2000-\u206f])|(?P<other>[^\x00-\x7f])"
)


class EstimatedCounter:
    """Counts by the characters, where there is no tokenizer: more than tokenizers do, as good as always.

    Attributes:
        name: `estimate`.
        exact: False.
    """

    name = "estimate"
    exact = False

    def prompt_tokens(self, text: str) -> int:
        """The most tokens that a whole prompt is likely to have, chat template included."""
        return _TEMPLATE_TOKENS + _estimate(text)

    def count(self, texts: Sequence[str]) -> list[int]:
        """The most tokens that each text is likely to have."""
        return [_estimate(text) for text in texts]


def _estimate(text: str) -> int:
    """Fitted to be above what byte-pair and word-piece vocabularies of 30,000 to 50,000 make of real tables."""
    total = 0.0
    for piece in _PIECES.finditer(text):
        length = piece.end() - piece.start()
        match piece.lastgroup:
            case "word":  # short ones are in every vocabulary, names fall into pieces
                total += 1.1 if length <= 3 else 2 if length <= 7 else 2 + (length - 7) / 2
                total += 0.3 * sum(map(str.isupper, piece.group()[1:]))  # codes into more of them
            case "digit" | "line":  # a blank before a digit counts
                total += length
            case "marks":
                total += (1 + length) / 2
            case kind:
                total += len(piece.group().encode("utf-8", "replace")) - (kind == "latin")
    return math.ceil(total * _MARGIN)


def load_tokenizer(name: str | os.PathLike[str]) -> Any:  # noqa: ANN401 (any class of Hugging Face's)
    """Loads a Hugging Face tokenizer: what lies on the disk first, then the hub. Its code is never run from there.

    Args:
        name: A folder, a GGUF file, a folder with one, or a name on the hub.

    Raises:
        GTRError: There is none of that name.
    """
    from gtr_gpu.hub import quiet_hub

    try:
        with quiet_hub():
            return _from_disk(Path(name)) if Path(name).exists() else _from_cache_or_hub(str(name))
    except Exception as error:  # the library raises errors of many kinds for files of many kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(" .:")
        raise GTRError(
            f"the tokenizer {str(name)!r} can't be had: {reason}; give a folder with one, or its name on the hub"
        ) from error


def _from_disk(path: Path) -> Any:  # noqa: ANN401
    from transformers import AutoTokenizer

    files = [path] if path.is_file() else sorted(path.glob("*.gguf"))
    if path.is_dir() and (not files or (path / "tokenizer_config.json").exists()):
        return AutoTokenizer.from_pretrained(str(path), local_files_only=True, trust_remote_code=False)
    if files[0].suffix == ".gguf" and importlib.util.find_spec("gguf") is None:
        raise ModuleNotFoundError("the package gguf reads it, which isn't installed (pip install gguf)")
    folder, file = str(files[0].parent), files[0].name
    return AutoTokenizer.from_pretrained(folder, gguf_file=file, local_files_only=True, trust_remote_code=False)


def _from_cache_or_hub(name: str) -> Any:  # noqa: ANN401
    from huggingface_hub import HfApi
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        # Without a network or such a name, a download would be tried again and again for minutes.
        HfApi().model_info(name, timeout=_PROBE_SECONDS)
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)
