"""What each operator makes of progress: it says what holds it back, it promises nothing it cannot
keep, and no less than it could.

Held back: what `why` names is missing, and is all that is missing. Sound and strong: after a prefix
of the input, every single legal change that may follow is tried; by the oracle it changes the
answer at or after the promise, and somewhere at it exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import thalweg as tw
from tests.operators.test_laws import LAWS, used
from thalweg.model import INFINITY, MIN_TIME, Batch, Progress, Row, cht
from thalweg.plan.nodes import (
    AlterLifetime,
    Describe,
    Node,
    Retime,
    SessionLifetime,
    Source,
    TopK,
    WindowAggregate,
    walk,
)
from thalweg.testing import CONSISTENCIES, logical_inputs, make_form, oracle
from thalweg.testing.forms import Restart
from thalweg.testing.manner import WILD

LOGICAL = [name for name in LAWS if not name.startswith("panes")]
"""Panes are made when a plan is cut into fragments: no query says them."""


def sources_of(query: Node) -> dict[str, Source]:
    return {node.name: node for node in walk(query) if isinstance(node, Source)}


def promise_up_to(engine: tw.Engine, source: str, time: int) -> None:
    engine.push(source, Batch.empty(engine.sources[source], Progress(time)))


def windows_in(query: Node) -> int:
    """How many operators of a query hold answers back."""
    held = [
        node for node in walk(query) if isinstance(node, (WindowAggregate, TopK, SessionLifetime))
    ]
    return len(held) + sum(
        isinstance(node, WindowAggregate) and node.fill is not None for node in held
    )


def promised_by_columns(query: Node) -> bool:
    """Whether promises rest on times in columns, which follow from the rows that are held: less may
    do then than is asked for."""
    by_column = (
        node
        for node in walk(query)
        if isinstance(node, AlterLifetime) and "_start" not in node.start.columns()
    )
    return any(isinstance(node, Retime) for node in walk(query)) or any(by_column)


def halved(names: list[str]) -> list[Any]:
    """Every other one in the fast suite, the rest in the slow one."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] if number % 2 else [])
        for number, name in enumerate(names)
    ]


@pytest.mark.parametrize("name", halved(LOGICAL))
def test_what_is_named_as_missing_is_what_is_missing(name: str) -> None:
    law = LAWS[name]
    random = Random(name)
    query = law.build()
    form = make_form(logical_inputs(query, used(query, law.inputs(random))), WILD, random)
    consistency = random.choice(CONSISTENCIES)
    engine = tw.Engine(query, consistency=consistency)
    for part in form.steps[: random.randint(0, len(form.steps))]:
        if not isinstance(part, Restart):
            engine.push(part.source, part.batch(engine.sources[part.source]))
    engine = tw.Engine.restore(query, engine.snapshot(), consistency=consistency)
    why = first = engine.why()
    if why.settled:
        assert why.promise == INFINITY and not why.waits
        return
    less = tw.Engine.restore(query, engine.snapshot(), consistency=consistency)
    # An answer that one operator lets go may have to wait at the next: each of them may ask once
    # more.
    for _ in range(1 + windows_in(query) + (consistency == "final")):
        assert why.waits, str(why)
        assert all(wait.has < wait.needs and wait.release for wait in why.waits)
        for wait in why.waits:
            promise_up_to(engine, wait.source, wait.needs)
        why = engine.why(first.time)
        if why.settled:
            break
    assert why.settled, f"{first}\nat last\n{why}"
    if windows_in(query) < 2 and first.waits[0].needs < INFINITY and not promised_by_columns(query):
        for at, wait in enumerate(first.waits):
            promise_up_to(less, wait.source, wait.needs if at else max(wait.needs - 1, wait.has))
        assert not less.why(first.time).settled, f"{first}\nless would do"


# ------------------------------------------------------------------------------------------------
# sound and strong

UNBOUND = {
    "shift by an expression": "a later row may be moved by any amount",
    "alter_lifetime, any start": "a later row may be put anywhere",
    "scoped promises, shift by an expression": "the same",
    "describe": "a weaker promise is the point",
    "alter_lifetime, one instant": "every row goes to one instant: no promise depends on the input",
}


