"""Semantic features: unit-length sentence vectors of tables and questions from any Hugging Face encoder."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError
from gtr_gpu.features.encoder_source import REMEDY, EncoderSource, find_encoder
from gtr_gpu.features.encoding_cache import KEY_BYTES, EncodingCache
from gtr_gpu.features.token_window import fill_windows
from gtr_gpu.hub import quiet_hub
from gtr_gpu.linearize import CHARACTERS_PER_TOKEN, TableText
from gtr_gpu.memory import is_out_of_memory
from gtr_gpu.progress import Silent, Stage
from gtr_gpu.ragged import Ragged

logger = logging.getLogger(__name__)

# Tokens with padding in one batch. On a CPU, batches that stay in its caches are the fastest.
_TOKEN_BUDGET = {"cpu": 1024, "cuda": 65_536}
# Texts that are sorted by length together: enough for little padding, few enough for a steady rate.
_SORTED_TOGETHER = 4096
_TOKENIZED_TOGETHER = 1024
# For models with relative positions whose files state no length, such as T5.
_UNSTATED_WINDOW = 512
_NO_WINDOW = 1 << 20


@dataclass(frozen=True)
class EncodedTables:
    """The vectors of N tables and what their windows had no room for.

    Attributes:
        vectors: x^sem, float32 `[N, d]` on the CPU, of length 1.
        cut_rows: Kept rows that the encoder didn't read, int64 `[N]`.
        cut_names: Column names that it didn't read, int64 `[N]`.
        cut_lead: Whether it didn't read the end of caption and description, bool `[N]`.
    """

    vectors: Tensor
    cut_rows: Tensor
    cut_names: Tensor
    cut_lead: Tensor


class Encoder:
    """A sentence encoder with its tokenizer, on one device; `Encoder.load` finds it.

    Attributes:
        name: The name that the user gave.
        device: Where the model runs.
        precision: `float32`, or `bfloat16` for autocast.
        dimension: The numbers of a vector, d.
        window: The longest sequence of the model, in tokens.
        max_tokens: The tokens of a table that are read, special tokens and prefix included.
        fingerprint: The same wherever the same model with the same pooling and prefixes is loaded, on any device.
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401 (a transformers model; its classes are loaded late)
        tokenizer: Any,  # noqa: ANN401 (a transformers tokenizer)
        source: EncoderSource,
        fingerprint: str,
        device: torch.device,
        precision: str,
        max_tokens: int,
    ) -> None:
        self.name = source.name
        self.device = device
        self.precision = precision
        self.dimension = int(model.config.hidden_size)
        self.fingerprint = fingerprint
        self._budget = _TOKEN_BUDGET.get(device.type, _TOKEN_BUDGET["cpu"])
        self._model = model
        self._pooling = source.pooling
        self._tokenizer = _raw_tokenizer(tokenizer)
        self._pad_token = int(tokenizer.pad_token_id or 0)
        self._before, self._after = _special_tokens(tokenizer)
        self._query_prefix, self._passage_prefix = self._tokenize(
            [source.query_prefix.rstrip(), source.passage_prefix.rstrip()]
        )
        self.window = min(_model_window(model, tokenizer), source.max_tokens or _NO_WINDOW)
        self.max_tokens = min(max_tokens, self.window)
        for knob, prefix in (("query_prefix", self._query_prefix), ("passage_prefix", self._passage_prefix)):
            if self._room(prefix, self.max_tokens) < 1:
                raise GTRError(
                    f"{knob} must leave room in a window of {self.max_tokens} tokens, got {len(prefix)}; shorten it"
                )

    @classmethod
    def load(cls, config: Config, device: str = "auto", precision: str = "auto") -> Encoder:
        """Loads the encoder that a config names.

        Args:
            config: Its knobs `encoder`, `encoder_revision`, `pooling`, the prefixes and `max_tokens` are read.
            device: `auto` (a GPU where there is one), `cpu` or `cuda`.
            precision: `auto` (bfloat16 on a GPU, float32 on a CPU), `float32` or `bfloat16`.

        Raises:
            GTRError: The encoder can't be had, can't be used, or the device isn't there.
        """
        chosen = choose_device(device)
        if precision not in ("auto", "float32", "bfloat16"):
            raise GTRError(f"precision must be auto, float32 or bfloat16, got {precision!r}")
        if precision == "auto":
            precision = "bfloat16" if chosen.type == "cuda" else "float32"
        source = find_encoder(config)
        model, tokenizer = _load(source)
        return cls(
            model.to(chosen).eval(), tokenizer, source, source.fingerprint(), chosen, precision, config.max_tokens
        )

    def encode_tables(
        self, texts: Sequence[TableText], cache: EncodingCache | None = None, stage: Stage | None = None
    ) -> EncodedTables:
        """Encodes tables; the same tokens are encoded once.

        Args:
            texts: The N tables' texts, from `table_text`.
            cache: Known encodings are taken from it and new ones stored in it as they are made; the caller flushes it
                at the end.
            stage: Is advanced by one for each table that is done.

        Returns:
            Vectors and what was left out, in the order of `texts`.

        Raises:
            GTRError: Memory isn't enough for even one table.
        """
        sequences: list[list[int]] = []
        cuts: list[tuple[int, int, bool]] = []
        room = self._room(self._passage_prefix, self.max_tokens)
        for start in range(0, len(texts), _TOKENIZED_TOGETHER):
            some = texts[start : start + _TOKENIZED_TOGETHER]
            for window in fill_windows(some, self._tokenize, room, bool(self._passage_prefix)):
                sequences.append(self._framed(self._passage_prefix, window.tokens))
                cuts.append((window.cut_rows, window.cut_names, window.cut_lead))
        counts = torch.tensor(cuts, dtype=torch.int64).view(-1, 3)
        vectors = self._encode(Ragged.from_rows(sequences), cache, stage or _silent_stage())
        return EncodedTables(vectors, counts[:, 0], counts[:, 1], counts[:, 2].bool())

    def encode_queries(self, queries: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Encodes questions.

        Args:
            queries: B questions.

        Returns:
            x_q, float32 `[B, d]` on the CPU, of length 1; and whether a question was cut, bool `[B]`.
        """
        room = self._room(self._query_prefix, self.window)
        bound = room * CHARACTERS_PER_TOKEN
        space = " " if self._query_prefix else ""
        tokens = self._tokenize([space + " ".join(query[: 2 * bound].split())[:bound] for query in queries])
        cut = torch.tensor(
            [len(ids) > room or len(query) > 2 * bound for ids, query in zip(tokens, queries, strict=True)],
            dtype=torch.bool,
        )
        sequences = [self._framed(self._query_prefix, ids[:room]) for ids in tokens]
        return self._encode(Ragged.from_rows(sequences), None, _silent_stage()), cut

    def _room(self, prefix: list[int], window: int) -> int:
        return window - len(self._before) - len(prefix) - len(self._after)

    def _framed(self, prefix: list[int], tokens: list[int]) -> list[int]:
        return [*self._before, *prefix, *tokens, *self._after]

    def _tokenize(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def _encode(self, tokens: Ragged, cache: EncodingCache | None, stage: Stage) -> Tensor:
        """Vectors `[N, d]` of token sequences; each distinct one is looked up or run through the model once."""
        keys = self._keys(tokens)
        first_of: dict[bytes, int] = {}
        same_as = torch.tensor([first_of.setdefault(key, row) for row, key in enumerate(keys)], dtype=torch.int64)
        vectors = torch.empty(len(tokens), self.dimension)
        missing = torch.tensor(list(first_of.values()), dtype=torch.int64)
        if cache is not None and missing.numel():
            found, known = cache.lookup([keys[row] for row in missing.tolist()])
            vectors[missing[found]] = known.view(-1, self.dimension)
            missing = missing[~found]
        stage.advance(len(tokens) - missing.numel())
        try:
            for rows, encoded in self._encode_missing(tokens, missing):
                vectors[rows] = encoded
                if cache is not None:
                    cache.store([keys[row] for row in rows.tolist()], encoded)
                stage.advance(rows.numel())
        except BaseException:
            if cache is not None:
                cache.flush()
            raise
        return vectors[same_as]

    def _keys(self, tokens: Ragged) -> list[bytes]:
        salt = f"{self.fingerprint}/{self.precision}".encode()
        values, offsets = tokens.values.numpy().tobytes(), (tokens.offsets * 4).tolist()
        return [
            hashlib.blake2b(salt + values[start:stop], digest_size=KEY_BYTES).digest()
            for start, stop in pairwise(offsets)
        ]

    def _encode_missing(self, tokens: Ragged, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of rows `[b]` with vectors `[b, d]`; one too large for memory is halved, as are all later ones."""
        for block in torch.split(rows, _SORTED_TOGETHER):
            order = torch.argsort(tokens.lengths[block], descending=True, stable=True)
            waiting = block[order]
            while waiting.numel():
                size = max(1, self._budget // int(tokens.lengths[waiting[0]]))
                batch = waiting[:size]
                try:
                    encoded = self._forward(tokens.select(batch))
                except RuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
                    encoded = None
                if encoded is not None:
                    waiting = waiting[size:]
                    yield batch, encoded
                elif batch.numel() == 1:
                    raise GTRError(
                        f"memory on {self.device} isn't enough to encode one text of {int(tokens.lengths[batch[0]])} "
                        "tokens; free some, lower max_tokens or choose a smaller encoder"
                    )
                else:
                    self._budget = min(self._budget, int(tokens.lengths[batch[0]]) * (batch.numel() // 2))
                    logger.info("out of memory with %d texts at once, going on with half", batch.numel())
                    if self.device.type == "cuda":
                        torch.cuda.empty_cache()

    @torch.inference_mode()
    def _forward(self, tokens: Ragged) -> Tensor:
        """Unit vectors `[b, d]`, float32 on the CPU, of a batch of sequences; padded only here."""
        lengths = tokens.lengths
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        ids = torch.full(mask.shape, self._pad_token, dtype=torch.int64)
        ids[mask] = tokens.values.long()
        ids, mask = ids.to(self.device), mask.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            hidden = self._model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        hidden = hidden.float()
        if self._pooling == "cls":
            pooled = hidden[:, 0]
        else:
            pooled = torch.where(mask[:, :, None], hidden, 0).sum(1) / lengths.to(self.device)[:, None]
        return torch.nn.functional.normalize(pooled, dim=1).cpu()


def choose_device(device: str) -> torch.device:
    """The device of that name: `auto`, `cpu`, or `cuda` (also `cuda:1`).

    Raises:
        GTRError: The name is unknown, or there is no such GPU.
    """
    kind, _, number = device.partition(":")
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return torch.device("cuda" if n_gpus else "cpu")
    if device == "cpu":
        return torch.device("cpu")
    if kind != "cuda" or (number and not number.isdigit()):
        raise GTRError(f"device must be auto, cpu or cuda, got {device!r}")
    if int(number or 0) >= n_gpus:
        raise GTRError(f"device {device!r} asks for a GPU, but torch sees {n_gpus or 'none'} here; use auto or cpu")
    return torch.device(device)


def _load(source: EncoderSource) -> tuple[Any, Any]:
    """The model and its tokenizer from a folder, in float32; code from the folder is never run."""
    with quiet_hub():
        from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding, AutoTokenizer

        try:
            settings = AutoConfig.from_pretrained(source.folder, local_files_only=True, trust_remote_code=False)
            kind = AutoModelForTextEncoding if settings.is_encoder_decoder else AutoModel
            model = kind.from_pretrained(
                source.folder,
                dtype=torch.float32,
                attn_implementation="sdpa",
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
            )
            tokenizer = AutoTokenizer.from_pretrained(source.folder, local_files_only=True, trust_remote_code=False)
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            reason = " ".join(str(error).split())[:200]
            raise GTRError(
                f"encoder {source.name!r} can't be loaded from {source.folder}: {reason}; {REMEDY}"
            ) from error
    return model, tokenizer


def _raw_tokenizer(tokenizer: Any) -> Any:  # noqa: ANN401
    """The Rust tokenizer without truncation and padding, reading `[SEP]` and the like in a text as plain text."""
    raw = getattr(tokenizer, "backend_tokenizer", None)
    if raw is None:
        raise GTRError(f"encoder must have a fast tokenizer (tokenizer.json), got {type(tokenizer).__name__}")
    raw.no_truncation()
    raw.no_padding()
    raw.encode_special_tokens = True
    return raw


def _special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:  # noqa: ANN401
    """The ids that the tokenizer puts before and after a text."""
    raw = tokenizer.backend_tokenizer
    plain, framed = raw.encode("a", add_special_tokens=False).ids, raw.encode("a", add_special_tokens=True).ids
    for start in range(len(framed) - len(plain) + 1):
        if framed[start : start + len(plain)] == plain:
            return framed[:start], framed[start + len(plain) :]
    raise GTRError("encoder must have a tokenizer that puts special tokens around a text, not into it")


def _model_window(model: Any, tokenizer: Any) -> int:  # noqa: ANN401
    """The longest sequence that the model has positions for."""
    longest = min(int(tokenizer.model_max_length), _NO_WINDOW)
    positions = getattr(model.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # RoBERTa's kind counts positions from the padding's number on.
        table = next((part for name, part in model.named_modules() if name.endswith("position_embeddings")), None)
        padding = getattr(table, "padding_idx", None)
        longest = min(longest, positions if padding is None else positions - padding - 1)
    return longest if longest < _NO_WINDOW else _UNSTATED_WINDOW


def _silent_stage() -> Stage:
    with Silent().stage("") as stage:
        return stage
