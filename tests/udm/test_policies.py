"""Modules that misbehave: what `fail` says, what `skip` does."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

import thalweg as tw
from thalweg import udm
from thalweg.errors import ModuleError
from thalweg.shards.local_engine import DividedEngine

S = tw.source("s", {"k": "string", "v": "int64"})
INPUT = [
    tw.point({"k": k, "v": v}, at)
    for at, (k, v) in enumerate([("a", 1), ("b", 13), ("c", 2), ("a", 3)])
]


@udm.aggregate("bad.raises", inputs={"v": "int64"}, output="int64")
def raises(values: Sequence[int]) -> int:
    if 13 in values:
        raise RuntimeError("thirteen")
    return sum(values)


@udm.aggregate("bad.wrong_type", inputs={"v": "int64"}, output="int64")
def wrong_type(values: Sequence[int]) -> Any:
    return "thirteen" if 13 in values else sum(values)


@udm.aggregate("bad.runs_for_ever", inputs={"v": "int64"}, output="int64")
def runs_for_ever(values: Sequence[int]) -> int:
    while 13 in values:
        with contextlib.suppress(Exception):  # what interrupts it must not be caught by that
            sum(values)
    return sum(values)


@udm.aggregate("bad.waits", inputs={"v": "int64"}, output="int64")
def waits(values: Sequence[int]) -> int:
    if 13 in values:
        threading.Event().wait(60)
    return sum(values)


@udm.aggregate("bad.sorts_in_place", inputs={"v": "int64"}, output="int64")
def sorts_in_place(values: Any) -> int:
    if 13 in values:
        values.sort()
    return sum(values)


@udm.aggregate("bad.writes_rows", inputs={"v": "int64", "k": "string"}, output="int64")
def writes_rows(rows: Any) -> int:
    for row in rows:
        if row["v"] == 13:
            row["v"] = 0
    return sum(row["v"] for row in rows)


@udm.aggregate("bad.writes_array", inputs={"v": "int64"}, output="int64", takes="numpy")
def writes_array(values: Any) -> int:
    if 13 in values:
        values[0] = 0
    return int(values.sum())


@udm.aggregate("bad.writes_frame", inputs={"v": "int64"}, output="int64", takes="pandas")
def writes_frame(frame: Any) -> int:
    if 13 in list(frame["v"]):
        frame["v"] = 0
    return int(frame["v"].sum())


@udm.operator(
    "bad.stamps_early",
    inputs={"v": "int64"},
    output={"v": "int64"},
    time_sensitive=True,
    stamp="keep",
)
def stamps_early(events: Sequence[udm.Event], window: udm.Window) -> list[udm.Event]:
    return [
        udm.Event(window.start - (event.payload == 13), window.end, sum(e.payload for e in events))
        for event in events[:1]
    ]


@udm.aggregate("bad.steps", inputs={"v": "int64"}, output="int64")
class Steps:
    def empty(self) -> int:
        return 0

    def add(self, state: int, values: Sequence[int]) -> int:
        return raises(values) + state

    def result(self, state: int) -> int:
        return state


@udm.aggregate("bad.in_columns", inputs={"v": "int64"}, output="int64")
class InColumns:
    def compute_groups(self, rows: Any, offsets: Any) -> list[int]:
        values = rows.column("v").to_pylist()
        return [raises(values[begin:end]) for begin, end in pairwise(offsets.tolist())]


BAD = [
    ("bad.raises", "it raised RuntimeError: thirteen"),
    ("bad.steps", "it raised RuntimeError: thirteen"),
    ("bad.in_columns", "it raised RuntimeError: thirteen"),
    ("bad.wrong_type", "it returned 'thirteen' for 'wrong_type', which it declared as int64"),
    ("bad.runs_for_ever", "it took longer than 0.05 s"),
    ("bad.waits", "it took longer than 0.05 s"),
    ("bad.sorts_in_place", "must not change its input"),
    ("bad.writes_rows", "must not change its input"),
    ("bad.writes_array", "must not change its input"),
    ("bad.writes_frame", "it changed its input"),
    ("bad.stamps_early", "it stamped an event [-1, 10), before its window"),
]


def query(name: str, on_error: str, window: str = "tumbling") -> tw.Stream:
    limit = "50 ms" if name in ("bad.runs_for_ever", "bad.waits") else None
    grouped = S.group_by("k")
    windowed = grouped.tumbling(10) if window == "tumbling" else grouped.snapshot()
    return windowed.apply(name, v="v", on_error=on_error, time_limit=limit)


@pytest.mark.parametrize(("name", "reason"), BAD)
def test_fail_names_module_window_group_and_input(name: str, reason: str) -> None:
    with pytest.raises(ModuleError) as failure:
        tw.table(query(name, "fail"), {"s": INPUT})
    text = str(failure.value)
    assert reason in text
    assert f"module {name}@1 failed on the window [0, 10) of the group {{'k': 'b'}}" in text
    assert "'v': 13" in text
    assert "on_error='skip'" in text


@pytest.mark.parametrize(("name", "reason"), BAD)
def test_skip_goes_on_with_the_other_groups(name: str, reason: str) -> None:
    engine = tw.Engine(query(name, "skip"))
    out = engine.push("s", INPUT) + engine.finish()
    answers = {
        e.payload["k"]: [*e.payload.values()][1]
        for e in tw.elements_of(out)
        if isinstance(e, tw.Insert)
    }
    assert answers == {"a": 4, "c": 2}
    (letter,) = engine.dead_letters().to_pylist()
    assert (letter["module"], letter["group"], letter["start"], letter["end"]) == (
        f"{name}@1",
        '{"k": "b"}',
        0,
        10,
    )
    assert reason in letter["reason"]
    assert "13" in letter["sample"]
    assert engine.dead_letters().num_rows == 0


@pytest.mark.parametrize("window", ["tumbling", "snapshot"])
def test_a_window_that_recovers_answers_again(window: str) -> None:
    engine = tw.Engine(query("bad.raises", "skip", window), consistency="eager")
    engine.push("s", [tw.insert({"k": "a", "v": 1}, 0, 5), tw.insert({"k": "a", "v": 13}, 0, 5)])
    assert engine.dead_letters().num_rows == 1
    out = engine.push("s", tw.remove({"k": "a", "v": 13}, 0, 5)) + engine.finish()
    assert [e.payload["raises"] for e in tw.elements_of(out) if isinstance(e, tw.Insert)] == [1]


def test_letters_survive_a_restart() -> None:
    engine = tw.Engine(query("bad.raises", "skip"), consistency="eager")
    engine.push("s", INPUT)
    again = tw.Engine.restore(query("bad.raises", "skip"), engine.snapshot(), consistency="eager")
    assert again.dead_letters().num_rows == 1


def test_time_limits_hold_in_other_threads() -> None:
    found: list[list[dict[str, Any]]] = []

    def work() -> None:
        engine = tw.Engine(query("bad.runs_for_ever", "skip"))
        engine.push("s", INPUT)
        engine.finish()
        found.append(engine.dead_letters().to_pylist())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert [letter["reason"] for letter in found[0]] == ["it took longer than 0.05 s"]


def test_time_limits_hold_where_a_program_sets_its_own_handler() -> None:
    engine = tw.Engine(query("bad.runs_for_ever", "skip"))
    engine.push("s", INPUT)
    before = signal.signal(signal.SIGURG, lambda *_: None)
    try:
        engine.finish()
    finally:
        signal.signal(signal.SIGURG, before)
    (letter,) = engine.dead_letters().to_pylist()
    assert letter["reason"] == "it took longer than 0.05 s"


DICE = Random(7)


@udm.aggregate("bad.dice", inputs={"v": "int64"}, output="double")
def dice(values: Sequence[int]) -> float:
    return DICE.random()


@udm.operator("bad.many_dice", inputs={"v": "int64"}, output={"v": "double"})
def many_dice(values: Sequence[int]) -> list[float]:
    return [DICE.random() for _ in range(3)]


@udm.aggregate("bad.known_dice", inputs={"v": "int64"}, output="double", deterministic=False)
def known_dice(values: Sequence[int]) -> float:
    return DICE.random()


@pytest.mark.parametrize("name", ["bad.dice", "bad.many_dice"])
def test_a_module_that_is_not_deterministic_is_found_out(name: str) -> None:
    engine = tw.Engine(S.tumbling(10).apply(name, "v"), consistency="eager")
    engine.push("s", tw.point({"k": "a", "v": 1}, 0))
    with pytest.raises(ModuleError, match=r"is not deterministic: .* say deterministic=False"):
        engine.push("s", tw.point({"k": "a", "v": 1}, 1))


def test_a_module_that_says_so_may_throw_dice() -> None:
    engine = tw.Engine(S.tumbling(10).apply("bad.known_dice", "v"), consistency="eager")
    out = [
        batch for at in range(5) for batch in engine.push("s", tw.point({"k": "a", "v": 1}, at))
    ] + engine.finish()
    assert len(tw.cht(e for e in tw.elements_of(out) if not isinstance(e, tw.Cti))) == 1


def test_output_that_breaks_a_promise_is_refused() -> None:
    @udm.operator(
        "bad.not_bound",
        inputs={"v": "int64"},
        output={"n": "int64"},
        time_sensitive=True,
        stamp="time-bound",
        time_bound=True,
    )
    def not_bound(events: Sequence[udm.Event], window: udm.Window) -> list[udm.Event]:
        return [udm.Event(window.start, window.end, len(events))]

    engine = tw.Engine(S.tumbling(10).apply("bad.not_bound", "v"))
    engine.push("s", [tw.point({"k": "a", "v": 1}, 1), tw.cti(5)])
    with pytest.raises(
        ModuleError, match="is not time-bound: after the CTI 5 it changed the output"
    ):
        engine.push("s", tw.point({"k": "a", "v": 1}, 6))


def test_divided_by_buckets_letters_travel_with_the_answers() -> None:
    engine = DividedEngine(query("bad.raises", "skip"))
    out = engine.push("s", INPUT) + engine.finish()
    assert sorted(e.payload["k"] for e in tw.elements_of(out) if isinstance(e, tw.Insert)) == [
        "a",
        "c",
    ]
