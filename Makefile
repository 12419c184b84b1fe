# Every target works from a bare checkout: Python 3.11 or newer, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=
BENCH ?=
ONLY ?=
AREA ?= access
SOAK_MINUTES ?= 20
FAULTS ?= all

.DEFAULT_GOAL := help
.PHONY: help demo test check properties soak faults mutants bench schema clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  PYTHON=python3.12 chooses the Python that .venv is made with."

demo: $(READY)  ## start everything, show the product at work, stop everything
	@$(BIN)/context-engine demo

test: $(READY)  ## every test; ARGS="-k name" for some, CONTEXT_TEST_KAFKA=maven or docker for Apache Kafka
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(READY)  ## ruff, mypy strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

properties: $(READY)  ## a long proof: AREA=access, freshness, model or fuzz; see docs/testing.md
	@AREA=$(AREA) $(BIN)/python -m pytest -q -s tests/properties/test_$(AREA).py $(ARGS)

soak: $(READY)  ## everything at once, workers killed, an audit beside it; SOAK_MINUTES=20
	@SOAK_MINUTES=$(SOAK_MINUTES) $(BIN)/python -m pytest -q -s tests/e2e/test_soak.py $(ARGS)

faults: $(READY)  ## everything broken under traffic, every id accounted for; FAULTS=killed,redis for some
	@FAULTS="$(FAULTS)" $(BIN)/python -m pytest -q -s tests/faults $(ARGS)

mutants: $(READY)  ## mutation testing, figures by file; ONLY=context_engine/keys for a part
	@$(BIN)/python tests/mutants.py $(ONLY) $(ARGS)

bench: $(READY)  ## the benchmarks beside their baselines; BENCH=hot,cold for some
	@$(BIN)/python -m tests.bench $(BENCH)

schema: $(READY)  ## write JSON Schemas, AsyncAPI and reference pages again
	@$(BIN)/context-engine schema
	@$(BIN)/python -m workers.reference

clean:  ## remove the virtual environment and everything made
	rm -rf $(VENV) build dist *.egg-info .context-engine .mypy_cache .ruff_cache .pytest_cache \
		.hypothesis .import_linter_cache mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no $(PYTHON). Install Python 3.11 or newer, or say: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$($(PYTHON) -V 2>&1); 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments; install its venv package (Debian: python3-venv)"; exit 1; }
	@echo "Installing into $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)
