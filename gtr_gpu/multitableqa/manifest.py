"""What a benchmark was made of: its settings, the counts of every step and the checksums of its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.task import PROTOCOLS

NAME = "manifest.json"
REPLACEMENT = ".replacement"
"""Where in a benchmark's folder a complete one waits until the earlier one has made room."""
_FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """The manifest of a benchmark. It holds no path and no time, so that a second run gives the same bytes.

    Attributes:
        version: The library's version.
        config: The settings.
        sources: By data set, its layout and how many tables and questions it has.
        tasks: By task, how many tables and questions each step read, moved, took out and made.
        files: The SHA-256 of every file by its path in the benchmark's folder.
    """

    version: str
    config: Mapping[str, Any]
    sources: Mapping[str, Mapping[str, Any]]
    tasks: dict[str, dict[str, Any]]
    files: dict[str, str]

    def write(self, folder: Path) -> None:
        """Writes it into the benchmark's folder."""
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"
        (folder / NAME).write_text(text, encoding="utf-8", newline="\n")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Reads it from the benchmark's folder.

        Raises:
            GTRError: There is none, or it is damaged or of a newer version.
        """
        path = folder / NAME
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            if fields.pop("format") != _FORMAT:
                raise GTRError(f"{path} is of another version of this library; build the benchmark anew")
            return cls(**fields)
        except FileNotFoundError:
            raise GTRError(f"there is no {NAME} in {str(folder)!r}; `gtr benchmark build` makes a benchmark") from None
        except (AttributeError, KeyError, TypeError, ValueError):
            raise GTRError(f"{path} is no manifest of a benchmark; build the benchmark anew") from None

    def verify(self, folder: Path, within: str = "") -> None:
        """Compares files with their checksums.

        Args:
            folder: The benchmark's folder.
            within: Only those below this folder of it, such as `tfv/mixed/`; all of them else.

        Raises:
            GTRError: A file is missing or was changed, or there is none to compare.
        """
        files = {name: expected for name, expected in self.files.items() if name.startswith(within)}
        if not files:
            raise GTRError(
                f"{folder / within} is no part of what {folder / NAME} says was built; move it elsewhere, or build the "
                "benchmark anew"
            )
        for name, expected in files.items():
            path = folder / name
            if not path.is_file():
                raise GTRError(f"{path} is missing; build the benchmark anew")
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                    raise GTRError(f"{path} is not what was built: its checksum differs; build the benchmark anew")


def manifest_of(folder: Path) -> Manifest | None:
    """The manifest of a benchmark; None where none was built.

    Raises:
        GTRError: It is damaged or of another version, or the benchmark is half replaced.
    """
    if (folder / REPLACEMENT).is_dir():
        raise GTRError(
            f"the benchmark {folder} is half replaced, since a build was broken off; run `gtr benchmark build` on it "
            "again, which finishes that first"
        )
    return Manifest.read(folder) if (folder / NAME).is_file() else None


def benchmark_of(task: Path) -> Path | None:
    """The folder of the benchmark that a task was built in; None where it was not built."""
    task = task.resolve()
    folder = task.parent.parent
    is_built = task.name in PROTOCOLS and ((folder / NAME).is_file() or (folder / REPLACEMENT).is_dir())
    return folder if is_built else None


def verify_tasks(tasks: Iterable[Path]) -> None:
    """Compares the files of tasks with the checksums of the benchmark that they were built in.

    Tasks that were not built, such as those in their authors' layout, have none and are left alone.

    Args:
        tasks: Folders of tasks.

    Raises:
        GTRError: A file is missing or was changed, a task is none of its benchmark's, or that is damaged.
    """
    for task in tasks:
        folder = benchmark_of(task)
        manifest = folder and manifest_of(folder)
        if folder and manifest:
            manifest.verify(folder, f"{task.resolve().relative_to(folder).as_posix()}/")
