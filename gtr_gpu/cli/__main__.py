"""`python -m gtr_gpu.cli`, for where the command `gtr` is not on the path."""

import sys

from gtr_gpu.cli import main

sys.exit(main())
