# `make` lists what there is. Everything is made in this folder: .venv and .cache; only `servers` installs system packages.

PYTHON ?= python3
PYTEST_FLAGS ?=
# Processes for the unit tests; the integration tests share their servers and run in one.
WORKERS ?= auto

VENV := .venv
STAMP := $(VENV)/.installed
RUN := $(VENV)/bin/python -m

SYSTEM_PATH := $(PATH)
export PATH := $(CURDIR)/$(VENV)/bin:$(SYSTEM_PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup servers test test-unit test-integration lint demo bench bench-aa clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv and install the package with its development tools

# $(PYTHON) must be the system's here, not the one of the .venv that it is to make.
$(STAMP): export PATH := $(SYSTEM_PATH)
$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) was not found; install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed and $(PYTHON) is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(VENV)/bin/python -c '' 2>/dev/null && $(VENV)/bin/python -m pip --version >/dev/null 2>&1 || { \
		$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
			$(PYTHON) -m tests.servers.apt $$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])') || exit 1; \
		echo "setup: creating $(VENV)"; \
		$(PYTHON) -m venv --clear $(VENV); }
	@echo "setup: installing streammetrics and its development tools"
	@$(RUN) pip install --quiet --editable '.[dev]'
	@touch $@

servers: setup ## install what the integration tests and benchmarks run against: Redis, Prometheus, Java, Kafka
	@$(RUN) tests.servers.install

test: setup servers lint test-unit test-integration ## everything: servers, lint, unit tests, integration tests

test-unit: setup ## the tests that need no server, with the examples of the docstrings (under a minute)
	$(RUN) pytest --numprocesses $(WORKERS) --ignore tests/integration $(PYTEST_FLAGS)

test-integration: setup ## the tests against real servers (after `make servers`)
	$(RUN) pytest tests/integration $(PYTEST_FLAGS)

lint: setup ## style, format, types, direction of imports
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy --strict --package streammetrics
	$(VENV)/bin/lint-imports

demo: setup ## simulated traffic through the whole engine: live numbers on the terminal and on /metrics
	@$(VENV)/bin/streammetrics demo

bench: setup servers ## events per second, end to end and engine alone, on this machine
	@$(RUN) tests.bench

bench-aa: setup ## how often experiments without an effect alarm, and how soon a drop is found (minutes)
	@$(RUN) tests.bench.aa

clean: ## delete everything that make has made here, the downloaded Kafka too
	rm -rf $(VENV) .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find streammetrics tests -type d -name __pycache__ -prune -exec rm -rf {} +
