"""One Spark session for all tests here. Tests that use it stay together on one worker, so that one
JVM is started."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import thalweg.spark


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    running = thalweg.spark.session("local[2,4]", name="tests", spark__driver__memory="1g")
    yield running
    running.stop()
