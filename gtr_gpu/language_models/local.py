"""A language model that transformers runs on this machine."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch

from gtr_gpu.errors import GTRError
from gtr_gpu.hub import quiet_hub
from gtr_gpu.language_models.model import Completion, ModelError
from gtr_gpu.language_models.model_files import find_model
from gtr_gpu.memory import is_out_of_memory
from gtr_gpu.prompts.tokens import TokenCounter, TokenizerCounter, load_tokenizer

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "float32", "bfloat16"]

# Memory for what attention keeps of each token, of which a batch may take so much.
_CPU_BATCH_BYTES = 1 << 30
_GPU_BATCH_SHARE = 0.4
_CPU_BATCH, _GPU_BATCH = 16, 64
# So many batches are taken at a time and sorted by length, so that one holds prompts of like length.
_BATCHES_SORTED = 4
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "max_length")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Encoded:
    number: int
    ids: list[int]


class LocalModel:
    """A model that transformers runs here, greedily: the most likely token each time.

    Args:
        model: The loaded model.
        tokenizer: Its tokenizer.
        name: What results call it.

    Attributes:
        name: What results call it.
        tokens: Counts the tokens of prompts, exactly.
        window: The most tokens of prompt and completion together, or None where the model doesn't say.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:  # noqa: ANN401
        self.name = name
        self.tokens: TokenCounter = TokenizerCounter(tokenizer, name)
        self.window = _window(model.config, tokenizer)
        self._model = model
        self._tokenizer = tokenizer
        self._device = next(model.parameters()).device
        self._batch_size = _GPU_BATCH if self._device.type == "cuda" else _CPU_BATCH
        self._batch_tokens = _batch_bytes(self._device) // _token_bytes(model)
        self._ends = _end_tokens(model, tokenizer)
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(self._ends, default=0)

    @classmethod
    def load(cls, model: str, *, device: Device = "auto", precision: Precision = "auto") -> LocalModel:
        """Loads a model. Code from a hub is never run, and weights are read from safetensors only.

        Args:
            model: A folder, a GGUF file, a name on the hub, or that of the packaged model.
            device: Where it runs; `auto` takes a GPU where there is one.
            precision: `auto` takes bfloat16 where the device has instructions for it, which halves what each token
                has to read, and float32 elsewhere.

        Raises:
            GTRError: There is no such model, it can't be loaded, or an argument is none of those above.
        """
        place, dtype = _place(device, precision)
        folder = find_model(model)
        tokenizer = load_tokenizer(folder)
        loaded = _load(folder, model, dtype)
        given = Path(model).expanduser()
        name = given.resolve().name if given.exists() else model
        return cls(loaded.to(place).eval(), tokenizer, name)

    def __repr__(self) -> str:
        return f"LocalModel({self.name!r} on {self._device})"

    def complete(
        self, prompts: Iterable[str], max_new_tokens: int
    ) -> Generator[tuple[int, Completion | ModelError], None, None]:
        """Completes prompts in batches of like length.

        Args:
            prompts: The prompts, each a user's message; a few batches of them are taken at a time.
            max_new_tokens: The most tokens of a completion.

        Yields:
            The number of a prompt, and its completion or what went wrong with it.

        Raises:
            ModelError: What would go wrong for every prompt.
        """
        self._check(max_new_tokens)
        numbered = enumerate(prompts)
        while taken := list(islice(numbered, self._batch_size * _BATCHES_SORTED)):
            fitting = []
            for number, prompt in taken:
                encoded = _Encoded(number, self._encode(prompt))
                error = self._too_long(encoded, max_new_tokens)
                if error is None:
                    fitting.append(encoded)
                else:
                    yield number, error
            # The longest first: a batch that is too large for the memory shows at once.
            fitting.sort(key=lambda one: -len(one.ids))
            while fitting:
                size = self._fit(fitting, max_new_tokens)
                yield from self._batch(fitting[:size], max_new_tokens)
                del fitting[:size]

    def stream(self, prompt: str, max_new_tokens: int, show: Callable[[str], None]) -> Completion:
        """Completes one prompt and shows the text as it comes.

        Args:
            prompt: A user's message.
            max_new_tokens: The most tokens of the completion.
            show: Is given each new piece of text.

        Raises:
            ModelError: There is no completion.
        """
        from transformers import TextStreamer

        class Streamer(TextStreamer):
            def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
                if text:
                    show(text)

        self._check(max_new_tokens)
        encoded = _Encoded(0, self._encode(prompt))
        error = self._too_long(encoded, max_new_tokens)
        if error is not None:
            raise error
        streamer = Streamer(self._tokenizer, skip_prompt=True, skip_special_tokens=True)
        try:
            return self._generate([encoded], max_new_tokens, streamer=streamer)[0]
        except (RuntimeError, MemoryError) as failure:
            if is_out_of_memory(failure):
                raise self._no_memory(encoded) from None
            raise

    def _batch(self, batch: Sequence[_Encoded], max_new_tokens: int) -> Iterator[tuple[int, Completion | ModelError]]:
        try:
            completions = self._generate(batch, max_new_tokens)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            completions = None
        if completions is not None:
            for encoded, completion in zip(batch, completions, strict=True):
                yield encoded.number, completion
        elif len(batch) == 1:
            yield batch[0].number, self._no_memory(batch[0])
        else:
            half = len(batch) // 2
            logger.info("%d prompts at once need too much memory", len(batch))
            self._batch_tokens = half * (len(batch[0].ids) + max_new_tokens)
            yield from self._batch(batch[:half], max_new_tokens)
            yield from self._batch(batch[half:], max_new_tokens)

    def _generate(self, batch: Sequence[_Encoded], max_new_tokens: int, **options: Any) -> list[Completion]:  # noqa: ANN401
        start = time.perf_counter()
        longest = max(len(one.ids) for one in batch)
        # On the left, so that what is written comes right after what was read. The mask also makes the positions of
        # a row begin where its prompt does.
        ids = torch.full((len(batch), longest), self._pad, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, one in enumerate(batch):
            ids[row, longest - len(one.ids) :] = torch.tensor(one.ids)
            mask[row, longest - len(one.ids) :] = 1
        with torch.inference_mode(), quiet_hub():
            written = self._model.generate(
                input_ids=ids.to(self._device),
                attention_mask=mask.to(self._device),
                generation_config=self._settings(max_new_tokens),
                **options,
            )[:, longest:].tolist()
        seconds = time.perf_counter() - start
        return [self._completion(one, row, seconds) for one, row in zip(batch, written, strict=True)]

    def _completion(self, encoded: _Encoded, written: list[int], seconds: float) -> Completion:
        end = next((place for place, token in enumerate(written) if token in self._ends), None)
        kept = written if end is None else written[: end + 1]
        text = self._tokenizer.decode(kept, skip_special_tokens=True)
        return Completion(text, "length" if end is None else "stop", len(encoded.ids), len(kept), seconds)

    def _settings(self, max_new_tokens: int) -> Any:  # noqa: ANN401 (transformers' GenerationConfig)
        """What the model's authors set, but greedy."""
        settings = copy.deepcopy(self._model.generation_config)
        settings.do_sample, settings.num_beams = False, 1
        for name in _SAMPLING:
            setattr(settings, name, None)
        settings.max_new_tokens = max_new_tokens
        settings.eos_token_id = sorted(self._ends) or None
        settings.pad_token_id = self._pad
        settings.return_dict_in_generate = False
        return settings

    def _encode(self, prompt: str) -> list[int]:
        text, chat = prompt, bool(getattr(self._tokenizer, "chat_template", None))
        if chat:
            messages = [{"role": "user", "content": prompt}]
            text = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        encoded = self._tokenizer(text, add_special_tokens=not chat, truncation=False, verbose=False)
        ids: list[int] = encoded["input_ids"]
        return ids

    def _fit(self, encoded: Sequence[_Encoded], max_new_tokens: int) -> int:
        """How many of the prompts, of which the first is the longest, make a batch."""
        each = len(encoded[0].ids) + max_new_tokens
        return max(1, min(len(encoded), self._batch_size, self._batch_tokens // each))

    def _check(self, max_new_tokens: int) -> None:
        if max_new_tokens < 1:
            raise GTRError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
        if self.window is not None and max_new_tokens >= self.window:
            raise ModelError(
                f"max_new_tokens must be below the {self.window:,} tokens that {self.name} takes in all, "
                f"got {max_new_tokens:,}",
                fatal=True,
            )

    def _too_long(self, encoded: _Encoded, max_new_tokens: int) -> ModelError | None:
        if not encoded.ids:
            return ModelError(f"the prompt has no tokens, and {self.name} needs one; ask something")
        if self.window is None or len(encoded.ids) + max_new_tokens <= self.window:
            return None
        return ModelError(
            f"the prompt has {len(encoded.ids):,} tokens and {self.name} takes {self.window:,} in all; "
            f"lower prompt_tokens to {self.window - max_new_tokens:,}, or max_new_tokens"
        )

    def _no_memory(self, encoded: _Encoded) -> ModelError:
        return ModelError(
            f"the memory is too small for {self.name} with a prompt of {len(encoded.ids):,} tokens; "
            "lower prompt_tokens or max_new_tokens, or take a smaller model"
        )


def _load(folder: Path, name: str, dtype: torch.dtype) -> Any:  # noqa: ANN401 (a model of transformers)
    from transformers import AutoModelForCausalLM

    try:
        with quiet_hub():
            return AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, use_safetensors=True, trust_remote_code=False, local_files_only=True
            )
    except Exception as error:
        if is_out_of_memory(error):
            raise GTRError(f"the memory is too small for model {name!r}; take a smaller one") from None
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise GTRError(
            f"model {name!r} can't be loaded: {reason}; it must be a language model with weights as safetensors"
        ) from error


def _place(device: str, precision: str) -> tuple[torch.device, torch.dtype]:
    if device not in ("auto", "cpu", "cuda"):
        raise GTRError(f"device must be auto, cpu or cuda, got {device!r}")
    if precision not in ("auto", "float32", "bfloat16"):
        raise GTRError(f"precision must be auto, float32 or bfloat16, got {precision!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise GTRError("device cuda needs a GPU and a torch that is built for it; take cpu or auto")
    place = torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    if precision == "auto":
        precision = "bfloat16" if _has_bfloat16(place) else "float32"
    return place, torch.bfloat16 if precision == "bfloat16" else torch.float32


def _has_bfloat16(place: torch.device) -> bool:
    if place.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # a build of torch without oneDNN
        return False


def _window(config: Any, tokenizer: Any) -> int | None:  # noqa: ANN401
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    # A tokenizer that knows no limit names a huge number.
    limits = [getattr(text, "max_position_embeddings", None), getattr(tokenizer, "model_max_length", None)]
    known = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1 << 40]
    return min(known, default=None)


def _token_bytes(model: Any) -> int:  # noqa: ANN401
    """About what a token of a batch takes: the keys and values of all layers, and what one layer computes."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", 1) or 1
    hidden = getattr(config, "hidden_size", 1024)
    size = getattr(config, "head_dim", None) or hidden // heads
    kept = 2 * getattr(config, "num_hidden_layers", 1) * (getattr(config, "num_key_value_heads", None) or heads) * size
    passing = 4 * (getattr(config, "intermediate_size", None) or 4 * hidden) + 8 * hidden
    return max(1, int((kept + passing) * next(model.parameters()).element_size()))


def _batch_bytes(device: torch.device) -> int:
    return int(torch.cuda.mem_get_info(device)[0] * _GPU_BATCH_SHARE) if device.type == "cuda" else _CPU_BATCH_BYTES


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:  # noqa: ANN401
    ends = getattr(model.generation_config, "eos_token_id", None)
    found = set(ends if isinstance(ends, list) else [ends]) | {tokenizer.eos_token_id}
    return frozenset(int(token) for token in found if token is not None)
