# Every target sets up .venv by itself; nothing but Python 3.11+, make and gcc is assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One compute thread a test worker: pytest -n 2 already uses both cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 --dist worksteal
PATHS := conftest.py src tests examples extension_templates docs tools experiments

.DEFAULT_GOAL := help
# Every target but the stamp is a command.
.PHONY: $(shell grep -oE '^[a-z-]+:' Makefile | tr -d :)

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## create .venv and install everything the tests and the demo need

$(STAMP): pyproject.toml experiments/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e experiments
	@touch $@

demo: setup  ## fit on built-in data with known truth and write a picture of what was found
	$(BIN)/python -m usnrt.demo

test: setup  ## everything CI runs
	$(MAKE) --no-print-directory --jobs 2 --output-sync lint types
	$(MAKE) --no-print-directory test-fast

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
	USNRT_NEED_BROWSER=1 $(PYTEST) tests/reporting

test-examples: setup  ## the examples with all the packages that they are about
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[examples]'
	$(PYTEST) -m 'slow or not slow' tests/examples

docs: setup  ## the site, into site/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 MPLBACKEND=Agg $(BIN)/mkdocs build --quiet
	$(BIN)/python docs/tools/site_links.py site

test-docs: docs  ## every page of the site in headless Chromium, on a desktop and on a phone
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	USNRT_SITE=site USNRT_NEED_BROWSER=1 $(PYTEST) tests/test_site_browser.py

numbers: setup  ## write the numbers of README and docs that come from the records
	$(BIN)/python docs/tools/site_numbers.py

# Numba's kernels run a second time as Python, where coverage sees their lines, and are compiled anew by a third run.
KERNEL_TESTS := tests/tree/test_sorting.py tests/tree/test_criteria.py tests/tree/test_split.py tests/tree/test_structure.py \
	tests/nn tests/memory/test_search.py tests/paper/baselines/test_forests.py tests/test_persistence_models.py \
	-k 'sorting or criteria or split or structure or hidden0 or compiled_quantiles or 5-3 or selection or summaries or underflow \
	or partition or number_of_threads or every_format_version'
# there coverage itself cannot write its file
NO_COVERAGE := tests/cli/test_cli_bad_input.py::test_a_disk_that_fills_up_leaves_the_old_file
COVERAGE := $(ONE_THREAD) $(BIN)/python -m coverage
coverage: setup  ## lines and branches that the quick tests run
	$(COVERAGE) erase
	$(COVERAGE) run -m pytest -q -n 2 --dist worksteal --deselect $(NO_COVERAGE)
	NUMBA_DISABLE_JIT=1 PYTHONPATH=tools $(COVERAGE) run -m pytest -q -n 2 -p plain_kernels $(KERNEL_TESTS)
	cache=$$(mktemp -d) && NUMBA_CACHE_DIR=$$cache $(COVERAGE) run -m pytest -q tests/nn/test_forward.py; rm -rf $$cache
	$(COVERAGE) combine --quiet
	$(COVERAGE) report --skip-covered

layers: setup  ## draw the layers of the package from its import graph
	$(BIN)/python docs/layers.py

format: setup  ## let ruff put the code in order
	$(BIN)/ruff check --fix $(PATHS)
	$(BIN)/ruff format $(PATHS)

soak: setup  ## an hour of random sequences with random tables against invariants; goes on if it was stopped
	$(ONE_THREAD) $(BIN)/python experiments/hardening/soak.py --minutes 60 --log soak.jsonl

harden: setup  ## damaged files and inputs, killed processes, leaks, bad disks (hours; as root for the disks)
	for script in model_files csv_files onnx_inputs kills writers leaks disks; do \
		$(ONE_THREAD) $(BIN)/python experiments/hardening/$$script.py || exit 1; done

bench: setup  ## speed against peers; each prints a ratio last and appends it to experiments/benchmarks/history.jsonl
	for script in $(filter-out %/history.py %/peer_torch.py %/speed_page.py, $(wildcard experiments/benchmarks/*.py)); do $(BIN)/python $$script || exit 1; done
	$(BIN)/python experiments/benchmarks/speed_page.py

api: setup  ## renew the snapshot of the public API that the tests compare with
	$(BIN)/python tests/data/make_public_api.py

# One job alone: make release-check RELEASE='--python 3.11 --versions lowest --tests tests/estimators/test_regressor.py'
release-check: setup  ## build, install outside the checkout, and test the lowest and the newest versions on each Python
	$(BIN)/python tools/release_check.py $(RELEASE)

clean:  ## remove the environment and what tools left
	rm -rf $(VENV) build dist src/*.egg-info experiments/src/*.egg-info .pytest_cache .mypy_cache .ruff_cache demo-output site

# Exit code 1 of a run is that of failed cells, which the page lists; any other, as of Ctrl-C, ends the loop.
# One core a cell; a second `make paper` beside the first shares its work. Stop at any time and run it again to go on.
# `make paper CLUSTER=tcp://host:8786` sends the cells to the workers of a Dask cluster instead.
EXPERIMENTS := $(ONE_THREAD) $(BIN)/python -m usnrt_experiments
WORKERS = $(if $(CLUSTER),--cluster $(CLUSTER),--jobs -1)

paper: setup  ## every table and figure of the results page that the data in USNRT_DATA allows (ten to twenty core hours)
	for preset in paper ablation stability coverage small; do \
		$(EXPERIMENTS) run --preset $$preset $(WORKERS) || [ $$? -eq 1 ] || exit; done; $(EXPERIMENTS) page

paper-quick: setup  ## a part of them in under 15 minutes, into paper-quick/
	$(EXPERIMENTS) run --preset quick $(WORKERS) --store paper-quick; $(EXPERIMENTS) page --store paper-quick
