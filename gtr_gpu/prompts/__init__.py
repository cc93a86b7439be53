"""Ranked tables and their relations to the prompt of a language model.

The public names are loaded when they are first used, so that settings are at hand without torch.
"""

from typing import TYPE_CHECKING

from gtr_gpu.lazy import lazy_names

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

__getattr__ = lazy_names(
    __name__,
    {
        "Example": "settings",
        "Prompt": "prompt",
        "PromptRelation": "prompt",
        "PromptSettings": "settings",
        "PromptTable": "prompt",
        "build_prompt": "build",
        "packaged_examples": "examples",
        "prompt_relations": "relations",
        "read_examples": "examples",
    },
)
