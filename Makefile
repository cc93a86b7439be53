# `make help` lists the targets. `make PYTHON=python3.12 test` takes another Python, `make VENV=DIR test` another folder.
VENV ?= .venv
PYTHON ?= python3

bin := $(VENV)/bin
pip = $(bin)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint check bench

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

check: lint ## All of it: the slow tests too, and those for a GPU where there is one
	$(bin)/python -m pytest

# `make bench LIMIT=300` reads at most so many tables of a set: minutes and not hours. `make bench ONLY=kernels` runs one.
bench: $(VENV)/.bench ## Run the benchmarks
	@for script in $(if $(ONLY),benchmarks/$(ONLY).py,benchmarks/[a-z]*.py); do \
		echo "== $$script" && $(bin)/python $$script $(if $(LIMIT),--limit $(LIMIT)) || exit 1; \
	done

# One stamp for each set of packages, so that a second run installs nothing.
$(VENV)/.demo: extras := offline,demo,readers
$(VENV)/.dev: extras := dev
$(VENV)/.bench: extras := dev,bench
$(VENV)/.demo $(VENV)/.dev $(VENV)/.bench: pyproject.toml constraints.txt | $(bin)/python
	$(pip) '.[$(extras)]'
	@touch $@

$(bin)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "GTR-GPU needs Python 3.11 or later, \
	and $(PYTHON) is `$(PYTHON) --version 2>&1`: name another, as in make PYTHON=python3.12 demo" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
