"""`python -m gtr_gpu.cli`, for where the command `gtr` is not on the path."""

import sys

from gtr_gpu.cli.app import main

sys.exit(main())
