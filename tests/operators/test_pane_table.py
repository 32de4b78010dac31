"""Two-level aggregation: any table, any way to flush it, one answer."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from tests.operators.test_laws import A, finite, used
from thalweg import Engine, adjust, cti, elements_of, insert, point, table
from thalweg.errors import WindowError
from thalweg.model import INFINITY, Element, cht
from thalweg.model.soundness import assert_sound
from thalweg.plan.aggregates import avg, count, sum_
from thalweg.plan.nodes.panes import Flush
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import Stream, source
from thalweg.testing import (
    CONSISTENCIES,
    Form,
    assert_form_right,
    assert_physically_independent,
    logical_inputs,
    make_form,
    step,
)
from thalweg.testing.manner import WILD


@pytest.mark.parametrize("flush", get_args(Flush))
@pytest.mark.parametrize("slots", [1, 3, 64])
def test_law(flush: Flush, slots: int) -> None:
    windows = (
        Stream(A)
        .group_by("k")
        .hopping(8, 4, offset=1)
        .two_level(slots, flush=flush, every=2, late=1)
    )
    query = windows.aggregate(n=count(), s=sum_("v"), m=avg("v", where="v > 1")).node
    for seed in range(3):
        inputs = used(query, finite(Random(f"{flush}/{slots}/{seed}")))
        assert_physically_independent(
            query, inputs, forms=3, seed=seed, consistency=CONSISTENCIES[seed]
        )
        if seed == slots % 3:
            assert_form_right(
                query,
                make_form(logical_inputs(query, inputs), WILD, Random(slots)),
                engine=DividedEngine,
            )


@pytest.mark.parametrize("flush", get_args(Flush))
def test_no_sum_is_later_than_it_may(flush: Flush) -> None:
    events = source("s", {"k": "int64"})
    engine = Engine(
        events.group_by("k").tumbling(10).two_level(1024, flush=flush, late=2).aggregate(n=count()),
        consistency="final",
    )
    engine.push("s", [point({"k": key}, 1) for key in range(50)])
    sizes = []
    for time in range(10, 70, 10):
        engine.push("s", [point({"k": 1_000}, time), cti(time)])
        sizes.append(engine.state_size()["panes-1"].rows)
    assert sizes[3] <= 3 and sizes[-1] <= 3
    assert (sizes[0] < 50) == (flush == "at end")


def test_the_first_null_key_late_in_a_large_batch() -> None:
    """A batch is summed in pieces; sums of the first ones leave before the null is seen."""
    keys = [None if at == 9_000 else 100_000 + at % 500 for at in range(10_000)]
    rows = [point({"k": key}, at // 100) for at, key in enumerate(keys)]
    windows = source("s", {"k": "int64"}).group_by("k").tumbling(10)
    alone, two_level = (
        table(each.aggregate(n=count()), {"s": rows}) for each in (windows, windows.two_level(16))
    )
    assert two_level == alone


@pytest.mark.parametrize("consistency", CONSISTENCIES)
def test_rows_that_come_and_change_in_one_large_batch(consistency: str) -> None:
    """A batch is summed in pieces, and what its changes take away comes first: sums that take rows
    back leave the table before those that bring them."""
    elements: list[Element] = []
    for at in range(9_000):
        elements.append(insert({"k": at % 300}, at // 10, at // 10 + 3))
        elements += [adjust({"k": at % 300}, at // 10, at // 10 + 3, at // 10 + 7)] * (at % 2)
    windows = source("s", {"k": "int64"}).group_by("k").hopping(40, 20)
    alone = table(windows.aggregate(n=count()), {"s": elements})
    query = windows.two_level(5_000).aggregate(n=count()).node
    form = Form([step("s", *elements)])
    assert_form_right(query, form, consistency=consistency, expected=alone)


@pytest.mark.parametrize("flush", get_args(Flush))
def test_an_adjust_does_not_change_windows_that_its_group_has_answered(flush: Flush) -> None:
    """What it takes away and what it adds again lie below the promise for the group."""
    events = source("s", {"k": "int64"}, group_ctis="k")
    windows = events.group_by("k").tumbling(10).two_level(16, flush=flush)
    query = windows.aggregate(n=count())
    engine = Engine(query, consistency="final")
    rows = [insert({"k": 1}, 4), insert({"k": 1}, 13, 40), insert({"k": 2}, 3, 8)]
    out = engine.push("s", [*rows, cti(31, {"k": 1})])
    for end, new_end in ((INFINITY, 45), (45, 38)):
        out += engine.push("s", adjust({"k": 1}, 4, end, new_end))
        engine = Engine.restore(query, engine.snapshot(), consistency="final")
    out += engine.push("s", [cti(35), cti(36, {"k": 1})])
    out += engine.finish()
    assert_sound(out)
    assert cht(list(elements_of(out))) == [
        (0, 10, {"k": 1, "n": 1}),
        (0, 10, {"k": 2, "n": 1}),
        (10, 20, {"k": 1, "n": 2}),
        (20, 30, {"k": 1, "n": 2}),
        (30, 40, {"k": 1, "n": 2}),
    ]


@pytest.mark.parametrize("consistency", CONSISTENCIES)
@pytest.mark.parametrize("end", [60, INFINITY])
def test_an_end_may_move_behind_the_promise_of_its_group(consistency: str, end: int) -> None:
    """What is taken back and what comes instead add up to nothing in the window that is over: they
    leave the table together."""
    events = source("s", {"k": "string"}, group_ctis="k")
    query = events.group_by("k").tumbling(20).two_level(64).aggregate(n=count())
    row = {"k": "a"}
    elements = [insert(row, 36, end), cti(40, row), adjust(row, 36, end, 40), point({"k": "b"}, 99)]
    engine = Engine(query, consistency=consistency)
    out = [batch for element in elements for batch in engine.push("s", element)]
    out += engine.finish()
    assert_sound(out)
    alone = events.group_by("k").tumbling(20).aggregate(n=count())
    moved = [insert(row, 36, 40), elements[-1]]
    assert cht(list(elements_of(out))) == table(alone, {"s": moved})


def test_mistakes() -> None:
    windows = source("s", {"k": "int64", "v": "float64"}).tumbling(10)
    with pytest.raises(
        WindowError, match=r"flush must be one of at end, slow, lazy\. Did you mean 'slow'"
    ):
        windows.two_level(8, flush="slowly")  # type: ignore[arg-type]
    with pytest.raises(WindowError, match="slots must be positive"):
        windows.two_level(0)
    with pytest.raises(WindowError, match="partial sums need counts or sums of whole numbers"):
        windows.two_level(8).aggregate(s=sum_("v"))
