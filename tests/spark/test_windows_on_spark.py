"""Every kind of window on real Spark, in one query, with a restart in the middle.

`tests/operators/test_wid_aggregate.py` plays each of them by itself on the same fragments without
Spark.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.operators.test_laws import finite
from tests.operators.test_wid_aggregate import KINDS
from thalweg import count, max_
from thalweg.plan.nodes import Node
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import RESTART, Form, assert_form_right, logical_inputs, make_form
from thalweg.testing.manner import Manner
from thalweg.testing.spark_engine import SparkEngine

VARIED = Manner(detours=0.5, spurious=1, disorder=8, promises=0.3, cut=0.2, delay=0.3)


def every_kind() -> Node:
    """The answers of all kinds, each with the name of its own."""
    parts = [
        windows.aggregate(n=count(), m=max_("v")).select("n", "m", kind=f"'{name}'")
        for name, windows in KINDS.items()
    ]
    return parts[0].union(*parts[1:]).node


def restarted(query: Node) -> Form:
    steps = list(
        make_form(logical_inputs(query, {"w": finite(Random(3))["w"]}), VARIED, Random(3)).steps
    )
    half = max(1, len(steps) // 2)
    return Form([*steps[:half], RESTART, *steps[half:]])


def test_every_kind_divided() -> None:
    assert_form_right(every_kind(), restarted(every_kind()), engine=DividedEngine)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
def test_every_kind_on_spark() -> None:
    assert_form_right(every_kind(), restarted(every_kind()), engine=SparkEngine)
