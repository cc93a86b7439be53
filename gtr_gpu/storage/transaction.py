"""One change of an index: new files beside the old ones, then one manifest that takes the old one's place."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import re
import secrets
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gtr_gpu.errors import IndexFormatError
from gtr_gpu.storage.manifest import FILE_NAME, FORMAT_VERSION, MANIFEST_NAME, FileEntry, Manifest

log = logging.getLogger("gtr_gpu.storage")

_TEMPORARY_MANIFEST = re.compile(r"manifest-[0-9a-f]{8}\.tmp")
_CHUNK = 1 << 20


class Transaction:
    """What a writer does between taking the lock and giving it back; made by `IndexFolder.writer`.

    Leaving without a commit deletes the new files and leaves the index as it was. Several commits may follow.

    Attributes:
        folder: The index.
        manifest: The newest state, None before the first commit of a build.
    """

    def __init__(self, folder: Path, manifest: Manifest | None) -> None:
        self.folder = folder
        self.manifest = manifest
        self._made: set[str] = set()
        self._sealed: dict[str, FileEntry] = {}

    def new_path(self, role: str, suffix: str = ".safetensors") -> Path:
        """A name that no file of the folder ever had, for a file that the caller writes.

        Args:
            role: The role that the manifest will give the file; lower-case letters, digits and hyphens.
            suffix: `.safetensors` or `.arrow`.

        Raises:
            ValueError: A name of other characters, or another suffix.
        """
        generation = self.manifest.generation + 1 if self.manifest else 1
        name = f"{role}-{generation:06}-{secrets.token_hex(4)}{suffix}"
        if not FILE_NAME.fullmatch(name):
            raise ValueError(f"role must be lower-case letters, digits and hyphens, with a known suffix, got {name!r}")
        self._made.add(name)
        return self.folder / name

    def seal(self, path: Path) -> FileEntry:
        """Takes a finished file into the index: waits until it is on the disk and returns its entry for the manifest.

        Raises:
            ValueError: The path is not one of `new_path`.
            OSError: The file is missing, or the disk fails.
        """
        if path.parent != self.folder or path.name not in self._made:
            raise ValueError(f"{path} did not come from new_path of this transaction")
        with path.open("rb") as file:
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            entry = FileEntry(path.name, os.fstat(file.fileno()).st_size, digest)
        self._sealed[path.name] = entry
        return entry

    def copy(self, source: Path, entry: FileEntry) -> FileEntry:
        """Takes in a file of the index at `source`, under a name of its own.

        Raises:
            FileNotFoundError: The file is gone, as after a change of that index.
            IndexFormatError: Its bytes don't have the checksum of its entry.
        """
        with (source / entry.name).open("rb") as old:
            name = re.sub(r"[0-9a-f]{8}(?=\.)", secrets.token_hex(4), entry.name)
            self._made.add(name)
            digest = hashlib.sha256()
            with (self.folder / name).open("xb") as new:
                while chunk := old.read(_CHUNK):
                    digest.update(chunk)
                    new.write(chunk)
                new.flush()
                os.fsync(new.fileno())
        if digest.hexdigest() != entry.checksum:
            raise IndexFormatError(f"{source / entry.name} is damaged: `gtr verify` lists what else is")
        self._sealed[name] = dataclasses.replace(entry, name=name)
        return self._sealed[name]

    def commit(self, manifest: Manifest) -> Manifest:
        """Makes a state the index's newest, at once and for good, and deletes the files that it doesn't name.

        A crash at any moment leaves the old state or this one. Readers keep what they have opened.

        Args:
            manifest: The new state, every file of which is sealed or was a part of the last state.

        Returns:
            The manifest as written, with its generation, times and versions.

        Raises:
            ValueError: A file is named that was not sealed.
            OSError: The disk is full or fails; the old state stays.
        """
        known = self._sealed | ({entry.name: entry for entry in self.manifest.entries()} if self.manifest else {})
        for entry in manifest.entries():
            if known.get(entry.name) != entry:
                raise ValueError(f"{entry.name} must be sealed before a manifest names it")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = dataclasses.replace(
            manifest,
            generation=self.manifest.generation + 1 if self.manifest else 1,
            created=manifest.created or now,
            updated=now,
            library_version=_library_version(),
            format_version=FORMAT_VERSION,
        )
        data = manifest.to_bytes()
        sync_folder(self.folder)
        temporary = self.folder / f"manifest-{secrets.token_hex(4)}.tmp"
        self._made.add(temporary.name)
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.folder / MANIFEST_NAME)
        sync_folder(self.folder)
        self.manifest = manifest
        self.sweep()
        return manifest

    def sweep(self) -> None:
        """Deletes what writers made and the manifest on the disk doesn't name: a crash's leavings, old states' files.

        What no writer could have named stays. Where the manifest can't be read, only this transaction's own files go.
        """
        # The manifest is read again, as an interrupt may have come between its replacement and the next line.
        named: set[str] | None
        try:
            data = (self.folder / MANIFEST_NAME).read_bytes()
            named = {entry.name for entry in Manifest.from_bytes(data, str(self.folder)).entries()}
        except FileNotFoundError:
            named = set()
        except IndexFormatError:
            named = None
        for path in self.folder.iterdir():
            if not is_ours(path.name) or (path.name not in self._made if named is None else path.name in named):
                continue
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s is no longer needed but can't be deleted: %s", path, error.strerror)


def is_ours(name: str) -> bool:
    """Whether a writer could have made a file of that name, the manifest and the lock apart."""
    return bool(FILE_NAME.fullmatch(name) or _TEMPORARY_MANIFEST.fullmatch(name))


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _library_version() -> str:
    try:
        return version("gtr-gpu")
    except PackageNotFoundError:  # a checkout that is not installed
        return "0+unknown"
