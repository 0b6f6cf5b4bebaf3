# Needs Python >= 3.11 and make, nothing else: every target makes .venv and installs into it what it lacks.
#
#   make conform     do our caches keep the law? (exit status); what the suite finds in mlx-lm's caches is shown, not counted
#   make test        the tests of all four rooms
#   make lint        style, types, arrows between the rooms, and the spec's own checks
#   make prove       index arithmetic, proved for all sizes
#   make faults      every planted fault and mutant is caught
#   make bench       our caches beside mlx-lm's
#   make docs        the documentation site, in docs/_build/html; warnings and broken links are errors
#   make wheel       build dist/kvlaw-*.whl
#   make test-wheel  the same tests, against the wheel in dist/ instead of the checkout
#   make clean       forget the environment and what tools left behind
#
# PYTHON=python3.12 chooses the interpreter; PYTEST_ARGS="-n auto -k ring" and KVLAW_ARGS="--seed 7" are handed on.

PYTHON ?= python3
VENV ?= .venv
# What a file plays once for all of its tests is played in one process.
PYTEST_ARGS ?= -n auto --dist loadfile --no-loadscope-reorder
KVLAW_ARGS ?=

BIN := $(VENV)/bin
KVLAW := $(BIN)/kvlaw
PIP := $(BIN)/python -m pip --disable-pip-version-check

THEIRS := builtin:mlx_lm.KVCache builtin:mlx_lm.RotatingKVCache builtin:mlx_lm.ConcatenateKVCache \
  builtin:mlx_lm.QuantizedKVCache builtin:mlx_lm.BatchKVCache builtin:mlx_lm.BatchRotatingKVCache \
  builtin:mlx_lm.ArraysCache

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help conform test lint prove faults bench docs wheel test-wheel clean

help:
	@sed -n 's/^#   make/  make/p' Makefile

# One stamp per set of extras; a changed pin or dependency makes them stale.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "kvlaw needs Python >= 3.11; '$(PYTHON)' is missing or older: $$($(PYTHON) -V 2>&1 | head -1)" >&2; \
	  echo "choose another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.build: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -q -c constraints.txt hatchling
	@touch $@

$(VENV)/.run: $(VENV)/.build
	$(PIP) install -q --no-build-isolation -c constraints.txt -e '.[mlx-lm]'
	@touch $@

$(VENV)/.prove: $(VENV)/.build
	$(PIP) install -q --no-build-isolation -c constraints.txt -e '.[prove]'
	@touch $@

$(VENV)/.docs: $(VENV)/.build
	$(PIP) install -q --no-build-isolation -c constraints.txt -e '.[docs,mlx-lm]'
	@touch $@

$(VENV)/.dev: $(VENV)/.build
	$(PIP) install -q --no-build-isolation -c constraints.txt -e '.[dev,docs,mlx-lm,prove]'
	@touch $@ $(VENV)/.run $(VENV)/.prove $(VENV)/.docs

# Theirs: 0 conformant, 1 violations and 4 incomplete are findings; 2 and 3 mean that the check itself did not run.
# They are checked beside ours, and shown behind them.
conform: $(VENV)/.run
	@failed=0; shown=$$(mktemp); trap 'rm -f $$shown' EXIT; \
	( broken=0; for target in $(THEIRS); do \
	  code=0; $(KVLAW) check $$target --budget ci $(KVLAW_ARGS) || code=$$?; \
	  case $$code in \
	    0|1|4) echo "(exit $$code of $$target is shown, not counted)";; \
	    *) echo "$$target could not be checked: exit $$code"; broken=1;; \
	  esac; \
	done; exit $$broken ) > $$shown 2>&1 & theirs=$$!; \
	$(KVLAW) check builtin:mlx_impl --budget ci --profile layout $(KVLAW_ARGS) || failed=1; \
	wait $$theirs || failed=1; \
	cat $$shown; \
	if [ $$failed = 0 ]; then echo "conform: our caches keep the law"; \
	else echo "conform: FAILED, see above" >&2; fi; \
	exit $$failed

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(KVLAW) spec check

prove: $(VENV)/.prove
	$(KVLAW) prove $(KVLAW_ARGS)

faults: $(VENV)/.run
	$(KVLAW) faults --mutants $(KVLAW_ARGS)

bench: $(VENV)/.run
	$(KVLAW) bench $(KVLAW_ARGS)

docs: $(VENV)/.docs
	rm -rf docs/_build
	$(BIN)/python -m sphinx -q -b html -W --keep-going -n docs docs/_build/html
	$(BIN)/python docs/kvlaw_site/links.py docs/_build/html

wheel: $(VENV)/.build
	rm -rf dist
	$(BIN)/python -m hatchling build

# A second environment without the editable install; the tests lie outside the packages, so nothing shadows the wheel.
test-wheel: | $(BIN)/python
	@ls dist/kvlaw-*.whl >/dev/null 2>&1 || { echo "there is no dist/kvlaw-*.whl: run make wheel first" >&2; exit 1; }
	$(BIN)/python -m venv --clear $(VENV)/wheel
	$(VENV)/wheel/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt \
	  "$$(echo dist/kvlaw-*.whl)[dev,mlx-lm,prove]"
	$(VENV)/wheel/bin/python -P -m pytest $(PYTEST_ARGS)

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
