#!/usr/bin/env bash
# On a machine with a GPU, in under ten minutes and without a network: benchmarks/gpu.sh [--quick] [--device cpu]
# It needs torch, CuPy, NumPy, SciPy, scikit-learn and pytest, and nothing that is installed of this project.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" OMP_WAIT_POLICY=PASSIVE
exec "${PYTHON:-python3}" benchmarks/gpu.py "$@"
