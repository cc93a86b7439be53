"""The options of commands that ask a language model, and the model that they open."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from gtr_gpu import language_models
from gtr_gpu.errors import GTRError
from gtr_gpu.language_models import choose
from gtr_gpu.language_models.address import DEFAULT_KEY_VARIABLE

if TYPE_CHECKING:
    from gtr_gpu.language_models.model import LanguageModel

KEY_VARIABLE = DEFAULT_KEY_VARIABLE
NEW_TOKENS, TIMEOUT = 1024, choose.DEFAULT_TIMEOUT
RETRIES, CONCURRENCY = choose.DEFAULT_RETRIES, choose.DEFAULT_CONCURRENCY

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR",
        help="A server's model, with --base-url; else one here: a folder, a GGUF file or a name on the hub. By default "
        "the only one of the server, or the small one of a package.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url", metavar="URL", help="A server that speaks the OpenAI protocol, such as http://localhost:8000/v1."
    ),
]
ApiKeyEnv = Annotated[
    str,
    typer.Option("--api-key-env", metavar="NAME", help="The variable of the environment that holds the server's key."),
]
NewTokens = Annotated[
    int, typer.Option("--max-new-tokens", metavar="N", help="The most tokens that the model writes for an answer.")
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="S", help="The seconds that a server has for an answer.", min=0.001)
]
Retries = Annotated[
    int, typer.Option("--retries", metavar="N", help="How often a call that failed is repeated.", min=0, max=100)
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", metavar="N", help="The most calls of a server at a time.", min=1, max=1000)
]


def check_model(model: str | None, base_url: str | None, max_new_tokens: int) -> None:
    """Checks what can be without loading anything.

    Raises:
        GTRError: A name is empty, or a number is out of its range.
    """
    for option, value in (("--model", model), ("--base-url", base_url)):
        if value is not None and not value.strip():
            raise GTRError(f"{option} is empty; give one, or leave the option out")
    if max_new_tokens < 1:
        raise GTRError(f"--max-new-tokens must be at least 1, got {max_new_tokens}")


def check_key(name: str, base_url: str | None) -> None:
    """Checks that a variable which was named for the key is there.

    Raises:
        GTRError: It is not, or a name is no name.
    """
    if not name.strip() or "=" in name:
        raise GTRError("--api-key-env must be the name of a variable of the environment, such as OPENAI_API_KEY")
    if base_url is not None and name != KEY_VARIABLE and not os.environ.get(name):
        raise GTRError(f"the environment has no variable {name}, which --api-key-env names; set it to the server's key")


def open_model(
    *,
    model: str | None,
    base_url: str | None,
    api_key_env: str = KEY_VARIABLE,
    tokenizer: str | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    concurrency: int = CONCURRENCY,
) -> LanguageModel:
    """The model that the options name.

    Raises:
        ModelError: Its server can't be reached, or has several models of which none was named.
        GTRError: It isn't there.
    """
    return language_models.open_model(
        model,
        base_url,
        key_variable=api_key_env,
        tokenizer=tokenizer,
        timeout=timeout,
        retries=retries,
        concurrency=concurrency,
    )
