# `make` lists the targets. Everything is created in this folder, in .venv and .cache. Only `servers` installs system packages.

PYTHON ?= python3
PYTEST_FLAGS ?=
DEMO_FLAGS ?=
# Modules that `make mutants` changes; all if empty.
GROUPS ?=
# Schedules of `make simulate`.
SEEDS ?= 10000
# Records of `make fuzz`.
RECORDS ?= 100000
# Minutes of `make partitions` (30 without it) and `make soak` (60).
MINUTES ?=
# Seed of `make fuzz` (1 without it), `make partitions` and `make soak` (a random one).
SEED ?=
# Another Python with the extra `docs`, for a machine without the development tools.
DOCS_PYTHON ?=
# Processes for the tests that need no server.
WORKERS ?= auto
# Processes for the integration tests. Each file runs in one of them, with servers of its own. Much of their time is waiting.
SERVER_WORKERS ?= 4

VENV := .venv
STAMP := $(VENV)/.installed
# The demo needs the package and nothing else, so it does not wait for the development tools.
DEMO_VENV := .cache/demo
DEMO_STAMP := $(DEMO_VENV)/.installed
RUN := $(VENV)/bin/python -m

SYSTEM_PATH := $(PATH)
export PATH := $(CURDIR)/$(VENV)/bin:$(SYSTEM_PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# The tests start hundreds of interpreters, so compiled modules are kept.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup servers golden test test-unit test-commands test-golden test-deploy test-integration test-timing test-wheel test-lowest lint lint-deploy dist docs demo story stack stack-regress stack-down simulate simulate-bugs partitions soak fuzz mutants bench bench-aa bench-metrics clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv and install the package with its development tools

# Create the environment $(1) unless it works already. $(PYTHON) must be the system's here, not the one of an environment.
define create_venv
@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) was not found; install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "error: Python 3.11 or newer is needed and $(PYTHON) is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.12" >&2; exit 1; }
@$(1)/bin/python -c '' 2>/dev/null && $(1)/bin/python -m pip --version >/dev/null 2>&1 || { \
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		$(PYTHON) -m tests.tools.servers.apt $$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])') || exit 1; \
	echo "setup: creating $(1)"; \
	$(PYTHON) -m venv --clear $(1); }
endef

$(STAMP) $(DEMO_STAMP): export PATH := $(SYSTEM_PATH)

$(STAMP): pyproject.toml
	$(call create_venv,$(VENV))
	@echo "setup: installing streammetrics and its development tools"
	@$(RUN) pip install --quiet --editable '.[dev,deploy,docs]'
	@touch $@

$(DEMO_STAMP): pyproject.toml
	$(call create_venv,$(DEMO_VENV))
	@echo "demo: installing streammetrics"
	@$(DEMO_VENV)/bin/python -m pip install --quiet --editable .
	@touch $@

servers: setup ## install what the integration tests and benchmarks run against: Redis, Prometheus, Alertmanager, Kafka, a schema registry, Chromium, npm
	@$(RUN) tests.tools.servers.install

golden: setup ## install the libraries that the metric core is compared with, in an environment of their own (2.4 GB)
	@$(RUN) tests.metrics.golden.environment

test: setup servers golden ## everything: the line for a newcomer, and what CI runs
	@$(RUN) tests.tools.parts test-integration "lint test-golden test-deploy test-commands test-unit"

# Those of the tests that need something installed beyond pip.
APART := --ignore tests/integration --ignore tests/deploy --ignore tests/metrics/golden

test-unit: setup ## the tests that need no server, with the examples of the docstrings, and 3,000 simulated schedules (minutes)
	$(RUN) pytest --numprocesses $(WORKERS) --dist worksteal $(APART) --ignore tests/cli $(PYTEST_FLAGS)

test-commands: setup ## each command as people start it, without servers (a minute or two)
	$(RUN) pytest tests/cli --numprocesses $(WORKERS) --dist worksteal $(PYTEST_FLAGS)

test-golden: setup golden ## the metric core against trec_eval, scikit-learn, ranx, LensKit, torchmetrics and RecTools themselves
	$(RUN) pytest tests/metrics/golden $(PYTEST_FLAGS)

test-deploy: setup ## image, Compose file, chart, units, workflows and package, by their own linters (after `make servers`)
	$(RUN) pytest tests/deploy $(PYTEST_FLAGS)

test-timing: setup servers ## the tests that check wall-clock time, one after the other (needs a quiet machine)
	$(RUN) pytest tests -m timing $(PYTEST_FLAGS)

test-integration: setup ## the tests against real servers (after `make servers`)
	$(RUN) pytest tests/integration --numprocesses $(SERVER_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_FLAGS)

