# Every target sets up .venv by itself; nothing but Python 3.11+, make and gcc is assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One compute thread a test worker: pytest -n 2 already uses both cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 --dist worksteal
PATHS := src tests benchmarks examples docs hardening

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types test-fast test-slow test-real test-browser test-examples layers format bench clean soak harden

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## create .venv and install everything the tests and the demo need

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup  ## fit on built-in data with known truth and write a picture of what was found
	$(BIN)/python -m usnrt.demo

test: lint types test-fast  ## everything CI runs

lint: setup
	$(BIN)/ruff check $(PATHS)
	$(BIN)/ruff format --check $(PATHS)
	$(BIN)/lint-imports --no-logo --no-cache

types: setup
	$(BIN)/mypy

test-fast: setup
	$(PYTEST)

test-slow: setup  ## long statistical studies
	$(PYTEST) -m slow

test-real: setup  ## studies on the real data sets; USNRT_DATA names their folder
	$(PYTEST) -m real

test-browser: setup  ## the report in headless Chromium, which must be installed (Debian: apt-get install chromium-driver)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	USNRT_NEED_BROWSER=1 $(PYTEST) tests/report

test-examples: setup  ## the examples with all the packages that they are about
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[examples]'
	$(PYTEST) -m 'slow or not slow' tests/examples

layers: setup  ## draw the layers of the package from its import graph
	$(BIN)/python docs/layers.py

format: setup  ## let ruff put the code in order
	$(BIN)/ruff check --fix $(PATHS)
	$(BIN)/ruff format $(PATHS)

soak: setup  ## an hour of random sequences with random tables against invariants; goes on if it was stopped
	$(ONE_THREAD) $(BIN)/python hardening/soak.py --minutes 60 --log soak.jsonl

harden: setup  ## damaged files and inputs, killed processes, leaks, bad disks (hours; as root for the disks)
	for script in model_files csv_files onnx_inputs kills writers leaks disks; do \
		$(ONE_THREAD) $(BIN)/python hardening/$$script.py || exit 1; done

bench: setup  ## speed against peers; each prints a ratio last
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:  ## remove the environment and what tools left
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache demo-output

# One core a cell; a second `make paper` beside the first shares its work. Stop at any time and run it again to go on.
BENCH := $(ONE_THREAD) $(BIN)/python -m usnrt.bench

.PHONY: paper paper-quick
paper: setup  ## every table and figure of the paper that the data in USNRT_DATA allows (ten to twenty core hours)
	$(BENCH) run --preset paper --jobs -1; $(BENCH) run --preset ablation --jobs -1; $(BENCH) run --preset stability --jobs -1; $(BENCH) page

paper-quick: setup  ## a part of them in under 15 minutes, into paper-quick/
	$(BENCH) run --preset quick --jobs -1 --store paper-quick; $(BENCH) page --store paper-quick
