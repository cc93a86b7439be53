"""Models from the hub: from its local cache first, and quietly."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gtr_gpu.errors import GTRError

PROBE_SECONDS = 5.0
# No pickles: those run code.
_WANTED = ["*.json", "*.txt", "*.model", "*.jinja", "*.safetensors"]
_IGNORED = ["onnx/*", "openvino/*", "original/*"]

logger = logging.getLogger(__name__)


def hub_folder(kind: str, name: str, remedy: str, revision: str | None = None) -> Path:
    """The folder of a model of the hub, in its local cache; downloaded where it isn't there yet.

    Args:
        kind: What messages call it: the argument that named it.
        name: Its name on the hub.
        remedy: What the user can give in its place.
        revision: The revision; None takes the newest.

    Raises:
        RevisionNotFoundError: The hub has no such revision of it.
        GTRError: It can't be had.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        with quiet_hub():
            cached = Path(snapshot_download(name, revision=revision, local_files_only=True))
        if (cached / "config.json").is_file() and any(cached.glob("*.safetensors")):
            return cached
    except HFValidationError:
        raise GTRError(f"{kind} must be a name on the hub or a local folder, got {name!r}; {remedy}") from None
    except OSError:
        logger.debug("%s is not in the local cache", name)
    try:
        # One short question first: it tells an unknown name from a missing network without the download's retries.
        with quiet_hub():
            HfApi().model_info(name, revision=revision, timeout=PROBE_SECONDS)
        logger.warning("downloading the %s %s", kind, name)
        return Path(snapshot_download(name, revision=revision, allow_patterns=_WANTED, ignore_patterns=_IGNORED))
    except RevisionNotFoundError:
        raise
    except GatedRepoError:
        raise GTRError(f"{kind} {name!r} asks for a permission on the hub: log in with `hf auth login`") from None
    except RepositoryNotFoundError:
        raise GTRError(f"there is no {kind} {name!r} on the hub (or it is private); {remedy}") from None
    except Exception as error:  # the hub's client passes on whatever its HTTP library raises
        reason = type(error).__name__
        raise GTRError(f"{kind} {name!r} isn't on this machine and can't be had ({reason}); {remedy}") from error


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Keeps transformers and the hub's client from writing to stderr, and leaves their settings as they were."""
    from huggingface_hub import utils as hub
    from transformers.utils import logging

    # Neither library types these functions.
    hub_utils: Any = hub
    transformers_logging: Any = logging

    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    hub_bars = not hub_utils.are_progress_bars_disabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if hub_bars:
        hub_utils.disable_progress_bars()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
        if hub_bars:
            hub_utils.enable_progress_bars()
