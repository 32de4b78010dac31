"""The types of PyArrow that the type checker reads: every name in them exists where it runs."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

STUBS = Path(__file__).parents[1] / "typings" / "pyarrow"
ONLY_TYPES = {"SupportsArrowStream", "_Column", "_Rows"}
OF_SOME = {"Array", "DataType"}
"""Some of their attributes are those of lists, times or decimals; the stub says so."""


def names(module: str) -> Iterator[tuple[str, ...]]:
    for node in ast.parse((STUBS / f"{module}.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            yield (node.name,)
        elif isinstance(node, ast.ClassDef) and node.name not in ONLY_TYPES:
            yield (node.name,)
            if node.name in OF_SOME:
                continue
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("__"):
                    yield node.name, member.name


@pytest.mark.parametrize("module", sorted(path.stem for path in STUBS.glob("*.pyi")))
def test_every_name_exists(module: str) -> None:
    real = importlib.import_module("pyarrow" if module == "__init__" else f"pyarrow.{module}")
    checked = 0
    for path in names(module):
        found: object = real
        for name in path:
            assert hasattr(found, name), f"{module}.pyi: pyarrow has no {'.'.join(path)}"
            found = getattr(found, name)
        checked += 1
    assert checked
