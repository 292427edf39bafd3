PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNELS := $(wildcard src/tidelog/kernels/*.py)
ARGS ?=
# Tests start hundreds of processes: compiled modules are kept, also where the environment says otherwise.
unexport PYTHONDONTWRITEBYTECODE
# Tests wait half of the time (for syncs, brokers, processes): a small machine has time for one more.
WORKERS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n + 1 : n)))

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev browser pictures demo test test-slow soak coverage spark-classes mutants check format bench asan docs dist clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# Packages first, without compiling (TIDELOG_PURE); the kernels are compiled once, by the rule below.
INSTALL := TIDELOG_PURE=1 $(BIN)/python -m pip install -q --no-build-isolation

$(VENV)/.installed: pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q 'setuptools>=77' 'Cython>=3.3'
	$(INSTALL) -e '.[spark]'
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(INSTALL) -e '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(INSTALL) -e '.[bench]'
	@touch $@

$(VENV)/.kernels: $(VENV)/.installed $(KERNELS)
	$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

setup: $(VENV)/.kernels  ## make the virtual environment and compile the kernels

setup-dev: setup $(VENV)/.dev

browser:  ## install Debian's Chromium, which tests of pages need (as root)
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		{ apt-get update -q && apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; }

demo: setup  ## run a pipeline on a million events: write, read, find, verify, export, query
	$(BIN)/python examples/demo.py

pictures: setup-dev browser  ## make the pictures of the report in docs/images, in a browser
	$(BIN)/python -m tools.pictures

test: setup-dev  ## run the tests (a few minutes)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

spark-classes: $(VENV)/.spark-classes  ## keep Spark's classes where tests find them: Java starts sooner (test-slow does it)

$(VENV)/.spark-classes: $(VENV)/.kernels $(VENV)/.dev
	$(BIN)/python -m tests.spark.archive
	@touch $@

test-slow: setup-dev $(VENV)/.spark-classes  ## run the long tests: fuzzing, sanitizers, kills, brokers
	$(BIN)/python -m pytest -m "slow and not soak" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

soak: setup-dev  ## run the tests that take many minutes: a thread storm, the disks of whole clusters, fuzzing
	$(BIN)/python -m pytest -m soak -v --durations=0 --durations-min=1 $(ARGS)

$(VENV)/.coverage: $(VENV)/.dev
	$(BIN)/python -m pip install -q pytest-cov
	@touch $@

coverage: setup-dev $(VENV)/.coverage  ## run the tests and print which lines and branches they reach
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		--cov --cov-config=tools/coverage.ini --cov-report=term:skip-covered $(ARGS)

mutants: setup-dev  ## break the code that makes writes durable, line by line, and check that a test fails
	$(BIN)/python -m tests.durability.mutating $(ARGS)

check: setup-dev  ## lint, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup-dev  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup $(VENV)/.bench  ## compare the speed with Kafka's engine; ARGS="--only records --quick"
	$(BIN)/python -m benchmarks $(ARGS)

asan: setup-dev  ## run the decode tests on kernels compiled under AddressSanitizer
	$(BIN)/python tools/asan.py $(ARGS)

$(VENV)/.docs: $(VENV)/.installed
	$(INSTALL) -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs  ## build the site with the API reference into build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist:  ## build the source distribution and wheels, and try them in blank environments
	$(PYTHON) tools/dist.py $(ARGS)

clean:  ## remove what was built
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find src -name '*.so' -delete
