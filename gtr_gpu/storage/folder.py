"""An index's folder: opened by any number of readers, changed by one writer at a time."""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from gtr_gpu.errors import GTRError, IndexFormatError
from gtr_gpu.progress import Progress, Silent, Stage
from gtr_gpu.storage.lock import LOCK_NAME, writer_lock
from gtr_gpu.storage.manifest import MANIFEST_NAME, DamagedManifestError, FileEntry, Manifest, NewerFormatError
from gtr_gpu.storage.transaction import Transaction, is_ours

T = TypeVar("T")

ENCODINGS_NAME = "encodings"
"""The folder of encodings that an interrupted build leaves for the next one; no writer sweeps it."""

_ATTEMPTS = 100
_UNFIT_PLACE = {
    errno.EACCES,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
_CHUNK = 1 << 20
_REMEDY = "`gtr verify` lists all damage; restore the file, or build the index anew from its sources"


class IndexFolder:
    """The folder of an index.

    A reader takes one manifest and opens the files that it names. A writer may commit meanwhile and delete them: on
    Linux and macOS files that are open or mapped stay readable without a name, and one that vanished before it was
    opened is a reason to start again with the newest manifest, which `open_snapshot` does.

    Attributes:
        path: The folder, as given.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def exists(self) -> bool:
        """Whether there is a manifest, sound or not."""
        return (self.path / MANIFEST_NAME).exists()

    def file(self, entry: FileEntry) -> Path:
        """Where a file of the manifest lies."""
        return self.path / entry.name

    def read_manifest(self) -> Manifest:
        """The newest state, after a check of its format and of its files' presence and sizes.

        Raises:
            IndexFormatError: There is no index here, or one that is truncated, foreign or of a newer format.
        """
        return self.open_snapshot(lambda manifest: manifest)

    def open_snapshot(self, load: Callable[[Manifest], T]) -> T:
        """Opens the files of one state, also while a writer replaces it.

        Args:
            load: Opens the files of a manifest; called again with a newer one if a file had been deleted meanwhile.

        Returns:
            What `load` returned.

        Raises:
            IndexFormatError: As in `read_manifest`.
            GTRError: The index changed at each of a hundred attempts.
        """
        for _ in range(_ATTEMPTS):
            manifest = self._parse()
            try:
                self._check_files(manifest)
                return load(manifest)
            except (FileNotFoundError, IndexFormatError):
                if self._parse() == manifest:
                    self._check_files(manifest)  # names the missing file in its error
                    raise
        raise GTRError(f"{self.path} changes faster than it can be opened; try again when its writer is done")

    def verify(self, progress: Progress | None = None) -> list[str]:
        """Compares every file with its size and checksum in the manifest.

        Returns:
            One sentence for each file that is missing, unreadable or differs; empty for a sound index.

        Raises:
            IndexFormatError: There is no readable manifest.
        """
        manifest = self._parse()
        total = sum(entry.size for entry in manifest.entries())
        problems = []
        with (progress or Silent()).stage("Verifying", total) as stage:
            for entry in manifest.entries():
                try:
                    self._check_file(entry)
                    self._check_sum(entry, stage)
                except IndexFormatError as error:
                    problems.append(str(error))
                except OSError as error:
                    problems.append(f"{self.file(entry)} can't be read: {error.strerror}")
        if problems and self._parse() != manifest:
            return self.verify(progress)
        return problems

    def check_sums(self, entries: Iterable[FileEntry], progress: Progress | None = None) -> None:
        """Reads files in full, for whoever copies from them: new files and checksums would hide their damage for good.

        Raises:
            IndexFormatError: A file doesn't have its checksum; names the first.
            OSError: A file can't be read.
        """
        entries = list(entries)
        with (progress or Silent()).stage("Verifying", sum(entry.size for entry in entries)) as stage:
            for entry in entries:
                self._check_sum(entry, stage)

    @contextmanager
    def writer(self, create: bool = False, overwrite: bool = False) -> Iterator[Transaction]:
        """Takes the writer's lock for one change, or several; the files of a crashed writer are deleted first.

        Args:
            create: Begins a new index; else there has to be one.
            overwrite: With `create`, allows the place of an existing index, which stays until the commit.

        Raises:
            GTRError: Another writer is at work, the folder holds other things, or an index without `overwrite`.
            IndexFormatError: Without `create`, as in `read_manifest`.
        """
        with ExitStack() as stack:
            try:
                transaction = self._enter(stack, create, overwrite)
            except OSError as error:
                if error.errno not in _UNFIT_PLACE:
                    raise
                remedy = "give another folder" if create else "see who may write it"
                raise GTRError(f"{self.path} can't be written: {error.strerror}; {remedy}") from error
            yield transaction

    def copy_to(self, target: str | os.PathLike[str], overwrite: bool = False) -> Manifest:
        """Copies the newest state into a folder of its own, which becomes an index at the end and not before.

        Args:
            target: The folder to make.
            overwrite: Allows the place of an existing index.

        Returns:
            The manifest of the copy.

        Raises:
            GTRError: As in `writer`.
            IndexFormatError: As in `read_manifest`, or a file that doesn't have its checksum.
        """
        if self.path.resolve() == Path(target).resolve():
            raise GTRError(f"{self.path} can't be copied onto itself; give another folder")
        with IndexFolder(target).writer(create=True, overwrite=overwrite) as transaction:
            copy = partial(transaction.copy, self.path)
            return transaction.commit(self.open_snapshot(lambda manifest: manifest.with_files(copy)))

    def _enter(self, stack: ExitStack, create: bool, overwrite: bool) -> Transaction:
        """Begins a transaction that ends with the stack."""
        self._check_place(create, overwrite)
        for folder in [folder for folder in (self.path, *self.path.parents) if not folder.exists()][::-1]:
            folder.mkdir(exist_ok=True)
            stack.callback(_remove_if_empty, folder)
        stack.enter_context(writer_lock(self.path))
        stack.callback(self._leave_no_lock)
        # Another writer may have committed before the lock was ours.
        self._check_place(create, overwrite)
        transaction = Transaction(self.path, self._current())
        transaction.sweep()
        stack.callback(transaction.sweep)
        return transaction

    def _current(self) -> Manifest | None:
        try:
            return self._parse() if self.exists() else None
        except (DamagedManifestError, NewerFormatError):
            return None

    def _leave_no_lock(self) -> None:
        """Deletes the lock file, which is held, where it is all that there is."""
        if [path.name for path in self.path.iterdir()] == [LOCK_NAME]:
            (self.path / LOCK_NAME).unlink()

    def _check_place(self, create: bool, overwrite: bool) -> None:
        """Refuses a folder that holds no index for a change, or must not be filled by a build."""
        if not create:
            self.read_manifest()
            return
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise GTRError(f"{self.path} is a file; give a folder for the index")
        names = {path.name for path in self.path.iterdir()}
        if MANIFEST_NAME in names:
            try:
                self._parse()
            except NewerFormatError:
                pass
            except DamagedManifestError:
                if not _left_by_a_build(names):  # anything may be called so
                    raise
            if not overwrite:
                raise GTRError(
                    f"{self.path} already holds an index; give --overwrite to replace it, or another folder to --out"
                )
        elif names and not _left_by_a_build(names):
            raise GTRError(
                f"{self.path} holds other things ({min(names)}) and no index; give --out a new or an empty folder"
            )

    def _parse(self) -> Manifest:
        """The newest manifest, its files unchecked."""
        build = f"build one with `gtr index SOURCE --out {shlex.quote(str(self.path))}`"
        try:
            return Manifest.from_bytes((self.path / MANIFEST_NAME).read_bytes(), str(self.path))
        except FileNotFoundError:
            if not self.path.exists():
                raise IndexFormatError(f"there is no folder {self.path}; {build}") from None
            if _left_by_a_build({path.name for path in self.path.iterdir()}):
                raise IndexFormatError(
                    f"there is no index at {self.path} yet: an interrupted build is there; run the same command "
                    f"again to go on (or restore its {MANIFEST_NAME}, if it was complete)"
                ) from None
            raise IndexFormatError(f"there is no index at {self.path}; {build}") from None
        except NotADirectoryError:
            raise IndexFormatError(f"{self.path} is not a folder; give the folder of an index") from None
        except OSError as error:
            raise IndexFormatError(
                f"the index at {self.path} can't be read: {error.strerror}; check who may read its {MANIFEST_NAME}"
            ) from error

    def _check_files(self, manifest: Manifest) -> None:
        for entry in manifest.entries():
            self._check_file(entry)

    def _check_file(self, entry: FileEntry) -> None:
        path, remedy = self.file(entry), _REMEDY
        try:
            status = path.lstat()
        except FileNotFoundError:
            raise IndexFormatError(f"{path} is missing from the index; {remedy}") from None
        if not stat.S_ISREG(status.st_mode):
            raise IndexFormatError(f"{path} is a link or a folder where the index has a file; {remedy}")
        if status.st_size != entry.size:
            raise IndexFormatError(f"{path} must have {entry.size:,} bytes but has {status.st_size:,}; {remedy}")

    def _check_sum(self, entry: FileEntry, stage: Stage) -> None:
        digest = hashlib.sha256()
        with self.file(entry).open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                stage.advance(len(chunk))
        if digest.hexdigest() != entry.checksum:
            raise IndexFormatError(f"{self.file(entry)} is damaged: its checksum is not the manifest's; {_REMEDY}")


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # it holds an index, or what an interrupted build keeps
        folder.rmdir()


def _left_by_a_build(names: set[str]) -> bool:
    return LOCK_NAME in names or any(is_ours(name) for name in names)
