"""What an index consists of: the files by segment and role, with their sizes and checksums, and how it was made."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gtr_gpu.errors import IndexFormatError

FORMAT_NAME = "gtr-gpu index"
FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"

# Name, generation and random part of every file that a writer makes; nothing else is ever named, opened or deleted.
FILE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}-[0-9]{6,12}-[0-9a-f]{8}\.(arrow|safetensors)")

Json = dict[str, Any]


class _ForeignError(ValueError):
    """A manifest that this library never wrote."""


@dataclass(frozen=True)
class FileEntry:
    """One immutable file of an index.

    Attributes:
        name: Its name in the folder.
        size: Its bytes.
        checksum: Its SHA-256, in hex.
    """

    name: str
    size: int
    checksum: str


@dataclass(frozen=True)
class Segment:
    """Some tables of an index, in files of their own.

    Attributes:
        name: The segment's name, unique in the index.
        n_tables: Its tables, removed ones included.
        files: Its files by role, such as `tables`, `features` and `relations`.
    """

    name: str
    n_tables: int
    files: Mapping[str, FileEntry]


@dataclass(frozen=True)
class Manifest:
    """One state of an index, complete: whoever holds it knows every file to open.

    `Transaction.commit` sets `generation`, `updated`, `library_version` and `format_version`, and `created` if empty.

    Attributes:
        config: The knobs of the build.
        encoder: Name, fingerprint, dimension and whatever else says which encoder, and which spaCy pipeline beside it,
            made the features.
        counts: Numbers of tables and the like.
        segments: The tables, in index order.
        files: Index-wide files by role.
        summary: What the last build or change reported.
        generation: 1 for the first state, one more with each commit.
        created: When the index was built, ISO 8601 in UTC.
        updated: When this state was committed.
        library_version: The gtr-gpu that wrote it.
        format_version: The layout; a reader refuses one newer than its own.
    """

    config: Json = field(default_factory=dict)
    encoder: Json = field(default_factory=dict)
    counts: Json = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    summary: Json = field(default_factory=dict)
    generation: int = 0
    created: str = ""
    updated: str = ""
    library_version: str = ""
    format_version: int = FORMAT_VERSION

    def entries(self) -> Iterator[FileEntry]:
        """All files: the segments' in order, then the index-wide ones."""
        for segment in self.segments:
            yield from segment.files.values()
        yield from self.files.values()

    def with_files(self, change: Callable[[FileEntry], FileEntry]) -> Manifest:
        """The same state with every file changed into another, in the order of `entries`."""
        segments = tuple(
            replace(segment, files={role: change(entry) for role, entry in segment.files.items()})
            for segment in self.segments
        )
        return replace(self, segments=segments, files={role: change(entry) for role, entry in self.files.items()})

    def to_bytes(self) -> bytes:
        """The manifest as indented JSON, with a checksum of all the rest.

        Raises:
            ValueError: A number that JSON has no word for (NaN, infinity).
        """
        values = {"format": FORMAT_NAME} | asdict(self)
        values["checksum"] = _checksum(values)
        return (json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(
            "utf-8", "surrogatepass"
        )

    @classmethod
    def from_bytes(cls, data: bytes, folder: str) -> Manifest:
        """Reads what `to_bytes` wrote.

        Args:
            data: The bytes of `manifest.json`.
            folder: The index, for messages.

        Raises:
            IndexFormatError: The text is truncated, changed, foreign or of a newer format.
        """
        try:
            values = json.loads(data.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            raise DamagedManifestError(folder, "is truncated or not JSON") from None
        try:
            if not isinstance(values, dict) or values.get("format") != FORMAT_NAME:
                raise _ForeignError(f'it does not say "format": "{FORMAT_NAME}"')
            version = _typed(values, "format_version", int)
            if version > FORMAT_VERSION:
                raise NewerFormatError(
                    f"{folder} was written by gtr-gpu {values.get('library_version')} in format {version}; this "
                    f"library reads format {FORMAT_VERSION}: upgrade gtr-gpu"
                )
            if version < 1:
                raise _ForeignError(f"it has format version {version}")
            if values.pop("checksum", None) != _checksum(values):
                raise DamagedManifestError(folder, "does not have its own checksum, so it was changed or is damaged")
            return cls(
                config=_typed(values, "config", dict),
                encoder=_typed(values, "encoder", dict),
                counts=_typed(values, "counts", dict),
                segments=tuple(_segment(item) for item in _typed(values, "segments", list)),
                files=_files(values),
                summary=_typed(values, "summary", dict),
                generation=_typed(values, "generation", int),
                created=_typed(values, "created", str),
                updated=_typed(values, "updated", str),
                library_version=_typed(values, "library_version", str),
                format_version=version,
            )
        except _ForeignError as error:
            raise IndexFormatError(
                f"{folder} is not an index of gtr-gpu: its {MANIFEST_NAME} was written by something else ({error}); "
                "give the folder of an index"
            ) from None


class DamagedManifestError(IndexFormatError):
    """A manifest that is not as it was written, as after a disk's failure; a build may replace it."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(
            f"{folder} holds a damaged index: its {MANIFEST_NAME} {reason}; restore it, or build the index anew with "
            f"`gtr index SOURCE --out {shlex.quote(folder)} --overwrite`"
        )


class NewerFormatError(IndexFormatError):
    """A manifest of a newer library; a build may replace it."""


def _checksum(values: Json) -> str:
    """The SHA-256, in hex, of a manifest's values as compact ASCII JSON in their order, however a file is laid out."""
    text = json.dumps(values, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _typed(values: Any, name: str, kind: type) -> Any:  # noqa: ANN401 (JSON)
    if not isinstance(values, dict) or type(values.get(name)) is not kind:
        raise _ForeignError(f"its {name!r} is not of type {kind.__name__}")
    return values[name]


def _segment(values: object) -> Segment:
    return Segment(_typed(values, "name", str), _typed(values, "n_tables", int), _files(values))


def _files(values: object) -> dict[str, FileEntry]:
    return {role: _entry(item) for role, item in _typed(values, "files", dict).items()}


def _entry(values: object) -> FileEntry:
    entry = FileEntry(*(_typed(values, name, kind) for name, kind in (("name", str), ("size", int), ("checksum", str))))
    # A name that leads out of the folder would let a foreign manifest have any file opened.
    if not FILE_NAME.fullmatch(entry.name):
        raise _ForeignError(f"it names the file {entry.name!r}")
    return entry
