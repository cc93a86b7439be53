"""`gtr` in a process of its own, with an encoder that costs nothing; a module, as a new process runs it by its path."""

import sys

import pytest
import torch
from index_fakes import install

from gtr_gpu.cli import main

if __name__ == "__main__":
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        install(patch)
        sys.exit(main())
