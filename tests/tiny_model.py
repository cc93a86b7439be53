"""A language model of two small layers with random weights, and a tokenizer of its own."""

from pathlib import Path
from typing import Any

WORDS = "the of capital river longest table cell row France Paris what is which year and in a story about moon sea king"
TEMPLATE = (
    "{% for message in messages %}<|user|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def make(folder: Path, *, template: str | None = TEMPLATE, window: int = 128, pad: bool = True, seed: int = 0) -> Path:
    """Writes the model into a folder, as a hub would have it."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    inner: Any = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|user|>", "<|assistant|>", "<|pad|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator([WORDS, *WORDS.split()], trainer)
    names = {"eos_token": "<|end|>"} | ({"pad_token": "<|pad|>"} if pad else {})
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=inner, **names)
    tokenizer.chat_template = template
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=inner.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=window,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
