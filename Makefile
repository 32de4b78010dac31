# `make demo` and `make test` need only Python 3.11+ and make: every target sets itself up first.

SHELL := /bin/sh
BIN := .venv/bin
CODE := $(wildcard src tests benchmarks examples docs/conf.py conftest.py)
BENCH ?=

# A Java that the set-up put into .venv comes first; one on PATH or in JAVA_HOME is used as it is.
JAVA = JAVA_HOME="$$(cat .venv/.java-home 2>/dev/null || printf %s "$$JAVA_HOME")"

# The suite has two halves, which `make test` runs side by side: the tests on Spark are one process that often waits, and the other
# half and the type check fill what it leaves of two cores. They give way to it (`nice`), because on a busy machine time-outs strike:
# Spark gives a Python worker ten seconds to connect, killed processes start again. One JVM at a time: two would starve each other.
# What fails is run once more by itself when all else is done. What is wrong fails twice, and an example that hypothesis found is
# tried first. A test that passes only then is named as flaky at the end; the reason stands in the summary of the first run.
RECORDS := .pytest_cache
IN_PROCESS_TESTS = $(BIN)/pytest -q -o cache_dir=$(RECORDS)/in-process -m "not slow and not xdist_group"
SPARK_TESTS = $(JAVA) $(BIN)/pytest -q -o cache_dir=$(RECORDS)/spark -m "not slow and xdist_group"
AGAIN := --last-failed --last-failed-no-failures none
GIVE_WAY := nice -n 10

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
	@$(MAKE) --no-print-directory lint
	@mkdir -p $(RECORDS) && rm -f $(RECORDS)/*.failed
	@echo "Types and tests; the tests on Spark run beside the others, and their report follows."
	@$(MAKE) --no-print-directory -j 3 spark-tests in-process-tests types; status=$$?; cat $(RECORDS)/spark.txt; exit $$status
	@[ ! -e $(RECORDS)/in-process.failed ] || THALWEG_SECOND_TRY=1 $(IN_PROCESS_TESTS) $(AGAIN)
	@[ ! -e $(RECORDS)/spark.failed ] || THALWEG_SECOND_TRY=1 $(SPARK_TESTS) $(AGAIN)

.PHONY: in-process-tests spark-tests types
in-process-tests:
	@$(GIVE_WAY) $(IN_PROCESS_TESTS) -n 2 || touch $(RECORDS)/in-process.failed
spark-tests:
	@$(SPARK_TESTS) >$(RECORDS)/spark.txt 2>&1 || touch $(RECORDS)/spark.failed
types:
	@$(GIVE_WAY) $(BIN)/mypy $(CODE)

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
