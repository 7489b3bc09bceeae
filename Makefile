# recserve: `make serve` and `make test` need Python >= 3.11, make and the package index, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VAR ?= var
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help install install-test serve test check perf lock clean

help: ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

install: $(VENV)/.installed ## make .venv from the lock file

install-test: $(VENV)/.installed-test

serve: $(VENV)/.installed ## build the demo release if there is none, then serve on 127.0.0.1:8000 (PORT changes it)
	@test -e $(VAR)/releases/active || $(BIN)/recserve bootstrap --demo --var $(VAR)
	@exec $(BIN)/recserve serve --var $(VAR)

test: $(VENV)/.installed-test ## the whole suite, against Valkey processes that it starts itself
	@mkdir -p $(VAR); nice -n 5 $(BIN)/pytest -m long >$(VAR)/long.log 2>&1 & long=$$!; status=0; \
	    $(BIN)/pytest -m "not long" || status=1; \
	    echo "what takes minutes, beside the others:"; wait $$long || status=1; cat $(VAR)/long.log; \
	    exit $$status

check: $(VENV)/.installed-test ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

perf: $(VENV)/.installed-test ## measure against the floor; writes var/perf.json
	$(BIN)/python -m perf

lock: ## rewrite the lock files (needs uv)
	uv pip compile pyproject.toml --extra demo --extra build $(LOCK) -o requirements.lock
	uv pip compile pyproject.toml --all-extras -c requirements.lock $(LOCK) -o requirements-test.lock

LOCK := --universal --generate-hashes --no-emit-index-url --no-header --no-annotate -q

clean: ## remove .venv, caches and everything made at run time
	rm -rf $(VENV) $(VAR) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info build

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) tools/preflight.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-test: requirements-test.lock $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-test.lock
	@touch $@