def changes_after(table: list[Row], promise: int, random: Random) -> Iterator[list[Row]]:
    """The tables that one more legal element makes of a table."""
    payloads = [payload for _, _, payload in table]
    for payload in payloads:
        for start in range(promise, promise + 7):
            yield [*table, (start, start + random.choice([1, 3]), payload)]
    for at, (start, end, payload) in enumerate(table):
        others = table[:at] + table[at + 1 :]
        if end >= promise:
            yield from (
                [*others, (start, new, payload)]
                for new in {promise, promise + 2, end + 3}
                if new > start and end < INFINITY
            )
            if start >= promise:
                yield others


def first_change(before: list[Row], after: list[Row]) -> int:
    """The earliest sync time of the elements that make one table of the other; rows that only
    change their end are adjusted."""
    gone, new = _bag(before), _bag(after)
    gone, new = gone - new, new - gone
    ends: dict[Any, tuple[list[int], list[int]]] = {}
    for side, bag in enumerate((gone, new)):
        for (start, end, payload), count in bag.items():
            ends.setdefault((start, payload), ([], []))[side].extend([end] * count)
    earliest = INFINITY
    for (start, _), (old_ends, new_ends) in ends.items():
        if len(old_ends) != len(new_ends):
            earliest = min(earliest, start)
        pairs = zip(sorted(old_ends), sorted(new_ends), strict=False)
        earliest = min([earliest, *(min(pair) for pair in pairs)])
    return earliest


def _bag(rows: list[Row]) -> Counter[Any]:
    return Counter((start, end, repr(sorted(payload.items()))) for start, end, payload in rows)


BOUND = [name for name in LOGICAL if name not in UNBOUND]


@pytest.mark.parametrize("name", halved(BOUND))
def test_promises_are_kept_and_as_strong_as_can_be(name: str) -> None:
    law = LAWS[name]
    query = law.build()
    names = sources_of(query)
    tight = False
    for trial in range(60):
        random = Random(f"{name}/{trial}")
        promises = {source: random.randint(3, 22) for source in names}
        inputs = used(query, law.inputs(random))
        tables = {source: rows_of(inputs[source]) for source in names}
        engine = tw.Engine(query, consistency="eager")
        for source, rows in tables.items():
            engine.push(
                source, [tw.insert(payload, start, end) for start, end, payload in rows[:5]]
            )
            tables[source] = rows[:5]
        for source, promise in promises.items():
            promise_up_to(engine, source, promise)
        promised = engine.status().progress.cti
        now = oracle(query, tables)
        bounds = [
            first_change(now, oracle(query, {**tables, source: changed}))
            for source in names
            for changed in changes_after(tables[source], promises[source], random)
        ]
        assert promised <= min(bounds, default=INFINITY), (
            f"{name}: {promised} is promised, but {min(bounds)} may change"
        )
        tight = tight or (bool(bounds) and MIN_TIME < promised == min(bounds))
        if tight:
            break
    assert tight, f"{name}: a stronger promise could have been kept in every trial"


def rows_of(given: Any) -> list[Row]:
    """A table without endless rows, whose answers would have no end either."""
    rows = given if given and isinstance(given[0], tuple) else cht(given)
    return [(start, min(end, start + 9), payload) for start, end, payload in rows]


# ------------------------------------------------------------------------------------------------
# describe


def test_describe_lets_only_useful_promises_pass() -> None:
    stream = tw.source("s", {"k": "string", "v": "int64"}, group_ctis="k").describe(
        every=10, offset=3, groups="v"
    )
    sent = [tw.cti(2), tw.cti(12, {"k": "a"}), tw.cti(14), tw.cti(22), tw.cti(25)]
    assert tw.changes(stream, {"s": sent}) == [tw.cti(-7), tw.cti(13), tw.cti(23)]
    kept = tw.source("s", {"k": "string", "v": "int64"}, group_ctis="k").describe(
        every=10, groups=["k", "v"]
    )
    assert tw.changes(kept, {"s": [tw.cti(12, {"k": "a"})]}) == [tw.cti(10, {"k": "a"})]


def test_describe_is_explained_and_checked() -> None:
    stream = tw.source("s", {"k": "string"})
    assert "describe-1  every 10 for k" in stream.describe(every=10, groups="k").explain()
    with pytest.raises(tw.ThalwegError, match="unknown column 'q'"):
        stream.describe(groups="q")
    with pytest.raises(tw.ThalwegError, match="must be positive"):
        Describe(stream.node, 0)
