"""Arrow without pandas, until pandas is imported.

At its first conversion Arrow imports pandas, if there is one, to recognise its objects. That takes
longer than everything else a worker does before its first row. Here the first conversion happens
while pandas cannot be found; Arrow looks for it again when it is needed (`to_pandas`, a Series as
input), so nothing else changes.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

import pyarrow as pa

__all__: list[str] = []


class _Later:
    """An import finder that reports pandas as missing."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ImportError("not now")
        return None


if "pandas" not in sys.modules:
    finder = _Later()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
