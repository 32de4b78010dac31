"""What is imported when: a name of the package when it is first asked for, and nothing large before
the first line of output or for what Spark asks of a source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import thalweg as tw

LARGE = ("numpy", "pyarrow", "pandas", "sqlglot", "rich", "pyspark", "thalweg.operators")


def imported_by(statement: str, among: tuple[str, ...] = LARGE) -> list[str]:
    """Which of some modules are there after a statement, in a new process."""
    script = f"{statement}\nimport sys\nprint(*[name for name in {among!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("statement", ["import thalweg", "import thalweg.cli.demo"])
def test_nothing_large_is_imported_before_it_is_needed(statement: str) -> None:
    assert imported_by(statement) == []


@pytest.mark.parametrize(
    "statement",
    ["tw.col", "tw.source", "tw.count", "tw.module", "tw.event", "from thalweg.spark import start"],
)
def test_pandas_is_not_imported_for_arrow(statement: str) -> None:
    """Arrow would import it at its first conversion, whichever module makes that."""
    assert imported_by(f"import thalweg as tw; {statement}", ("pandas",)) == []


def test_the_offsets_of_files_are_found_without_operators() -> None:
    pytest.importorskip("pyspark")
    among = ("thalweg.operators", "thalweg.shards", "thalweg.plan", "thalweg.stream")
    modules = "thalweg.spark.processes.unpacking, thalweg.spark.sources.file_offsets"
    assert imported_by(f"import {modules}", among) == []


@pytest.mark.parametrize("package", ["thalweg", "thalweg.spark"])
def test_every_name_of_a_package_is_in_its_block_of_imports(package: str) -> None:
    pytest.importorskip("pyspark")
    __import__(package)
    module = sys.modules[package]
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found = {alias.name for node in imports for alias in node.names}
    assert set(module.__all__) <= found
    for name in module.__all__:
        assert not isinstance(getattr(module, name), ModuleType), name
    assert set(module.__all__) <= set(dir(module))


def test_a_package_below_does_not_take_the_name_of_a_function() -> None:
    script = (
        "import thalweg.run.engine, thalweg.sql, thalweg as tw\nprint(callable(tw.run), "
        "callable(tw.sql))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]


def test_a_name_that_is_not_there_is_an_error_of_attributes() -> None:
    assert not hasattr(tw, "__wrapped__")
    with pytest.raises(AttributeError):
        getattr(tw, "no_such_name")  # noqa: B009 - what is looked up is what is tested
