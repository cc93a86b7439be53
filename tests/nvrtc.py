"""NVIDIA's run-time compiler, which compiles for a GPU without one: the package nvidia-cuda-nvrtc by ctypes."""

import ctypes
import importlib.metadata
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_USAGE = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?"
    r"(?P<frame>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads\s.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Usage:
    """What one kernel takes of a GPU: registers of a thread, bytes of static shared memory, bytes of spills."""

    name: str
    registers: int
    shared: int
    spills: int


class CompilationError(Exception):
    """What the compiler says of a source that it refuses."""


def usages(log: str) -> list[Usage]:
    """Reads what ptxas says under -v."""
    return [
        Usage(
            found["name"],
            int(found["registers"]),
            sum(map(int, _SHARED.findall(found["rest"]))),
            int(found["stores"]) + int(found["loads"]),
        )
        for found in _USAGE.finditer(log)
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The compiler; None where its package is not installed."""
    for distribution in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            files = importlib.metadata.files(distribution) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if re.fullmatch(r"libnvrtc\.so\.\d+|nvrtc64_\d+_0\.dll", file.name):
                return ctypes.CDLL(str(Path(str(file.locate()))))
    return None


def compile_to_cubin(source: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """The binary of a source, and what the compiler says.

    Raises:
        CompilationError: The source doesn't compile.
    """
    nvrtc = library()
    assert nvrtc is not None
    program = ctypes.c_void_p()
    _call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"gtr.cu", 0, None, None)
    try:
        texts = [option.encode() for option in options]
        status = nvrtc.nvrtcCompileProgram(program, len(texts), (ctypes.c_char_p * len(texts))(*texts))
        log = _read(program, "ProgramLog").rstrip(b"\0").decode()
        if status != 0:
            raise CompilationError(log)
        return _read(program, "CUBIN"), log
    finally:
        _call("nvrtcDestroyProgram", ctypes.byref(program))


def _read(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    _call(f"nvrtcGet{what}", program, text)
    return text.raw


def _call(name: str, *arguments: object) -> None:
    status = getattr(library(), name)(*arguments)
    assert status == 0, f"{name} ended with {status}"
