"""Bad input: refused whole, with a typed error that names the place, and as if it had never been
pushed.

Every case puts something bad between two good rows. Three things are checked of each: the error and
its place; that no state has changed; and that the good rows, pushed again without it, give the
table they would have given anyway.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import (
    InputError,
    LateEventError,
    LifetimeError,
    MalformedElementError,
    PlanError,
    ProgressError,
    SchemaChangeError,
    ThalwegError,
    TimeRangeError,
    UnknownColumnError,
    UnknownRowError,
)
from thalweg.model import (
    MAX_TIME,
    MIN_TIME,
    Adjust,
    Batch,
    Cti,
    Insert,
    Progress,
    Row,
    adjust,
    batches_of,
    cti,
    insert,
    point,
    remove,
)

SOURCE = tw.source("s", {"k": "string", "v": "int64"}, group_ctis="k")
QUERY = SOURCE.group_by("k").snapshot().aggregate(n=tw.count(), v=tw.sum_("v"))
A, B = {"k": "a", "v": 1}, {"k": "b", "v": 2}
BEFORE = [insert(A, 1, 9), insert(B, 2), cti(5, {"k": "b"}), cti(3)]
GOOD = [insert(A, 4, 6), insert(B, 6, 7)]
AFTER = [adjust(B, 2, None, 20), cti(10)]

ROW = r"source 's'.*(row|element|input) 1\b"
BATCH = r"source 's'.*(row|element|input|batch) \d+"


@dataclass(frozen=True)
class Case:
    feed: Callable[[], Any]
    error: type[ThalwegError]
    place: str = ROW


def started() -> tw.Engine:
    engine = tw.Engine(QUERY)
    engine.push("s", BEFORE)
    return engine


def rest_of(engine: tw.Engine) -> list[Row]:
    """The table that good input leads to from here."""
    out = engine.push("s", GOOD) + engine.push("s", AFTER) + engine.finish()
    return tw.cht(tw.elements_of(out), QUERY.schema)


# ------------------------------------------------------------------------------------------------
# elements


def between(bad: Any, error: type[ThalwegError]) -> Case:
    return Case(lambda: [GOOD[0], bad, GOOD[1]], error)


ELEMENTS = {
    "not an element": between("insert", MalformedElementError),
    "a payload that is no mapping": between(
        Insert(None, 4, 6),  # type: ignore[arg-type]
        MalformedElementError,
    ),
    "an end before its start": between(insert(A, 6, 4), LifetimeError),
    "an end at its start": between(insert(A, 6, 6), LifetimeError),
    "a new end before the start": between(Adjust(A, 1, 9, 0), LifetimeError),
    "a null start": between(Insert(A, None, 6), TimeRangeError),  # type: ignore[arg-type]
    "a null end": between(Insert(A, 4, None), TimeRangeError),  # type: ignore[arg-type]
    "a null new end": between(Adjust(A, 1, 9, None), TimeRangeError),  # type: ignore[arg-type]
    "a start that is not a number": between(
        Insert(A, math.nan, 6),  # type: ignore[arg-type]
        TimeRangeError,
    ),
    "an infinite float": between(Insert(A, 4, math.inf), TimeRangeError),  # type: ignore[arg-type]
    "a fraction of a tick": between(Insert(A, 4.5, 6), InputError),  # type: ignore[arg-type]
    "a time as text": between(Insert(A, "4", 6), InputError),  # type: ignore[arg-type]
    "a start beyond the clock": between(insert(A, MAX_TIME, MAX_TIME + 1), TimeRangeError),
    "an end beyond the clock": between(insert(A, 4, MAX_TIME), TimeRangeError),
    "a start before the clock": between(insert(A, MIN_TIME, 6), TimeRangeError),
    "a time that overflows": between(insert(A, 2**70, 2**70 + 1), TimeRangeError),
    "a column nobody declared": between(point({"k": "a", "v": 1, "z": 0}, 4), SchemaChangeError),
    "a value of another type": between(point({"k": "a", "v": "one"}, 4), SchemaChangeError),
    "a fraction in a column of whole numbers": between(
        point({"k": "a", "v": 1.5}, 4), SchemaChangeError
    ),
    "an adjust of a row never seen": between(adjust({"k": "z", "v": 9}, 4, 6, 7), UnknownRowError),
    "an adjust that names a wrong end": between(adjust(A, 1, 8, 12), UnknownRowError),
    # a row after the promise: of one before it, removals are late
    "a second removal of a row that is there once": Case(
        lambda: [GOOD[0], remove(A, 4, 6), remove(A, 4, 6)],
        UnknownRowError,
        r"source 's'.* row 2\b",
    ),
    "an adjust ahead of its insert": Case(
        lambda: [GOOD[0], adjust(A, 5, 6, 7), insert(A, 5, 6)], UnknownRowError
    ),
    "an event before the promise": between(insert(A, 2, 6), LateEventError),
    "an event before the promise of its group": between(insert(B, 4, 6), LateEventError),
}

# ------------------------------------------------------------------------------------------------
# promises


def after_good(*bad: Cti) -> Case:
    return Case(
        lambda: [GOOD[0], *bad], ProgressError if bad[-1].time in (2, 4) else TimeRangeError, BATCH
    )


PROMISES = {
    "a CTI that goes back": after_good(cti(2)),
    "a CTI of a group that goes back": after_good(cti(4, {"k": "b"})),
    "a null CTI": after_good(Cti(None)),  # type: ignore[arg-type]
    "a CTI that is not a number": after_good(Cti(math.nan)),  # type: ignore[arg-type]
    "a CTI at a fraction of a tick": after_good(Cti(7.5)),  # type: ignore[arg-type]
    "a CTI beyond the clock": after_good(Cti(MAX_TIME)),
    "a CTI that overflows": after_good(Cti(2**80)),
    "a CTI for a column that is not there": Case(
        lambda: [GOOD[0], cti(7, {"z": 1})], SchemaChangeError, BATCH
    ),
    "a CTI for no column": Case(lambda: [GOOD[0], cti(7, {})], MalformedElementError, BATCH),
    "a CTI as text": Case(
        lambda: [GOOD[0], Cti("7")],  # type: ignore[arg-type]
        MalformedElementError,
        BATCH,
    ),
    "a CTI for a value of another type": Case(
        lambda: [GOOD[0], cti(7, {"k": 7})], SchemaChangeError, BATCH
    ),
    "a CTI for a value that is no key": Case(
        lambda: [GOOD[0], cti(7, {"k": ["b"]})], MalformedElementError, BATCH
    ),
    "CTIs for groups of several kinds": Case(
        lambda: [GOOD[0], cti(7, {"v": 1})], MalformedElementError, BATCH
    ),
}

# ------------------------------------------------------------------------------------------------
# Arrow tables


def table(start: Any = (4, 5, 6), end: Any = (6, 8, 7), **columns: Any) -> pa.Table:
    payload = columns or {"k": ["a", "a", "b"], "v": [1, 5, 2]}
    return pa.table({"_start": start, "_end": end, **payload})


def elements(
    kind: Any = (0, 0, 0), start: Any = (4, 5, 6), end: Any = (6, 8, 7), new_end: Any = (6, 8, 7)
) -> pa.Table:
    return pa.table(
        {
            "_kind": kind,
            "_start": start,
            "_end": end,
            "_new_end": new_end,
            "k": ["a", "a", "b"],
            "v": [1, 5, 2],
        }
    )


OTHER = pa.schema([("k", pa.string()), ("w", pa.int64())])
HUGE = pa.array([4, 2**63 + 1, 6], pa.uint64())
ONE = pa.record_batch({"k": ["a"], "v": [1]})

TABLES = {
    "a null start": Case(lambda: table(start=[4, None, 6]), TimeRangeError),
    "a null end": Case(lambda: table(end=[6, None, 7]), TimeRangeError),
    "a null start in a second chunk": Case(
        lambda: pa.concat_tables([table().slice(0, 1), table(start=[None, 5, 6])]),
        TimeRangeError,
        r"source 's'.* row 1\b",
    ),
    "starts that are floats": Case(
        lambda: table(start=[4.0, math.nan, 6.0]), TimeRangeError, BATCH
    ),
    "starts that are parts of a microsecond": Case(
        lambda: table(
            start=pa.array([4_000, 5_001, 6_000], pa.timestamp("ns")),
            end=pa.array([6_000, 7_000, 7_000], pa.timestamp("ns")),
        ),
        TimeRangeError,
        BATCH,
    ),
    "a start beyond the clock": Case(
        lambda: table(start=[4, MAX_TIME, 6], end=[6, MAX_TIME + 1, 7]), TimeRangeError
    ),
    "a start beyond int64": Case(
        lambda: table(start=HUGE, end=pa.array([6, 2**63 + 2, 7], pa.uint64())), TimeRangeError
    ),
    "an end before its start": Case(lambda: table(end=[6, 4, 7]), LifetimeError),
    "no start at all": Case(lambda: table().drop_columns("_start"), SchemaChangeError, BATCH),
    "a column too many": Case(
        lambda: table(k=["a"] * 3, v=[1] * 3, z=[0] * 3), SchemaChangeError, BATCH
    ),
    "a column too few": Case(lambda: table(k=["a"] * 3), SchemaChangeError, BATCH),
    "a column of another name": Case(
        lambda: table(k=["a"] * 3, w=[1] * 3), SchemaChangeError, BATCH
    ),
    "a column of another type": Case(
        lambda: table(k=["a"] * 3, v=[1.0] * 3), SchemaChangeError, BATCH
    ),
    "an event before the promise": Case(lambda: table(start=[4, 2, 6]), LateEventError),
    "elements: a kind that is none": Case(lambda: elements(kind=[0, 2, 0]), MalformedElementError),
    "elements: a kind that does not fit": Case(
        lambda: elements(kind=[0, 300, 0]), MalformedElementError
    ),
    "elements: a null start": Case(lambda: elements(start=[4, None, 6]), TimeRangeError),
    "elements: a null new end": Case(
        lambda: elements(kind=[0, 1, 0], new_end=[6, None, 7]), TimeRangeError
    ),
    "elements: a start beyond int64": Case(lambda: elements(start=HUGE), TimeRangeError),
    "elements: an adjust of a row never seen": Case(
        lambda: elements(kind=[0, 1, 0], new_end=[6, 9, 7]), UnknownRowError
    ),
    "elements: a new end before the start": Case(
        lambda: elements(kind=[0, 1, 0], new_end=[6, 4, 7]), LifetimeError
    ),
    "a batch of other columns": Case(
        lambda: next(batches_of([point({"k": "a", "w": 1}, 4)], OTHER)), SchemaChangeError, BATCH
    ),
    "a batch that promises beyond the clock": Case(
        lambda: Batch.empty(SOURCE.schema, Progress(MAX_TIME)), TimeRangeError, BATCH
    ),
    "a batch that promises for a column that is not there": Case(
        lambda: Batch.empty(SOURCE.schema, Progress(scope_columns=("z",), scoped={(1,): 9})),
        SchemaChangeError,
        BATCH,
    ),
    "a batch with starts that are floats": Case(
        lambda: Batch(ONE, np.array([4.0]), np.array([6])), TimeRangeError, BATCH
    ),
    "a batch with adjusts and no new ends": Case(
        lambda: Batch(ONE, np.array([1]), np.array([9]), None, np.array([True])),
        MalformedElementError,
        BATCH,
    ),
    "a batch with more times than rows": Case(
        lambda: Batch(ONE, np.array([4, 5]), np.array([6, 6])), MalformedElementError, BATCH
    ),
}

# ------------------------------------------------------------------------------------------------
# more than one batch

PUSHES = {
    "not iterable at all": Case(lambda: 42, MalformedElementError, "source 's'"),
    "nothing": Case(lambda: None, MalformedElementError, "source 's'"),
    "a bad row after a good batch": Case(
        lambda: [*GOOD, cti(6), insert(A, 8, 7)], LifetimeError, BATCH
    ),
    "a bad table after a good one": Case(
        lambda: [table(), table(end=[6, 4, 7])], LifetimeError, BATCH
    ),
}

CASES = {
    **ELEMENTS,
    **PROMISES,
    **{f"table: {name}": case for name, case in TABLES.items()},
    **PUSHES,
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@every_case
def test_bad_input_is_refused_with_its_own_error_and_place(case: Case) -> None:
    with pytest.raises(case.error) as caught:
        started().push("s", case.feed())
    assert re.search(case.place, str(caught.value), re.DOTALL)


@every_case
def test_refused_input_leaves_no_trace(case: Case) -> None:
    engine = started()
    before, status = engine.snapshot(), engine.status()
    with pytest.raises(Exception):  # noqa: B017, PT011 - see the test above
        engine.push("s", case.feed())
    assert engine.snapshot() == before
    assert engine.status() == status


@every_case
def test_good_rows_of_refused_input_can_be_pushed_again(case: Case) -> None:
    engine, undisturbed = started(), started()
    with pytest.raises(Exception):  # noqa: B017, PT011
        engine.push("s", case.feed())
    assert rest_of(engine) == rest_of(undisturbed) != []


# ------------------------------------------------------------------------------------------------
# places of other kinds


def test_pulling_refuses_bad_input_the_same_way() -> None:
    with pytest.raises(LifetimeError, match=r"source 's', batch 0, row 1"):
        tw.table(SOURCE, {"s": [GOOD[0], insert(A, 6, 4)]})


def test_the_batch_number_in_a_message_counts_the_batches_that_were_taken() -> None:
    engine = started()
    for _ in range(2):
        with pytest.raises(LifetimeError, match="batch 2, row 0"):
            engine.push("s", insert(A, 6, 4))
    engine.push("s", GOOD)
    with pytest.raises(LifetimeError, match="batch 3, row 0"):
        engine.push("s", insert(A, 6, 4))


def test_a_source_nobody_declared_is_refused_and_the_next_push_is_fine() -> None:
    engine = started()
    before = engine.snapshot()
    with pytest.raises(PlanError, match=r"no source 'ss'. Did you mean 's'"):
        engine.push("ss", GOOD)
    assert engine.snapshot() == before


def test_late_events_of_a_push_that_is_refused_are_not_in_the_ledger() -> None:
    engine = tw.Engine(
        tw.source("s", {"k": "string", "v": "int64"}, late="drop", disorder=2, partition="k")
    )
    engine.push("s", [insert(A, 9, 12), insert(A, 3, 5)])
    before = engine.snapshot()
    with pytest.raises(LifetimeError, match="source 's', batch 2, row 0"):
        engine.push("s", [insert(A, 4, 5), insert(B, 20, 30), cti(1), insert(A, 9, 8)])
    assert engine.snapshot() == before
    assert engine.late_count("s") == engine.late("s").num_rows == 1


def test_an_adjust_of_an_insert_only_source_is_refused() -> None:
    engine = tw.Engine(tw.source("s", {"k": "string", "v": "int64"}, insert_only=True))
    engine.push("s", insert(A, 1, 9))
    before = engine.snapshot()
    with pytest.raises(
        MalformedElementError,
        match="source 's', batch 1, row 1: an adjust, but the source is declared insert_only",
    ):
        engine.push("s", [insert(A, 2, 3), adjust(A, 1, 9, 10)])
    assert engine.snapshot() == before


def test_one_bad_source_does_not_harm_what_another_has_pushed() -> None:
    engine = tw.Engine(SOURCE.join(tw.source("t", {"k": "string", "w": "int64"}), on="k"))
    engine.push("s", insert(A, 1, 9))
    with pytest.raises(LifetimeError, match="source 't', batch 0, row 0"):
        engine.push("t", insert({"k": "a", "w": 7}, 5, 3))
    out = engine.push("t", insert({"k": "a", "w": 7}, 3, 5))
    assert list(tw.elements_of(out)) == [insert({"k": "a", "v": 1, "w": 7}, 3, 5)]


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        (pa.array([1, None]), TimeRangeError, r"row 1: the time 't' is null"),
        (pa.array([1.0, math.nan]), TimeRangeError, r"row 1: the time 't' is nan"),
        (pa.array([1.0, math.inf]), TimeRangeError, r"row 1: the time 't' is inf"),
        (pa.array([1.0, 1e300]), TimeRangeError, r"row 1: the time 't' is 1e\+300"),
        (pa.array([1.0, 4.5]), TimeRangeError, r"row 1: the time 't' is 4.5, not a whole number"),
        (
            pa.array([0, 1001], pa.timestamp("ns")),
            TimeRangeError,
            r"row 1: the time 't' is 1001 ns, not a whole number",
        ),
        (pa.array([0, 2**60], pa.timestamp("s")), TimeRangeError, r"row 1: the time 't'"),
        (pa.array([0, 2**63], pa.uint64()), TimeRangeError, r"row 1: the time 't'"),
        (pa.array([0, 2**63 - 1]), TimeRangeError, r"row 1: the time 't'"),
        (pa.array([0, MAX_TIME - 1]), TimeRangeError, r"row 1: the end"),
        (pa.array(["1", "2"]), TimeRangeError, r"row 0: the time 't' is '1', which is no ISO 8601"),
    ],
    ids=[
        "null",
        "nan",
        "inf",
        "too large a float",
        "a fraction",
        "parts of a tick",
        "too late",
        "too large",
        "infinity",
        "too long",
        "text",
    ],
)
def test_events_refuses_starts_that_are_no_times(
    column: pa.Array, error: type[ThalwegError], message: str
) -> None:
    with pytest.raises(error, match=message):
        tw.events(pa.table({"t": column}), "t")


def test_events_names_a_column_that_is_not_there() -> None:
    with pytest.raises(UnknownColumnError, match=r"events: unknown column 'ts'. Did you mean 't'"):
        tw.events(pa.table({"t": [1]}), "ts")
