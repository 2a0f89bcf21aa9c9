# Everything a newcomer needs: `make demo` and `make test` set themselves up in .venv. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
NATIVE := $(shell command -v cargo 2>/dev/null)
NATIVE_SOURCES := $(wildcard native/*.toml native/Cargo.lock native/*/Cargo.toml native/*/*.rs native/*/src/*.rs)
NATIVE_SOURCES += $(wildcard native/*/src/*/*.rs native/*/src/*/*.txt native/*/src/*/*/*.rs interlock/engine/policy/nfkc.txt)
NATIVE_SOURCES += $(wildcard interlock/engine/analysis/grammars/[a-z]*.json)

CLAUDE := build/claude-code
CLAUDE_VERSION := 2.1.332

# where Python is told to keep no compiled modules, every process of a demo or a test would compile all of them again
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test test-fast test-sweeps bench claude-code lint native-test clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is not here; install Python 3.11 or later, or say PYTHON=..."; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: Python 3.11 or later is needed; say PYTHON=python3.12"; exit 2; }
	@echo "setting up $(VENV) (about a minute the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --upgrade "pip>=25.1"
	@$(PY) -m pip install --quiet --editable ".[all]" --group dev
	@touch $@

$(VENV)/.native: $(VENV)/.installed $(NATIVE_SOURCES)
ifneq ($(NATIVE),)
	@echo "building interlock-native"
	@$(PY) -m pip install --quiet --force-reinstall --no-deps ./native || echo "interlock-native did not build; going on without it"
endif
	@touch $@

setup: $(VENV)/.native ## install everything into .venv
	@$(PY) -c 'from interlock.native.availability import availability; print(availability().sentence)'

demo: $(VENV)/.native ## the whole loop on this machine: publish, log, subscribe, guard, count, collect
	@$(VENV)/bin/interlock mesh demo

test: setup ## the whole test suite
	@$(PY) -m pytest -n auto --dist loadfile

test-fast: setup ## the test suite without the slow tests
	@$(PY) -m pytest -n auto --dist loadfile -m "not slow"

test-sweeps: setup ## kill -9 and full disks at every single write, of which `make test` visits some
	@INTERLOCK_SWEEP=all $(PY) -m pytest -n auto --dist loadfile -m sweep

bench: setup ## what a guarded call costs, against what one could pick instead (bench/METHOD.md)
	@$(PY) -m pip install --quiet --group bench || echo "cedarpy is not here; going on without it"
	@$(PY) -m bench

claude-code: ## bring the real Claude Code from npm into build/, for the tests that start it
	@mkdir -p $(CLAUDE)
	@echo '{"private": true}' > $(CLAUDE)/package.json
	@cd $(CLAUDE) && npm install --silent --no-audit --no-fund @anthropic-ai/claude-code@$(CLAUDE_VERSION)

lint: setup ## ruff, mypy --strict, clippy
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy interlock tests bench
ifneq ($(NATIVE),)
	@cd native && cargo clippy --quiet --all-targets -- -D warnings && cargo fmt --check
endif

native-test: ## cargo test
	@cd native && cargo test --quiet

clean: ## remove what was built
	@rm -rf $(VENV) build dist native/target
