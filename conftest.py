"""What every example in a docstring may use: most of those of the fluent API begin with a
source."""

from __future__ import annotations

import os
from typing import Any

import pytest

from thalweg.stream import source

# Tests leave no process behind that writes an archive of classes, and depend on none.
os.environ.setdefault("THALWEG_CLASS_ARCHIVE", "off")
# A JVM of the tests lives for minutes at most: Java's second compiler costs it more than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(autouse=True)
def _source(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["source"] = source
