"""A merge by hand: policies, joining and leaving, broken levels, disagreement, answers by group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from thalweg.errors import LateEventError, LifetimeError, PlanError, UnknownRowError
from thalweg.merging import Merger, MergeStatus
from thalweg.model import Batch, Element, adjust, cht, cti, elements_of, insert, remove
from thalweg.model.progress import Progress
from thalweg.operators.base import StateSize
from thalweg.plan.merging import Level, MergePolicy

SCHEMA = pa.schema([("p", pa.string())])
COUNTS = pa.schema([("k", pa.string()), ("n", pa.int64())])
A, B, C = ({"p": name} for name in "ABC")


def merged(merger: Merger, *steps: tuple[str, Element | list[Element]]) -> list[Element]:
    return list(elements_of([out for name, feed in steps for out in merger.push(name, feed)]))


def figures(merger: Merger) -> MergeStatus:
    """All of its status but bytes, which depend on how rows came."""
    status = merger.status()
    return replace(status, state=StateSize(status.state.rows))


def two(level: Level = "R3", policy: MergePolicy | None = None) -> Merger:
    merger = Merger(SCHEMA, level=level, policy=policy)
    merger.attach("one")
    merger.attach("two")
    return merger


# ------------------------------------------------------------------------------------------------
# joining and leaving


@pytest.mark.parametrize("level", ["R0", "R1", "R2", "R3", "R4"])
def test_an_input_that_joins_may_not_lead_before_its_time(level: Level) -> None:
    merger = Merger(SCHEMA, level=level)
    merger.attach("old")
    merged(merger, ("old", [insert(A, 0, 50), cti(5)]))
    merger.attach("new", since=20)
    assert merged(merger, ("new", cti(30))) == []
    assert merger.cti == 5 and not merger.status().inputs["new"].joined
    assert merged(merger, ("old", [insert(B, 10, 12), cti(20)]))[-1] == cti(30)
    assert merger.status().inputs["new"].joined


def test_an_input_that_joins_never_lowers_the_promise() -> None:
    merger = two()
    merged(merger, ("one", [insert(A, 0, 9), cti(20)]))
    merger.attach("new", since=10)
    assert merged(merger, ("new", cti(15))) == []
    assert merger.cti == 20


def test_all_but_one_may_fail_at_once() -> None:
    merger = Merger(SCHEMA)
    for name in ("a", "b", "c"):
        merger.attach(name)
    out = merged(merger, ("a", insert(A, 0, 9)), ("b", [insert(B, 1, 9), insert(A, 0, 9)]))
    for name in ("a", "b"):
        out += list(elements_of(merger.detach(name)))
    out += merged(merger, ("c", [insert(A, 0, 9), insert(B, 1, 7), cti(20)]))
    assert out == [insert(A, 0, 9), insert(B, 1, 9), adjust(B, 1, 9, 7), cti(20)]


def test_r1_an_input_that_joins_inside_a_run_counts_from_its_time_on() -> None:
    merger = Merger(SCHEMA, level="R1")
    merger.attach("old")
    out = merged(merger, ("old", [insert(A, 5, 6), insert(B, 5, 6)]))
    merger.attach("new", since=8)
    # the second row of the run is the first that the new input sends; it must not come out again
    out += merged(merger, ("new", [insert(B, 5, 6), insert(C, 9, 10)]))
    out += merged(merger, ("old", [insert(C, 9, 10), cti(10)]))
    assert out == [insert(A, 5, 6), insert(B, 5, 6), insert(C, 9, 10), cti(10)]


def test_an_input_is_named_once() -> None:
    merger = two()
    with pytest.raises(PlanError, match="there is an input 'one' already"):
        merger.attach("one")
    with pytest.raises(PlanError, match=r"no input 'on'\. Did you mean 'one'"):
        merger.push("on", cti(3))


# ------------------------------------------------------------------------------------------------
# inputs that are wrong


def test_an_input_that_breaks_its_promise_is_refused_whole() -> None:
    merger = two()
    merger.push("one", cti(10))
    with pytest.raises(LateEventError, match="'one' has promised 10"):
        merger.push("one", [insert(A, 12, 15), insert(A, 3, 15)])
    assert merger.status().state.rows == 0


def test_an_adjust_of_a_row_that_is_not_there_is_refused_whole() -> None:
    for level in ("R3", "R4"):
        merger = two(level)
        merger.push("one", insert(A, 0, 9))
        with pytest.raises(UnknownRowError, match=r"input 'two' adjusts \{'p': 'A'\} from 0 to 9"):
            merger.push("two", [insert(B, 0, 4), adjust(A, 0, 9, 5)])
        assert merger.status().state.rows == 1


def test_a_lifetime_that_ends_before_it_starts_is_refused() -> None:
    rows = pa.RecordBatch.from_pydict({"p": ["A"]})
    with pytest.raises(LifetimeError, match="input 'one'"):
        two().push("one", Batch(rows, np.array([5]), np.array([3])))


# ------------------------------------------------------------------------------------------------
# broken levels

OUT_OF_ORDER: dict[Level, list[Element]] = {
    "R0": [insert(B, 5, 9)],
    "R1": [insert(B, 4, 9)],
    "R2": [insert(B, 4, 9)],
}


@pytest.mark.parametrize("level", ["R0", "R1", "R2"])
def test_cut_an_input_that_breaks_its_level_leaves_and_is_named(level: Level) -> None:
    merger = two(level)
    out = merged(merger, ("one", insert(A, 5, 9)), ("one", OUT_OF_ORDER[level]))
    status = merger.status()
    assert list(status.inputs) == ["two"]
    assert "input 'one' has {'p': 'B'}" in str(status.alarms[0]) and level in str(status.alarms[0])
    out += merged(merger, ("two", [insert(A, 5, 9), insert(C, 6, 7), cti(9)]))
    assert out == [insert(A, 5, 9), insert(C, 6, 7), cti(9)]


@pytest.mark.parametrize("level", ["R0", "R1", "R2"])
def test_climb_nothing_is_lost_or_repeated(level: Level) -> None:
    merger = Merger(SCHEMA, level=level, broken="climb")
    merger.attach("one")
    out = merged(merger, ("one", insert(A, 5, 9)), ("one", [*OUT_OF_ORDER[level], cti(20)]))
    assert out == [insert(A, 5, 9), *OUT_OF_ORDER[level], cti(20)]


def test_an_adjust_breaks_a_level_of_inserts() -> None:
    merger = two("R2")
    merger.push("one", insert(A, 5, 9))
    merger.push("one", adjust(A, 5, 9, 7))
    assert "at R2 there are only inserts" in str(merger.status().alarms[0])


def test_a_merge_that_climbs_still_finds_rows_by_their_tolerance() -> None:
    merger = Merger(pa.schema([("v", pa.float64())]), level="R3", tolerance=0.01)
    for name in ("one", "two"):
        merger.attach(name)
    near, far = {"v": 1.001}, {"v": 7.0}
    out = merged(
        merger,
        ("one", insert({"v": 1.0}, 5, 10)),
        ("two", insert(near, 5, 10)),
        ("one", [insert(far, 6, 10), insert(far, 6, 11)]),
        ("two", [adjust(near, 5, 10, 12), cti(30)]),
    )
    assert merger.status().level == "R4"
    assert cht(out) == [(5, 12, {"v": 1.0})]


def test_r3_climbs_to_r4_where_a_row_comes_twice() -> None:
    merger = two()
    out = merged(
        merger, ("one", insert(A, 0, 9)), ("two", insert(A, 0, 9)), ("two", insert(A, 0, 7))
    )
    assert merger.status().level == "R4"
    assert "input 'two' has {'p': 'A'} from 0 twice" in str(merger.status().alarms[0])
    out += merged(merger, ("one", [insert(A, 0, 7), cti(20)]), ("two", cti(30)))
    assert out == [insert(A, 0, 9), insert(A, 0, 7), cti(20), cti(30)]


# ------------------------------------------------------------------------------------------------
# disagreement


@pytest.mark.parametrize("level", ["R3", "R4"])
def test_disagreement_about_a_frozen_row_names_both_inputs_and_the_row(level: Level) -> None:
    merger = two(level)
    out = merged(
        merger, ("one", [insert(A, 0, 50), cti(10)]), ("two", [insert(B, 20, 30), cti(25)])
    )
    [alarm] = merger.status().alarms
    assert (alarm.input, alarm.other, alarm.payload, alarm.start) == ("two", "one", A, 0)
    assert out == [insert(A, 0, 50), cti(10), insert(B, 20, 30), cti(25)]  # sound


def test_an_end_that_the_promise_forbids_is_an_alarm() -> None:
    merger = two()
    merged(merger, ("two", insert(A, 0, 8)), ("one", [insert(A, 0, 50), cti(10)]))
    merged(merger, ("two", cti(60)))
    [alarm] = merger.status().alarms
    assert "'two' has the end 8, the output the end 50" in str(alarm)


COMPARE = MergePolicy(settled="compare")


@pytest.mark.parametrize("level", ["R3", "R4"])
def test_an_input_that_contradicts_a_settled_row_is_an_alarm(level: Level) -> None:
    merger = two(level, COMPARE)
    out = merged(merger, ("one", [insert(A, 0, 5), insert(B, 1, 6), cti(20)]))
    merged(merger, ("two", [insert(A, 0, 5), insert(B, 1, 8), cti(7)]))
    [alarm] = merger.status().alarms
    assert (alarm.input, alarm.other, alarm.payload, alarm.start) == ("two", "one", B, 1)
    assert "8" in str(alarm) and "settled the end" in str(alarm)
    assert out == [insert(A, 0, 5), insert(B, 1, 6), cti(20)]  # it stays as it was
    assert merged(merger, ("two", cti(30))) == [cti(30)]
    assert merger.status().state.rows == 0


@pytest.mark.parametrize("level", ["R3", "R4"])
def test_an_input_that_lacks_a_settled_row_or_has_another_is_an_alarm(level: Level) -> None:
    merger = two(level, COMPARE)
    merged(merger, ("one", [insert(A, 0, 5), cti(20)]), ("two", insert(C, 2, 4)))
    assert not merger.status().alarms  # it may still take C back, and bring A
    merged(merger, ("two", cti(3)))
    [alarm] = merger.status().alarms
    assert (alarm.payload, alarm.other) == (C, "one") and "no such row" in str(alarm)
    merged(merger, ("two", cti(10)))
    assert [alarm.payload for alarm in merger.status().alarms] == [C, A]
    assert merged(merger, ("two", cti(21))) == [cti(21)]


def test_what_an_input_says_about_settled_rows_on_the_way_is_no_alarm() -> None:
    merger = two(policy=COMPARE)
    merged(merger, ("one", [insert(A, 0, 5), cti(20)]))
    again = Merger(SCHEMA, policy=COMPARE)
    for step in (insert(A, 0, 9), insert(B, 3, 9), remove(B, 3, 9), adjust(A, 0, 9, 5), cti(30)):
        assert merged(merger, ("two", step)) == ([] if step != cti(30) else [step])
        again.restore(merger.snapshot())
        assert figures(again) == figures(merger)
    assert merger.status().alarm_count == 0 and merger.status().state.rows == 0


def test_settled_rows_are_kept_for_the_slowest_input_only() -> None:
    merger = two(policy=COMPARE)
    merged(merger, ("one", [insert(A, 0, 5), insert(B, 1, 6), cti(20)]))
    assert merger.status().state.rows == 2
    merged(merger, ("two", [insert(A, 0, 5), cti(6)]))
    assert merger.status().state.rows == 1
    merger.detach("two")
    assert merger.status().state.rows == 0 and merger.status().alarm_count == 0


# ------------------------------------------------------------------------------------------------
# promises for groups


@pytest.mark.parametrize("level", ["R3", "R4"])
def test_every_group_has_its_own_leader(level: Level) -> None:
    merger = Merger(COUNTS, level=level)
    merger.attach("one")
    merger.attach("two")
    a, b = {"k": "a", "n": 1}, {"k": "b", "n": 1}
    out = merged(
        merger,
        ("one", [insert(a, 0, 10), insert(b, 0, 10)]),
        ("two", [insert(a, 0, 9), insert(b, 0, 9)]),
        ("one", cti(30, {"k": "a"})),
        ("two", cti(20, {"k": "b"})),
    )
    assert out[2:] == [cti(30, {"k": "a"}), adjust(b, 0, 10, 9), cti(20, {"k": "b"})]
    assert merger.status().group_leaders == {("a",): "one", ("b",): "two"}
    assert merger.status().state.rows == 0  # both groups are settled
    out = merged(merger, ("two", [insert(b, 25, 40), cti(26)]), ("one", insert(b, 25, 40)))
    assert out == [insert(b, 25, 40), cti(26)]
    assert merger.status().leader == "two"


def test_an_input_that_breaks_a_promise_for_a_group_is_refused() -> None:
    merger = Merger(COUNTS)
    merger.attach("one")
    merger.push("one", cti(30, {"k": "a"}))
    merger.push("one", insert({"k": "b", "n": 1}, 3, 9))
    with pytest.raises(LateEventError, match="'one' has promised 30"):
        merger.push("one", insert({"k": "a", "n": 1}, 3, 9))


# ------------------------------------------------------------------------------------------------
# answers by group


def test_by_group_an_answer_is_never_shown_twice() -> None:
    merger = Merger(COUNTS, groups=("k",))
    merger.attach("one")
    merger.attach("two")
    one, three = {"k": "a", "n": 1}, {"k": "a", "n": 3}
    out = merged(
        merger,
        ("one", insert(one, 0, 10)),
        ("two", insert(three, 0, 10)),
        ("one", [remove(one, 0, 10), insert(three, 0, 10)]),
        ("two", cti(20)),
    )
    assert out == [insert(one, 0, 10), remove(one, 0, 10), insert(three, 0, 10), cti(20)]


def test_by_payload_two_replicas_show_two_rows_for_one_window() -> None:
    merger = Merger(COUNTS)
    merger.attach("one")
    merger.attach("two")
    out = merged(
        merger,
        ("one", insert({"k": "a", "n": 1}, 0, 10)),
        ("two", insert({"k": "a", "n": 3}, 0, 10)),
    )
    assert len(out) == 2


def test_tolerance_values_that_differ_in_the_last_bits_are_one_row() -> None:
    schema = pa.schema([("k", pa.string()), ("mean", pa.float64())])
    merger = Merger(schema, groups=("k",), tolerance=1e-9)
    merger.attach("one")
    merger.attach("two")
    low, high = {"k": "a", "mean": 0.1 + 0.2}, {"k": "a", "mean": 0.3}
    out = merged(merger, ("one", insert(low, 0, 10)), ("two", [insert(high, 0, 10), cti(20)]))
    assert out == [insert(low, 0, 10), cti(20)]
    assert merger.status().alarm_count == 0


# ------------------------------------------------------------------------------------------------
# policies


def test_lag_keeps_the_promise_behind() -> None:
    merger = two(policy=MergePolicy(lag=4))
    assert merged(merger, ("one", [insert(A, 0, 9), cti(20)])) == [insert(A, 0, 9), cti(16)]


def test_share_waits_for_enough_inputs() -> None:
    merger = two(policy=MergePolicy(insert="share", share=1.0))
    assert merged(merger, ("one", insert(A, 0, 9))) == []
    assert merged(merger, ("two", insert(A, 0, 8))) == [insert(A, 0, 8)]


def test_half_frozen_rows_are_never_removed() -> None:
    merger = two(policy=MergePolicy(insert="half frozen"))
    steps: list[tuple[str, Element | list[Element]]] = [
        ("one", [insert(A, 0, 9), remove(A, 0, 9), insert(B, 2, 9), cti(1)]),
        ("two", [insert(B, 2, 8), cti(20)]),
    ]
    assert merged(merger, *steps) == [cti(1), insert(B, 2, 8), cti(20)]


def test_chattiness_is_counted_by_its_cause() -> None:
    merger = two(policy=MergePolicy(revise="every"))
    merged(merger, ("one", insert(A, 0, 9)), ("two", insert(A, 0, 12)), ("one", cti(30)))
    status = merger.status()
    assert (status.inserts, status.adjusts, status.removals) == (1, 2, 0)
    assert status.chattiness == {"promise": 1, "policy": 1, "other leader": 0}


@pytest.mark.parametrize("choice", [{"insert": "first"}, {"lag": -1}, {"share": 0}])
def test_a_policy_that_makes_no_sense_is_refused(choice: dict[str, object]) -> None:
    with pytest.raises(PlanError, match="merge:"):
        MergePolicy(**choice)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------
# many rows


def test_state_is_bounded_and_gone_in_the_end() -> None:
    merger = two()
    for at in range(0, 20_000, 500):
        start = np.arange(at, at + 500)
        rows = pa.RecordBatch.from_pydict({"p": [str(number) for number in start]})
        for name in ("one", "two"):
            merger.push(name, Batch(rows, start, start + 300, progress=Progress(at + 500)))
        assert merger.status().state.rows <= 301
    merger.push("one", cti(None))
    assert merger.status().state.rows == 0


@pytest.mark.parametrize("name", ["", "\x00", "café", "x" * 1_000])
def test_payloads_of_any_text(name: str) -> None:
    merger = two()
    row = {"p": name}
    out = merged(merger, ("one", insert(row, 0, 5)), ("two", [insert(row, 0, 5), cti(9)]))
    assert out == [insert(row, 0, 5), cti(9)]


@pytest.mark.parametrize("level", ["R0", "R1", "R2", "R3", "R4"])
def test_the_leader_says_how_many_rows_it_left_out(level: Level) -> None:
    """`two` lacks the rows from 5 and from 7; `three` has them too, which counts once."""
    merger = Merger(pa.schema([("user", pa.string())]), level=level)
    for name in ("one", "two", "three"):
        merger.attach(name)
    rows: list[Element] = [
        insert({"user": user}, start, 9) for user, start in zip("abc", (5, 6, 7), strict=True)
    ]
    merger.push("two", [rows[1], insert({"user": "d"}, 8, 9), cti(20)])
    for name in ("one", "three"):
        merger.push(name, rows)
    expected = 2 if level in ("R0", "R1", "R2") else 0  # the promise came before they were known
    assert merger.status().left_out == expected
    again = Merger(merger.schema, level=level)
    again.restore(merger.snapshot())
    assert figures(again) == figures(merger)


@pytest.mark.parametrize("level", ["R3", "R4"])
def test_rows_that_a_promise_leaves_out_are_counted(level: Level) -> None:
    merger = Merger(pa.schema([("user", pa.string())]), level=level)
    for name in ("one", "two"):
        merger.attach(name)
    rows: list[Element] = [insert({"user": user}, 5, 9) for user in "abc"]
    merger.push("one", rows)
    merger.push("two", [rows[1], cti(20)])
    assert merger.status().left_out == 2
    again = Merger(merger.schema, level=level)
    again.restore(merger.snapshot())
    assert figures(again) == figures(merger)
    again.push("one", cti(30))
    assert again.status().left_out == 2  # they were left out once