lint: setup ## style, format, types, direction of imports
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy --strict --package streammetrics --package tests.tools.bench --package tests.tools.simulation --package tests.tools.faults
	$(VENV)/bin/lint-imports

lint-deploy: setup ## the chart rendered by Helm, actionlint, Compose's own reader (builds them the first time: Go, minutes)
	@$(RUN) tests.deploy.linters

dist: setup ## the sdist and the wheel, in dist
	rm -rf dist
	$(RUN) build --no-isolation --outdir dist

test-wheel: setup dist ## the tests that need no server against the wheel of dist, away from the sources
	$(RUN) tests.deploy.wheel dist/*.whl

test-lowest: ## the tests that need no server with the least versions that pyproject.toml allows (needs uv)
	$(PYTHON) -m venv --clear .cache/lowest
	uv pip install --quiet --python .cache/lowest/bin/python --resolution lowest-direct --editable '.[dev]'
	.cache/lowest/bin/python -m pytest --numprocesses $(WORKERS) $(APART) $(PYTEST_FLAGS)

docs: $(if $(DOCS_PYTHON),,setup) ## the documentation site with search, in .cache/site; fails on a broken link
	@NO_MKDOCS_2_WARNING=1 $(or $(DOCS_PYTHON),$(VENV)/bin/python) -m mkdocs build --strict --quiet --config-file .github/mkdocs.yml
	@echo "docs: .cache/site/index.html"

demo: $(if $(wildcard $(STAMP)),setup,$(DEMO_STAMP)) ## simulated traffic through the whole engine: live numbers on the terminal and on /metrics
	@$(if $(wildcard $(STAMP)),$(VENV),$(DEMO_VENV))/bin/streammetrics demo $(DEMO_FLAGS)

stack: setup servers ## Kafka, Redis, Prometheus, Alertmanager, workers and an A/B test on this machine, without containers
	@$(RUN) tests.tools.servers.stack_command up

stack-regress: ## make the treatment of the stack worse, and wait for the alert (a minute or two)
	@$(RUN) tests.tools.servers.stack_command regress

stack-down: ## stop the stack and delete its files
	@$(RUN) tests.tools.servers.stack_command down

story: setup servers ## simulated experiments through real servers: a drop, no effect, a broken split, and a bad ranker that is stopped at 5 %
	@mkdir -p .cache/story
	@$(RUN) tests.tools.story .cache/story

simulate: setup ## the whole process in simulated schedules of faults, compared with the oracle: make simulate SEEDS=10000
	@$(RUN) tests.tools.simulation --seeds $(SEEDS)

fuzz: setup ## damaged records and files of every form through the decoders and a worker: make fuzz RECORDS=1000000
	@$(RUN) tests.tools.fuzz $(RECORDS) --seed $(or $(SEED),1)

FAULTS = $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

partitions: setup servers ## links between real brokers, Redis and workers are cut, one-way, lossy and slow; then numbers equal a replay: MINUTES=30
	@$(RUN) tests.tools.faults partitions $(FAULTS)

soak: setup servers ## a fault of a real process each minute; memory stays flat and numbers equal a replay: MINUTES=60
	@$(RUN) tests.tools.faults soak $(FAULTS)

mutants: setup ## small changes of the modules that decide, and those that no test notices: make mutants GROUPS="commit gate" (minutes each)
	@$(RUN) tests.tools.mutants $(GROUPS)

simulate-bugs: setup ## how soon the simulation finds each of the bugs that are kept as patches (minutes)
	@$(RUN) tests.tools.simulation.bugs

bench: setup servers ## events per second, end to end and engine alone, on this machine
	@$(RUN) tests.tools.bench

bench-aa: setup ## how often experiments without an effect raise an alarm, and how soon a drop is found (hours)
	@$(RUN) tests.tools.bench.aa

# RecTools asks for an older numpy than ours and works with ours, so the rivals have an environment of their own, where it comes without
# what it asks for: a core that is measured on a numpy that it does not support is measured wrongly.
bench-metrics: setup ## the metric core beside ranx, pytrec_eval, scikit-learn and RecTools (minutes)
	@test -x .cache/rivals/bin/python || $(RUN) venv .cache/rivals
	@.cache/rivals/bin/python -m pip install --quiet 'numpy>=2' 'pandas<3' ranx pytrec_eval-terrier scikit-learn click rich attrs pydantic typeguard
	@.cache/rivals/bin/python -m pip install --quiet --no-deps rectools
	@PYTHONPATH=. .cache/rivals/bin/python -m tests.tools.bench.metrics

clean: ## delete everything that make created here, the downloaded Kafka too
	rm -rf $(VENV) .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find streammetrics tests -type d -name __pycache__ -prune -exec rm -rf {} +
