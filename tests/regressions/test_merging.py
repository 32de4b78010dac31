"""Merges over hostile values, promises and arguments: each is merged right or refused in a
sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import (
    InputError,
    PlanError,
    SchemaChangeError,
    StateError,
    ThalwegError,
    TimeRangeError,
)
from thalweg.merging import Merger
from thalweg.model import batches_of
from thalweg.plan.merging import MergePolicy

TEXT = pa.schema([("k", pa.string())])
NUMBER = pa.schema([("v", pa.float64())])


def merger(schema: pa.Schema = TEXT, **options: Any) -> Merger:
    made = Merger(schema, **options)
    for name in ("one", "two"):
        made.attach(name)
    return made


def restarted(before: Merger, **options: Any) -> Merger:
    after = Merger(before.schema, **options)
    after.restore(before.snapshot())
    return after


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.decimal128(10, 2), Decimal("1.50")),
        (pa.binary(), b"\0raw"),
        (pa.timestamp("us"), datetime(2026, 3, 1)),
        (pa.date32(), date(2026, 3, 1)),
        (pa.float64(), math.nan),
    ],
)
def test_a_promise_for_a_group_of_any_type_survives_a_restart(
    kind: pa.DataType, value: object
) -> None:
    merge = merger(pa.schema([("k", kind)]))
    merge.push("one", [tw.insert({"k": value}, 1, 3), tw.cti(9, {"k": value})])
    again = restarted(merge)
    assert list(again.status().group_leaders.values()) == ["one"]
    assert again.push("two", tw.cti(8, {"k": value})) == []  # a group's promise never goes back


def test_promises_for_the_group_nan_are_for_one_group() -> None:
    merge = merger(NUMBER)
    out = merge.push("one", tw.cti(9, {"v": float("nan")}))
    out += merge.push("two", tw.cti(5, {"v": float("nan")}))
    assert [element.time for element in tw.elements_of(out) if isinstance(element, tw.Cti)] == [9]


def test_with_a_tolerance_null_is_not_nan() -> None:
    merge = merger(NUMBER, tolerance=0.1)
    rows = [tw.insert({"v": None}, 1, 3), tw.insert({"v": math.nan}, 1, 4)]
    out = merge.push("one", rows[:1])
    out += merge.push("two", [*rows[::-1], tw.cti(9)])
    assert len(tw.cht(list(tw.elements_of(out)), NUMBER)) == 2
    assert merge.status().level == "R3" and not merge.status().alarms


def test_zero_is_one_value_inside_of_lists() -> None:
    lists = pa.schema([("v", pa.list_(pa.float64()))])
    merge = merger(lists)
    out = merge.push("one", tw.insert({"v": [0.0]}, 1, 3))
    out += merge.push("two", [tw.insert({"v": [-0.0]}, 1, 3), tw.cti(9)])
    assert len(tw.cht(list(tw.elements_of(out)), lists)) == 1


@pytest.mark.parametrize("name", ["R3", "R4", "R0"])
def test_what_is_refused_leaves_no_trace(name: Any) -> None:
    """A batch of other columns, times that are off the clock, a group of another type."""
    [other] = batches_of([tw.insert({"z": 1}, 1, 3)], pa.schema([("z", pa.int64())]))
    wrong: list[tuple[Any, type[ThalwegError]]] = [
        (other, SchemaChangeError),
        ([tw.insert({"k": "x"}, 1, 3), tw.cti(5, {"k": 7})], SchemaChangeError),
        (tw.insert({"k": "x"}, 2**62 + 1, None), TimeRangeError),
        (tw.cti(2**62 + 1), TimeRangeError),
    ]
    merge = merger(level=name)
    before = merge.status()
    for feed, error in wrong:
        with pytest.raises(error, match="'one'"):
            merge.push("one", feed)
    assert merge.status() == before
    out = merge.push("one", [tw.insert({"k": "x"}, 1, 3), tw.cti(5)])
    assert len(list(tw.elements_of(out))) == 2


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: merger(level="R7"), r"level must be one of R0, R1, R2, R3, R4\. Got 'R7'"),
        (lambda: merger(broken="cur"), r"broken must be one of cut, climb\. Did you mean 'cut'"),
        (lambda: merger(groups="kk"), "unknown column 'kk'"),
        (lambda: merger(NUMBER, tolerance=-1), "tolerance"),
        (lambda: merger(NUMBER, tolerance=math.nan), "tolerance"),
        (lambda: merger({"k": "string"}), "pyarrow schema"),  # type: ignore[arg-type]
        (lambda: merger(pa.schema([])), "one column at least"),
        (lambda: merger(pa.schema([("k", pa.string_view())])), "make it string"),
        (lambda: merger().attach("new", since="5"), "since is '5'"),  # type: ignore[arg-type]
        (lambda: MergePolicy(share="half"), "share"),  # type: ignore[arg-type]
        (lambda: MergePolicy(lag=0.5), "lag must be"),  # type: ignore[arg-type]
        (lambda: tw.merge(number_stream(), level="R9"), r"level must be one of .*'R9'"),  # type: ignore[arg-type]
        (lambda: tw.merge(number_stream(), text_stream()), "v string; and v double"),
    ],
)
def test_arguments_are_checked_when_a_merge_is_made(make: Callable[[], object], says: str) -> None:
    with pytest.raises((PlanError, InputError), match=says):
        make()


def number_stream() -> tw.Stream:
    return tw.source("numbers", {"v": "float64"})


def text_stream() -> tw.Stream:
    return tw.source("texts", {"v": "string"})


def test_a_snapshot_of_other_columns_is_refused() -> None:
    merge = merger()
    merge.push("one", tw.insert({"k": "x"}, 1, 3))
    with pytest.raises(StateError, match="over k string; this one has v double"):
        Merger(NUMBER).restore(merge.snapshot())


def test_a_lag_may_be_written_as_a_duration() -> None:
    assert MergePolicy(lag="5 s").lag == 5_000_000  # type: ignore[arg-type]
