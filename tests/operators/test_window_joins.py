"""Window joins: what they mean in the documents, when state goes, when results leave, and what is
refused.

That they obey the law is in `test_laws` (the queries of `window_join_laws`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.errors import PlanError, ThalwegError, WindowError
from thalweg.model import (
    Adjust,
    Batch,
    Cti,
    Element,
    Insert,
    Row,
    cti,
    elements_of,
    insert,
    point,
    remove,
)
from thalweg.plan.join_windows import JoinWindow
from thalweg.state.overlaps import overlapping_pairs
from thalweg.testing import assert_physically_independent, assert_same_table

A = tw.source("a", {"k": "int64", "x": "int64"})
B = tw.source("b", {"k": "int64", "y": "int64"})
Meets = Callable[[int, int], bool]

times = st.lists(st.integers(0, 40), max_size=8)


def points(at: Iterable[int], name: str, keys: int = 2) -> list[Row]:
    return [(t, t + 1, {"k": n % keys, name: n}) for n, t in enumerate(at)]


# ------------------------------------------------------------------------------------- a nested
# loop over the definition


def nested_loop(left: list[Row], right: list[Row], meets: Meets, how: str = "inner") -> list[Row]:
    """Straight from the predicate: every pair is looked at, and a row without a partner is
    alone."""
    pairs = [
        (i, j)
        for i, one in enumerate(left)
        for j, two in enumerate(right)
        if one[2]["k"] == two[2]["k"] and meets(one[0], two[0])
    ]
    if how in ("semi", "anti"):
        matched = {i for i, _ in pairs}
        return [row for i, row in enumerate(left) if (i in matched) == (how == "semi")]
    found: list[Row] = []

    def add(one: Row | None, two: Row | None) -> None:
        known = one or two
        assert known is not None
        at = max(row[0] for row in (one, two) if row is not None)
        payload = {"k": known[2]["k"], "x": one and one[2]["x"], "y": two and two[2]["y"]}
        found.append(
            (at, at + 1, {**payload, "left_time": one and one[0], "right_time": two and two[0]})
        )

    for i, j in pairs:
        add(left[i], right[j])
    if how in ("left", "full"):
        for i in set(range(len(left))) - {i for i, _ in pairs}:
            add(left[i], None)
    if how in ("right", "full"):
        for j in set(range(len(right))) - {j for _, j in pairs}:
            add(None, right[j])
    return found


def by_windows(
    left_ids: Callable[[int], set[int]],
    right_ids: Callable[[int], set[int]],
    related: Callable[[int], set[int]],
) -> Meets:
    """Eq. 5.19: two rows meet when a window of the one and a window of the other are in widjoin."""
    return lambda one, two: any(related(i) & right_ids(two) for i in left_ids(one))


def extents(size: int, hop: int, offset: int = 0) -> Callable[[int], set[int]]:
    """wids(): the windows [offset + k * hop, offset + k * hop + size) that a time is in."""
    return lambda t: {k for k in range(-60, 60) if offset + k * hop <= t < offset + k * hop + size}


def ending_at(size: int) -> Callable[[int], set[int]]:
    """The windows of a sliding-window join, one for every tick: window w is (w - size, w]."""
    return lambda t: set(range(t, t + size))


DEFINITIONS: dict[str, tuple[JoinWindow, Meets]] = {
    "5.2.1, sliding": (
        tw.band(before=4, after=3),
        lambda left, right: left - 4 <= right < left + 3,
    ),
    "5.2.1, tumbling": (tw.same_window(5), lambda left, right: left // 5 == right // 5),
    "5.2.2, sliding": (
        tw.ranges(left=6, right=3),
        by_windows(ending_at(6), ending_at(3), lambda i: {i}),
    ),
    "5.2.2, sliding, as widjoin": (
        tw.widjoin(left=(6, 1, -5), right=(3, 1, -2)),
        by_windows(ending_at(6), ending_at(3), lambda i: {i}),
    ),
    "5.2.2, tumbling": (tw.same_window(5), by_windows(extents(5, 5), extents(5, 5), lambda i: {i})),
    "user-defined, the window before": (
        tw.widjoin(left=4, right=(6, 3, 1), match="i - 1"),
        by_windows(extents(4, 4), extents(6, 3, 1), lambda i: {i - 1}),
    ),
    "user-defined, several windows": (
        tw.widjoin(left=(8, 2), right=(3, 5), match=("i // 2", "i // 2 + 1")),
        by_windows(extents(8, 2), extents(3, 5), lambda i: {i // 2, i // 2 + 1}),
    ),
}


@pytest.mark.parametrize("name", DEFINITIONS)
@given(times, times, st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_a_window_join_is_what_its_definition_says(
    name: str, one: list[int], two: list[int], how: str
) -> None:
    window, meets = DEFINITIONS[name]
    left, right = points(one, "x"), points(two, "y")
    answer = tw.table(
        A.window_join(B, "k", window=window, how=how),
        {"a": [insert(p, s, e) for s, e, p in left], "b": [insert(p, s, e) for s, e, p in right]},
    )
    assert_same_table(nested_loop(left, right, meets, how), answer)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 9), st.integers(1, 9))
def test_both_definitions_of_a_sliding_window_agree(
    left: int, right: int, left_range: int, right_range: int
) -> None:
    """Eq. 5.20 to 5.22 against the predicate: a shared window id is a band on the times."""
    match_left = {w for w in range(-50, 80) if left - 1 < w <= left + left_range - 1}
    shared = match_left & ending_at(right_range)(right)
    assert bool(shared) == (left - right_range < right < left + left_range)
    band = tw.ranges(left=left_range, right=right_range)
    assert bool(shared) == (left - band.before <= right < left + band.after)


def test_question_5_8() -> None:
    """The left packet follows within 2 minutes, the right one within 3."""
    window = tw.band(before="2 min", after="3 min")
    assert (window.before, window.after) == (120_000_000, 180_000_000)


# ------------------------------------------------------------------------------------------ unlike
# streams, under the fuzzer


def skewed(random: Random) -> dict[str, list[Row]]:
    return {
        "a": points(sorted(random.choices(range(30), k=8)), "x"),
        "b": points([t + 25 for t in random.choices(range(30), k=8)], "y"),
    }


def lulled(random: Random) -> dict[str, list[Row]]:
    return {
        "a": points([1, 2, 50, 51, 52, 90], "x"),
        "b": points(sorted(random.choices(range(100), k=9)), "y"),
    }


def bursty(random: Random) -> dict[str, list[Row]]:
    return {
        "a": points([5] * 4 + [40] * 5, "x", 3),
        "b": points([t + random.randint(-2, 2) for t in [5] * 3 + [41] * 4], "y", 3),
    }


@pytest.mark.parametrize("streams", [skewed, lulled, bursty])
@pytest.mark.parametrize("how", ["inner", "full", "anti"])
def test_unsynchronised_inputs(streams: Callable[[Random], dict[str, list[Row]]], how: str) -> None:
    query = A.window_join(B, "k", window=tw.band(before=5, after=4), how=how).node
    inputs = streams(Random(how))
    expected = nested_loop(
        inputs["a"], inputs["b"], lambda left, right: left - 5 <= right < left + 4, how
    )
    assert_physically_independent(
        query, inputs, forms=4, consistency="speculative", expected=expected
    )


# ------------------------------------------------------------------------------------- results
# leave at once; state goes


def out(batches: Iterable[Batch]) -> list[Element]:
    return list(elements_of(batches))


def rows_held(engine: tw.Engine) -> int:
    return next(size.rows for name, size in engine.state_size().items() if name.startswith("join"))


def test_results_leave_when_both_rows_are_there() -> None:
    engine = tw.Engine(A.window_join(B, "k", window=tw.band(before=2, after=2)))
    assert out(engine.push("a", point({"k": 1, "x": 1}, 10))) == []
    joined = {"k": 1, "x": 1, "y": 2, "left_time": 10, "right_time": 9}
    assert out(engine.push("b", point({"k": 1, "y": 2}, 9))) == [Insert(joined, 10, 11)]


def test_a_row_that_can_meet_no_later_one_is_joined_and_not_kept() -> None:
    engine = tw.Engine(A.window_join(B, "k", window=tw.band(before=2, after=2)))
    engine.push("a", point({"k": 1, "x": 1}, 10))
    engine.push("a", cti(50))
    assert rows_held(engine) == 1
    answers = engine.push("b", [point({"k": 1, "y": 2}, 11), point({"k": 2, "y": 2}, 12)])
    assert sum(map(len, answers)) == 1
    assert rows_held(engine) == 1, (
        "the right rows are not held: the left stream has gone past what they can meet"
    )


def test_state_is_purged_by_the_other_sides_progress() -> None:
    engine = tw.Engine(A.window_join(B, "k", window=tw.band(before=2, after=3)))
    engine.push("a", [point({"k": 1, "x": n}, n) for n in range(10)])
    engine.push("a", cti(100))
    assert rows_held(engine) == 10, "progress of a stream says nothing about its own rows"
    engine.push("b", cti(8))
    assert rows_held(engine) == 4, (
        "rows from 6 on: those before lie 3 or more before anything that may come"
    )
    engine.push("b", cti(100))
    assert rows_held(engine) == 0


def test_a_retraction_on_either_side_takes_its_pairs_back() -> None:
    for side, payload in (("a", {"k": 1, "x": 1}), ("b", {"k": 1, "y": 2})):
        engine = tw.Engine(A.window_join(B, "k", window=tw.band(before=2, after=2), how="full"))
        engine.push("a", point({"k": 1, "x": 1}, 10))
        engine.push("b", point({"k": 1, "y": 2}, 10))
        changes = out(engine.push(side, remove(payload, 10, 11)))
        taken = [e.payload for e in changes if isinstance(e, Adjust)]
        assert taken == [{"k": 1, "x": 1, "y": 2, "left_time": 10, "right_time": 10}]
        (alone,) = [e.payload for e in changes if isinstance(e, Insert)]
        assert (alone["x"] is None) == (side == "a")


def test_as_of_takes_an_answer_back_when_a_better_one_comes() -> None:
    engine = tw.Engine(A.asof_join(B, "k"))
    engine.push("b", point({"k": 1, "y": 2}, 3))
    first = {"k": 1, "x": 1, "y": 2, "left_time": 10, "right_time": 3}
    assert out(engine.push("a", point({"k": 1, "x": 1}, 10))) == [Insert(first, 10, 11)]
    better = {"k": 1, "x": 1, "y": 5, "left_time": 10, "right_time": 7}
    changes = out(engine.push("b", point({"k": 1, "y": 5}, 7)))
    assert (
        len(changes) == 2
        and Adjust(first, 10, 11, 10) in changes
        and Insert(better, 10, 11) in changes
    )
    assert out(engine.push("b", point({"k": 1, "y": 6}, 11))) == [], "a later row is not before it"


@given(times, times, st.sampled_from([None, 3]), st.booleans())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_as_of_is_the_latest_row_before(
    one: list[int], two: list[int], within: int | None, exact: bool
) -> None:
    left, right = points(one, "x"), points(two, "y")
    expected: list[Row] = []
    for t, _, p in left:
        before = [
            r
            for r in right
            if r[2]["k"] == p["k"]
            and (r[0] <= t if exact else r[0] < t)
            and (within is None or t - r[0] <= within)
        ]
        best = [r for r in before if r[0] == max(b[0] for b in before)]
        expected += [
            (t, t + 1, {**p, "y": r[2]["y"], "left_time": t, "right_time": r[0]}) for r in best
        ]
    inputs = {
        "a": [insert(p, s, e) for s, e, p in left],
        "b": [insert(p, s, e) for s, e, p in right],
    }
    assert_same_table(expected, tw.table(A.asof_join(B, "k", within=within, exact=exact), inputs))


@given(times, times, times)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_three_streams_at_once(one: list[int], two: list[int], three: list[int]) -> None:
    sizes = {"a": 5, "b": 3, "c": 4}
    streams = {name: tw.source(name, {"k": "int64", "v": "int64"}) for name in sizes}
    rows = {name: points(at, "v") for name, at in zip(sizes, (one, two, three), strict=True)}
    expected: list[Row] = []
    for a in rows["a"]:
        for b in rows["b"]:
            for c in rows["c"]:
                spans = [
                    (row[0], row[0] + size)
                    for row, size in zip((a, b, c), sizes.values(), strict=True)
                ]
                if a[2]["k"] == b[2]["k"] == c[2]["k"] and max(s for s, _ in spans) < min(
                    e for _, e in spans
                ):
                    at = max(a[0], b[0], c[0])
                    expected.append(
                        (
                            at,
                            at + 1,
                            {
                                "s": a[2]["v"] + b[2]["v"] + c[2]["v"],
                                "a_time": a[0],
                                "b_time": b[0],
                                "c_time": c[0],
                            },
                        )
                    )
    query = tw.join_all(streams, "k", sizes=sizes, select={"s": "a.v + b.v + c.v"})
    assert_same_table(
        expected,
        tw.table(
            query, {name: [insert(p, s, e) for s, e, p in given_] for name, given_ in rows.items()}
        ),
    )


# ------------------------------------------------------------------------------------- individual
# and joint punctuation


def feed(
    query: tw.Stream, steps: list[tuple[str, int]], consistency: str = "final"
) -> list[list[Element]]:
    """Question 7-1: a SYN at 0 and its SYN_ACK at 1, then promises in a global order; what each of
    them lets go."""
    engine = tw.Engine(query, consistency=consistency)
    engine.push("a", point({"k": 1, "x": 1}, 0))
    engine.push("b", point({"k": 1, "y": 1}, 1))
    return [out(engine.push(source, cti(time))) for source, time in steps]


PUNCTUATION = [("b", 1), ("a", 1), ("b", 2), ("a", 3), ("b", 3), ("a", 4), ("b", 4)]
PAIRS = A.window_join(B, "k", window=tw.band(before=2, after=3))


def closing_step(query: tw.Stream) -> int:
    answers = feed(query, PUNCTUATION)
    return next(
        number
        for number, given_ in enumerate(answers)
        if any(isinstance(e, Insert) for e in given_)
    )


def test_joint_punctuation_closes_groups_earlier() -> None:
    """With joint punctuation the group (0, 1) closes once both streams have passed their own time;
    individual waits for the window."""
    joint = PAIRS.group_by("left_time", "right_time").snapshot().aggregate(n=tw.count())
    by_right_time = PAIRS.group_by("right_time").snapshot().aggregate(n=tw.count())
    by_left_time = PAIRS.group_by("left_time").snapshot().aggregate(n=tw.count())
    assert PUNCTUATION[closing_step(joint)] == ("b", 2), "left has passed 0, right has passed 1"
    assert closing_step(joint) < closing_step(by_right_time), (
        "a left row as late as 3 could still have met the right one"
    )
    assert closing_step(joint) < closing_step(by_left_time)


def test_promises_on_each_time_and_on_both() -> None:
    engine = tw.Engine(PAIRS)
    engine.push("a", [point({"k": 1, "x": 1}, 4), cti(6)])
    last = engine.push("b", [point({"k": 1, "y": 1}, 3), cti(5)])[-1].progress
    assert dict(last.column_promises) == {
        ("left_time",): (4,),
        ("left_time", "right_time"): (6, 5),
        ("right_time",): (5,),
    }
    assert last.cti == 5
    last = engine.push("b", cti(7))[-1].progress
    assert last.column_promises["left_time",] == (6,), (
        "the left row of 4 can meet nothing from 7 on"
    )


def test_a_window_over_one_of_the_times_closes_by_its_own_promise() -> None:
    """Question 7-2 counts by the left time: its windows close as soon as no left row before their
    end can meet anything more."""
    query = (
        A.window_join(B, "k", window=tw.band(before=2, after=2), at="left")
        .tumbling(10)
        .aggregate(n=tw.count())
    )
    engine = tw.Engine(query, consistency="final")
    engine.push("a", [point({"k": 1, "x": 1}, 8), cti(30)])
    assert not any(
        isinstance(e, Insert) for e in out(engine.push("b", [point({"k": 1, "y": 1}, 9), cti(9)]))
    )
    closed = out(engine.push("b", cti(10)))
    assert Insert({"n": 1}, 0, 10) in closed
    assert Cti(30) in closed, (
        "no left row before 30 is held, so that none before it can meet anything more"
    )


steps = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 6), st.booleans()), max_size=20)


@given(steps, st.integers(0, 5), st.integers(1, 5))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_promises_are_at_least_those_of_the_documents(
    given_: list[tuple[str, int, bool]], before: int, after: int
) -> None:
    """Figure 7-1 for each time, Figure 7-3 for both, and no promise goes back."""
    engine = tw.Engine(A.window_join(B, "k", window=tw.band(before=before, after=after)))
    reached = {"a": 0, "b": 0}
    last = tw.Progress()
    for source in reached:
        engine.push(source, cti(0))
    for number, (source, ahead, is_row) in enumerate(given_):
        if is_row:
            name = "x" if source == "a" else "y"
            answers = engine.push(source, point({"k": 1, name: number}, reached[source] + ahead))
        else:
            reached[source] += ahead
            answers = engine.push(source, cti(reached[source]))
        for answer in answers:
            assert last.merge(answer.progress) == answer.progress.merge(last)
            last = last.merge(answer.progress)
        if last.column_promises:
            left, right = reached["a"], reached["b"]
            assert last.column_promises["left_time", "right_time"] == (left, right)
            assert last.column_promises["left_time",][0] >= min(left, right - after)
            assert last.column_promises["right_time",][0] >= min(right, left - before)
            assert last.cti >= min(left, right)


# ------------------------------------------------------------------------------------------------
# refusals


def line_of(text: str) -> int:
    caller = inspect.currentframe().f_back  # type: ignore[union-attr]
    assert caller is not None
    source, first = inspect.getsourcelines(caller.f_code)
    return first + next(number for number, line in enumerate(source) if text in line)


MISTAKES: dict[str, tuple[Callable[[], object], type[ThalwegError], str]] = {
    "an endless left side": (
        lambda: A.set_duration(None).join(B, "k"),
        PlanError,
        "the left input (from a) would be kept for ever",
    ),
    "an endless right side": (
        lambda: A.join(B.set_duration(None).where("y > 1"), "k"),
        PlanError,
        "the right input (from b)",
    ),
    "an endless union": (
        lambda: A.join(B.union(B.set_duration("forever")), "k"),
        PlanError,
        "endless='right'",
    ),
    "a side that is none": (lambda: A.join(B, "k", endless="middle"), PlanError, "left or right"),
    "a time without promises": (
        lambda: A.window_join(B, "k", window=tw.same_window(5), left_time="x"),
        PlanError,
        "rows of the right input could never be dropped",
    ),
    "a time that goes back": (
        lambda: A.window_join(B, "k", window=tw.same_window(5), right_time="0 - _start"),
        PlanError,
        "left input",
    ),
    "no window": (
        lambda: A.window_join(B, "k", window=10),  # type: ignore[arg-type]
        PlanError,
        "same_window(...)",
    ),
    "no such kind": (
        lambda: A.window_join(B, "k", window=tw.same_window(5), how="outer"),
        PlanError,
        "how must be one of",
    ),
    "no such stamp": (
        lambda: A.window_join(B, "k", window=tw.same_window(5), at="latter"),
        PlanError,
        "Did you mean 'later'",
    ),
    "a stamp that may be missing": (
        lambda: A.window_join(B, "k", window=tw.same_window(5), how="left", at="right"),
        PlanError,
        "may lack the other time",
    ),
    "a name that is taken": (
        lambda: A.window_join(B, "k", window=tw.same_window(5), times=("x", "t")),
        PlanError,
        "has a column 'x' already",
    ),
    "an empty band": (lambda: tw.band(before=-3, after=2), WindowError, "nothing lies between"),
    "a widjoin that goes back": (
        lambda: tw.widjoin(left=5, right=5, match="0 - i"),
        WindowError,
        "must not fall",
    ),
    "a widjoin of nothing": (
        lambda: tw.widjoin(left=5, right=5, match=("i", "i - 1")),
        WindowError,
        "which is nothing",
    ),
    "a widjoin with holes": (
        lambda: tw.widjoin(left=(10, 5), right=5, match="2 * i"),
        WindowError,
        "must touch",
    ),
    "as-of from the right": (
        lambda: A.asof_join(B, "k", how="right"),
        PlanError,
        "how must be one of inner, left",
    ),
    "one stream alone": (lambda: tw.join_all({"a": A}, "k", sizes=5), PlanError, "at least two"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_refused_when_the_query_is_built(name: str) -> None:
    build, kind, message = MISTAKES[name]
    with pytest.raises(kind) as caught:
        build()
    assert message in str(caught.value)


def test_the_users_line_is_blamed() -> None:
    with pytest.raises(PlanError) as caught:
        A.set_duration(None).join(B, "k")
    assert f"test_window_joins.py:{line_of('A.set_duration(None)')}" in str(caught.value)


def test_a_table_of_reference_may_be_endless() -> None:
    query = A.join(B.set_duration(None), "k", endless="right")
    assert tw.table(
        query, {"a": [point({"k": 1, "x": 1}, 50)], "b": [point({"k": 1, "y": 2}, 3)]}
    ) == [(50, 51, {"k": 1, "x": 1, "y": 2})]


# ------------------------------------------------------------------------------------------------
# inside the kernels

sides = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 60),
        st.one_of(st.integers(1, 5), st.integers(1, 500), st.none()),
    ),
    max_size=90,
)


@given(sides, sides)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_overlaps_are_all_found(
    one: list[tuple[int, int, int | None]], two: list[tuple[int, int, int | None]]
) -> None:
    arrays = []
    for rows in (one, two):
        start = np.array([t for _, t, _ in rows], np.int64)
        end = np.array([tw.INFINITY if d is None else t + d for _, t, d in rows], np.int64)
        arrays += [np.array([k for k, _, _ in rows], np.int64), start, end]
    left, left_start, left_end, right, right_start, right_end = arrays
    expected = {
        (i, j)
        for i in range(len(one))
        for j in range(len(two))
        if left[i] == right[j] and left_start[i] < right_end[j] and right_start[j] < left_end[i]
    }
    found = overlapping_pairs(*arrays)
    assert (
        len(found[0]) == len(expected)
        and set(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected
    )


def test_only_touched_slices_are_written_again() -> None:
    engine = tw.Engine(A.window_join(B, "k", window=tw.band(before=10, after=10)))
    engine.push("a", [point({"k": 1, "x": n}, n) for n in range(400)])
    kernel = next(s.kernel for s in engine._graph.operators if s.id.startswith("join"))
    before = kernel.snapshot()
    engine.push("a", point({"k": 1, "x": 1}, 399))
    after = kernel.snapshot()
    slices = [name for name in after if name.startswith("left/")]
    changed = [name for name in slices if before.get(name) is not after[name]]
    assert len(slices) > 5 and len(changed) == 1


def test_a_long_row_does_not_widen_the_slices_of_short_ones() -> None:
    engine = tw.Engine(A.join(B, "k"))
    engine.push(
        "a",
        [
            *(insert({"k": 1, "x": n}, n, n + 5) for n in range(2_000)),
            insert({"k": 1, "x": 0}, 0, 10**9),
        ],
    )
    kernel = next(s.kernel for s in engine._graph.operators if s.id.startswith("join"))
    sizes = sorted(
        rows.num_rows for name, rows in kernel.snapshot().items() if name.startswith("left/")
    )
    assert sizes[0] == 1 and sizes[-1] < 500


def test_joint_punctuation_closes_windows_of_one_instant_and_question_7_1_in_sql() -> None:
    """Grouping by both times closes a group as soon as both streams have passed it, whatever the
    words for its windows: snapshots, windows of one tick, or GROUP BY S0.ts, S1.ts."""
    grouped = PAIRS.group_by("left_time", "right_time")
    asked = tw.sql(
        "SELECT a.ts, b.ts, count(*) FROM a [RANGE 3, WA ts], b [RANGE 3, WA ts] "
        "WHERE a.k = b.k GROUP BY a.ts, b.ts",
        {"a": A, "b": B},
    )
    for query in (grouped.tumbling(1).aggregate(n=tw.count()), asked):
        assert PUNCTUATION[closing_step(query)] == ("b", 2)
        engine = tw.Engine(query, consistency="final")
        engine.push("a", point({"k": 1, "x": 1}, 0))
        engine.push("b", point({"k": 1, "y": 1}, 1))
        before: list[Element] = []
        for source, time in PUNCTUATION[:3]:
            before += out(engine.push(source, cti(time)))
            engine = tw.Engine.restore(query, engine.snapshot(), consistency="final")
        assert [e.start for e in before if isinstance(e, Insert)] == [1]
