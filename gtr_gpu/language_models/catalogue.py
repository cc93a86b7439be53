"""What can be found out about a server's model: its name, its window, and its tokenizer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.faults import CHECK_SERVER
from gtr_gpu.language_models.model import ModelError
from gtr_gpu.language_models.model_files import is_on_hub
from gtr_gpu.prompts.tokens import EstimatedCounter, TokenCounter, TokenizerCounter, load_tokenizer

if TYPE_CHECKING:
    import openai

# Of vLLM and SGLang, of several hosts, and of LM Studio.
_WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
_MOST_NAMES_SHOWN = 20
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Catalogue:
    """The models of a server.

    Attributes:
        models: What it tells of each, by name.
        llama_cpp_window: The window of a server of llama.cpp, which is set when it is started.
    """

    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    llama_cpp_window: int | None = None

    def window(self, model: str) -> int | None:
        """The most tokens of prompt and completion together, where the server tells."""
        entry = self.models.get(model, {})
        for name in _WINDOW_FIELDS:
            if _is_count(entry.get(name)):
                return int(entry[name])
        if self.llama_cpp_window is not None:
            return self.llama_cpp_window
        meta = entry.get("meta")
        trained = meta.get("n_ctx_train") if isinstance(meta, dict) else None
        return trained if _is_count(trained) else None


async def read_catalogue(client: openai.AsyncOpenAI, address: Address) -> Catalogue:
    """Asks a server for its models.

    Raises:
        ModelError: It doesn't list them.
        openai.OpenAIError: It gives no answer that is JSON.
        ValueError: It gives no answer that is JSON.
    """
    import openai

    # Not `client.models.list`: some servers give a bare list.
    body = await client.get("/models", cast_to=object)
    entries = body.get("data") if isinstance(body, dict) else body
    if not isinstance(entries, list):
        raise ModelError(f"{address} doesn't list its models; {CHECK_SERVER}, or name a model")
    models = {one["id"]: one for one in entries if isinstance(one, dict) and isinstance(one.get("id"), str)}
    window = None
    if any("meta" in one for one in models.values()):
        try:
            window = _slot_window(await client.get(f"{address.root}/props", cast_to=object))
        except (openai.OpenAIError, ValueError) as error:
            logger.debug("the window isn't told: %s", type(error).__name__)
    return Catalogue(models, window)


def pick_model(catalogue: Catalogue, address: Address) -> str:
    """The only model of a server.

    Raises:
        ModelError: It has none, or several.
    """
    names = sorted(catalogue.models)
    if len(names) == 1:
        return names[0]
    if not names:
        raise ModelError(f"{address} lists no model; name one, or load one there", fatal=True)
    more = f" and {len(names) - _MOST_NAMES_SHOWN} more" if len(names) > _MOST_NAMES_SHOWN else ""
    shown = address.redacted(", ".join(" ".join(name.split()) for name in names[:_MOST_NAMES_SHOWN]))
    raise ModelError(f"{address} has {len(names)} models; name one of them: {shown}{more}", fatal=True)


def find_counter(model: str, tokenizer: str | None) -> TokenCounter:
    """Counts tokens as a model does, where its tokenizer is known, and else by an estimate.

    Args:
        model: The model's name at its server: a folder, or a name on the hub, or any other.
        tokenizer: The name or folder of its tokenizer, where the user knows it.

    Raises:
        GTRError: The tokenizer that the user named isn't found.
    """
    if tokenizer is not None:
        return TokenizerCounter(load_tokenizer(tokenizer), tokenizer)
    if Path(model).is_dir() or is_on_hub(model, _TOKENIZER_FILES):
        try:
            return TokenizerCounter(load_tokenizer(model), model)
        except GTRError as error:
            logger.debug("no tokenizer: %s", error)
    logger.info("the tokenizer of %s isn't known, so tokens are estimated; tokenizer names it", model)
    return EstimatedCounter()


def _slot_window(properties: object) -> int | None:
    settings = properties.get("default_generation_settings") if isinstance(properties, dict) else None
    window = settings.get("n_ctx") if isinstance(settings, dict) else None
    return window if _is_count(window) else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
