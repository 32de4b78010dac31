"""A package whose names are imported when they are first used.

Its names stand in its `if TYPE_CHECKING:` block as ordinary imports, for readers and type checkers;
at run time that block is read, and each name is imported from where the block says. So whoever
imports one module of the package, such as a Python worker of Spark's or the command line, does not
import all the others first.

A name may be that of a package below as well (`thalweg.run` is a function; its engine lives in the
package `thalweg.run`): Python would bind the package to the name when a module of it is imported.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

__all__ = ["names_on_demand"]


class _OnDemand(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})


def names_on_demand(package: str) -> Callable[[str], Any]:
    """What gives the value of a name of the package; a `KeyError` for one that it does not have."""
    module: Any = sys.modules[package]
    module.__class__ = _OnDemand

    @cache
    def homes() -> dict[str, str]:
        tree = ast.parse(module.__spec__.loader.get_source(package))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        return {
            alias.name: str(node.module)
            for node in imports
            for alias in node.names
            if alias.name in module.__all__
        }

    def find(name: str) -> Any:
        value = getattr(importlib.import_module(homes()[name]), name)
        setattr(module, name, value)
        return value

    return find
