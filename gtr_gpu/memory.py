"""What an error says of the machine's memory."""

from __future__ import annotations

_TORCH_TEXTS = ("can't allocate memory", "not enough memory", "out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's, or torch's on any device, which it tells by a class or by the text alone.

    Needs no torch, so that a command that never loaded it can ask.
    """
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in text for part in _TORCH_TEXTS)
