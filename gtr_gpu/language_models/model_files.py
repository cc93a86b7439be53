"""Where the files of a local language model are: in a folder, in the local cache of the hub, or on the hub."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from gtr_gpu.errors import GTRError
from gtr_gpu.hub import PROBE_SECONDS, hub_folder, quiet_hub
from gtr_gpu.language_models.gguf import HOW_TO_INSTALL, PACKAGED_MODEL, converted_folder, packaged_file

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
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
            raise GTRError(f"{PACKAGED_MODEL} isn't installed; {HOW_TO_INSTALL}")
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
    return hub_folder("model", model, _REMEDY)


def is_on_hub(name: str, files: tuple[str, ...]) -> bool:
    """Whether one of a name's files is in the local cache of the hub or, in a short time, the name is on the hub."""
    if not _HUB_NAME.fullmatch(name):
        return False
    from huggingface_hub import HfApi, try_to_load_from_cache

    if any(isinstance(try_to_load_from_cache(name, file), str) for file in files):
        return True
    try:
        with quiet_hub():
            HfApi().model_info(name, timeout=PROBE_SECONDS)
    except Exception as error:  # the hub's client passes on whatever its HTTP library raises
        logger.debug("%s can't be had from the hub: %s", name, type(error).__name__)
        return False
    return True
