"""The index on disk: a folder of immutable files and one manifest that names them, replaced at once by each change."""

from gtr_gpu.storage.arrays import Layout, check_arrays, pack_texts, read_arrays, unpack_texts, write_arrays
from gtr_gpu.storage.folder import ENCODINGS_NAME, IndexFolder
from gtr_gpu.storage.manifest import FORMAT_VERSION, FileEntry, Manifest, Segment
from gtr_gpu.storage.transaction import Transaction

__all__ = [
    "ENCODINGS_NAME",
    "FORMAT_VERSION",
    "FileEntry",
    "IndexFolder",
    "Layout",
    "Manifest",
    "Segment",
    "Transaction",
    "check_arrays",
    "pack_texts",
    "read_arrays",
    "unpack_texts",
    "write_arrays",
]
