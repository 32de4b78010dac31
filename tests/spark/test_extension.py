"""Extension is one file on real Spark too: a row operator, a join window, kinds of windows and an
aggregate that are defined in test modules alone, with a restart in the middle.

Where they are defined they obey the same law in-process and on the fragments without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from pyspark import cloudpickle as untyped

import tests.plan.test_extension as own_operators
import tests.windows.test_own_aggregate as own_aggregates
import tests.windows.test_own_kind as own_kinds
import thalweg as tw
from thalweg.model import Row
from thalweg.plan.nodes import Source, find
from thalweg.stream import Stream
from thalweg.testing import RESTART, Form, assert_form_right, logical_inputs, make_form
from thalweg.testing.manner import Manner
from thalweg.testing.spark_engine import SparkEngine

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

cloudpickle: Any = untyped
OWN = (own_operators, own_kinds, own_aggregates)
VARIED = Manner(detours=0.5, spurious=1, disorder=8, promises=0.3, cut=0.2, delay=0.3)
ROWS = tw.source("a", {"k": "int64", "v": "int64"})


def _row_operator() -> Stream:
    clamped = Stream(own_operators.Clamp(ROWS.where("v > -4").node, "v", 0, 5))
    return clamped.group_by("k").tumbling(10).aggregate(n=tw.count(), total=tw.sum_("v"))


def _join_window() -> Stream:
    other = tw.source("b", {"k": "int64", "v": "int64"})
    return ROWS.window_join(other, "k", window=own_operators.Soon(5), how="left")


def _window_kind() -> Stream:
    return ROWS.group_by("k").windows(own_kinds.Shifts()).with_id("w").aggregate(n=tw.count())


def _aggregate() -> Stream:
    return (
        ROWS.group_by("k")
        .hopping(6, 3)
        .aggregate(
            spread=tw.aggregate_by(own_aggregates.Spread(2), "v"),
            bits=tw.aggregate_by(own_aggregates.Bits(), "v", where="v > 0"),
        )
    )


@pytest.fixture(autouse=True)
def _by_value() -> Iterator[None]:
    """Spark's workers cannot import the folder of the tests: the definitions travel with the
    query."""
    for module in OWN:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in OWN:
        cloudpickle.unregister_pickle_by_value(module)


def _form(query: Stream, inputs: dict[str, list[Row]], random: Random) -> Form:
    """The inputs as changes in some order, with a restart in the middle."""
    steps = list(make_form(logical_inputs(query.node, inputs), VARIED, random).steps)
    half = max(1, len(steps) // 2)
    return Form([*steps[:half], RESTART, *steps[half:]])


def _rows(random: Random) -> list[Row]:
    starts = [random.randrange(30) for _ in range(10)]
    return [
        (s, s + random.randrange(1, 9), {"k": random.randrange(2), "v": random.randrange(-5, 9)})
        for s in starts
    ]


@pytest.mark.parametrize(
    "build",
    [_row_operator, _join_window, _window_kind, _aggregate],
    ids=lambda build: build.__name__.strip("_"),
)
def test_it_obeys_the_law_with_a_restart(build: Callable[[], Stream]) -> None:
    query, random = build(), Random(build.__name__)
    inputs = {source.name: _rows(random) for source in find(query.node, Source)}
    assert_form_right(query.node, _form(query, inputs, random), engine=SparkEngine)


def test_a_kind_with_an_assigner_means_what_it_says() -> None:
    query = ROWS.windows(own_kinds.Neighbours(9), partition_by="k").aggregate(n=tw.count())
    random = Random("neighbours")
    rows = _rows(random)
    expected: list[Row] = [
        (start, end, {"k": k, "n": n}) for start, end, k, n in own_kinds._neighbours(9, rows)
    ]
    form = _form(query, {"a": rows}, random)
    assert_form_right(query.node, form, expected=expected, engine=SparkEngine)
