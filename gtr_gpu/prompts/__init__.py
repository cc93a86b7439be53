"""Ranked tables and their relations to the prompt of a language model.

The public names are loaded when they are first used, so that settings are at hand without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gtr_gpu.prompts.build import build_prompt
    from gtr_gpu.prompts.examples import packaged_examples, read_examples
    from gtr_gpu.prompts.prompt import Prompt, PromptRelation, PromptTable
    from gtr_gpu.prompts.relations import prompt_relations
    from gtr_gpu.prompts.settings import Example, PromptSettings

__all__ = [
    "Example",
    "Prompt",
    "PromptRelation",
    "PromptSettings",
    "PromptTable",
    "build_prompt",
    "packaged_examples",
    "prompt_relations",
    "read_examples",
]

_HOMES = {
    "Example": "settings",
    "Prompt": "prompt",
    "PromptRelation": "prompt",
    "PromptSettings": "settings",
    "PromptTable": "prompt",
    "build_prompt": "build",
    "packaged_examples": "examples",
    "prompt_relations": "relations",
    "read_examples": "examples",
}


def __getattr__(name: str) -> object:
    """Imports a public name from the module that has it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
