"""Where files lie that can be made anew: in the user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The folder of that name in our part of the user's cache; it need not exist yet."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG standard has relative paths ignored.
    return (Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache") / "gtr-gpu" / name
