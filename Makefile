# `make demo` and `make test` need only Python 3.11+ and make: every target sets itself up first.

SHELL := /bin/sh
BIN := .venv/bin
CODE := $(wildcard src tests benchmarks examples docs/conf.py conftest.py)
BENCH ?=

# A Java that the set-up put into .venv comes first; one on PATH or in JAVA_HOME is used as it is.
JAVA = JAVA_HOME="$$(cat .venv/.java-home 2>/dev/null || printf %s "$$JAVA_HOME")"

# One JVM at a time: two would starve each other. What fails is run once more by itself, because on a busy machine time-outs
# strike (Spark gives a Python worker ten seconds to connect; killed processes start again); what is wrong fails twice, and an
# example that hypothesis found is tried first. A test that passes only then is named as flaky at the end; the reason stands in the
# summary of the first run.
IN_PROCESS_TESTS := "not slow and not xdist_group"
SPARK_TESTS := "not slow and xdist_group"
FAILED := --last-failed --last-failed-no-failures none

# Compiled modules are kept, also where the environment asks for none: without them every pytest worker and every process that a
# test starts compiles the project, its tests and its dependencies anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint type docs bench soak fix clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv with the locked dependencies (every other target does this first)
	@scripts/bootstrap --java

demo: setup ## run the main job: late packets, early answers, revisions, final answers
	@$(JAVA) $(BIN)/thalweg demo

test: setup ## everything that must pass: lint, types, import rules, then the fast test suite
	@$(MAKE) --no-print-directory lint type
	@$(BIN)/pytest -q -n 2 -m $(IN_PROCESS_TESTS) || \
		THALWEG_SECOND_TRY=1 $(BIN)/pytest -q -m $(IN_PROCESS_TESTS) $(FAILED)
	@$(JAVA) $(BIN)/pytest -q -m $(SPARK_TESTS) || \
		THALWEG_SECOND_TRY=1 $(JAVA) $(BIN)/pytest -q -m $(SPARK_TESTS) $(FAILED)

lint: setup ## check style, formatting and the one-way imports
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/lint-imports --no-logo

type: setup ## check types with mypy --strict
	$(BIN)/mypy $(CODE)

docs: setup ## build the documentation into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build --fail-on-warning --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: setup ## run the benchmarks, one JSON object a line; BENCH="core" chooses
	@$(JAVA) $(BIN)/thalweg bench --json $(BENCH)

soak: setup ## the long tests: many kills, flipped bits, full disks, clusters on Spark; hostile files
	@$(BIN)/pytest -q -n 2 -m slow tests/testing/test_random_plans.py tests/plan
	@$(JAVA) $(BIN)/pytest -m slow tests/graph tests/cli/test_mill.py tests/spark/test_progress.py tests/spark/soak tests/shards tests/regressions tests/freshness tests/merge tests/data tests/patterns

fix: setup ## repair what the linter and the formatter can repair
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

clean: ## remove what was built, and the environment
	rm -rf .venv docs/_build dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
