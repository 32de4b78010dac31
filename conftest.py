"""What every example in a docstring may use: most of those of the fluent API begin with a source."""

from __future__ import annotations

import os
from typing import Any

import pytest

from thalweg.stream import source

# Tests leave no process behind that writes an archive of classes, and depend on none.
os.environ.setdefault("THALWEG_CLASS_ARCHIVE", "off")


@pytest.fixture(autouse=True)
def _source(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["source"] = source
