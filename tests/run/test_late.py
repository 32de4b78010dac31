"""Late events: what each policy makes of them, that every one is counted, and that the ledger has
it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import thalweg as tw
from thalweg.errors import LateEventError
from thalweg.model import INFINITY, Element, Row, adjust, assert_sound, cti, insert, point

COLUMNS = {"k": "string", "v": "int64"}

X = {"k": "x", "v": 1}
TOO_LATE: list[Element] = [
    insert(X, 1, 20),
    cti(10),
    insert(X, 4, 15),
    insert(X, 5, 8),
    adjust(X, 1, 20, 6),
]
LATE_TABLES = {
    "drop": [(1, 20, X)],
    "side": [(1, 20, X)],
    "adjust": [(1, 10, X), (10, 15, X)],  # moved to the promise, as far as something is left
}


@pytest.mark.parametrize("late", LATE_TABLES)
def test_late_events_are_left_out_or_moved_counted_and_kept(late: str) -> None:
    engine = tw.Engine(tw.source("s", COLUMNS, late=late))
    batches = engine.push("s", TOO_LATE)
    assert_sound(batches)
    assert tw.cht(tw.elements_of(batches)) == LATE_TABLES[late]
    assert engine.late_count("s") == engine.status().late == 3
    ledger = engine.late("s").to_pylist()
    assert [
        (entry["_kind"], entry["_start"], entry["_end"], entry["_promise"]) for entry in ledger
    ] == [
        (0, 4, 15, 10),
        (0, 5, 8, 10),
        (1, 1, 20, 10),
    ]
    moved = ["moved", "left out", "moved"] if late == "adjust" else ["left out"] * 3
    assert [entry["_action"] for entry in ledger] == moved


def test_the_ledger_is_handed_over_and_the_count_stays() -> None:
    engine = tw.Engine(tw.source("s", COLUMNS, late="drop"))
    engine.push("s", TOO_LATE)
    assert engine.late("s").num_rows == 3
    assert engine.late("s").num_rows == 0 and engine.late("s").schema.names[:4] == [
        "_kind",
        "_start",
        "_end",
        "_new_end",
    ]
    assert engine.late_count("s") == 3


def test_late_events_under_error_are_refused_and_not_counted() -> None:
    engine = tw.Engine(tw.source("s", COLUMNS))
    engine.push("s", TOO_LATE[:2])
    with pytest.raises(
        LateEventError,
        match=r"source 's', batch 1, row 0: .* changes time 4, before the promise 10",
    ):
        engine.push("s", TOO_LATE[2:])
    assert engine.late_count("s") == engine.late("s").num_rows == 0


def test_disorder_makes_the_promise_that_events_can_break() -> None:
    engine = tw.Engine(tw.source("s", COLUMNS, disorder=5, late="drop"))
    out = engine.push("s", [point(X, 10), point(X, 5), point(X, 4)])
    assert list(tw.elements_of(out)) == [point(X, 10), point(X, 5), cti(5)]
    assert engine.late("s").column("_promise").to_pylist() == [5]


def test_a_later_adjust_of_a_row_that_was_left_out_is_left_out_too() -> None:
    engine = tw.Engine(tw.source("s", COLUMNS, late="drop"))
    out = engine.push("s", [cti(10), insert(X, 4, 15), adjust(X, 4, 15, 18)])
    assert not any(len(batch) for batch in out)
    assert engine.late_count("s") == 2


def test_late_entries_that_nobody_has_taken_survive_a_restart() -> None:
    query = tw.source("s", COLUMNS, late="side")
    engine = tw.Engine(query)
    engine.push("s", TOO_LATE)
    restored = tw.Engine.restore(query, engine.snapshot())
    assert restored.late_count("s") == 3
    assert restored.late("s").num_rows == 3


def test_the_same_event_twice_late_is_two_entries() -> None:
    engine = tw.Engine(tw.source("s", COLUMNS, late="drop"))
    engine.push("s", [cti(10), point(X, 3), point(X, 3)])
    assert engine.late_count("s") == engine.late("s").num_rows == 2


def test_each_source_has_a_ledger_of_its_own() -> None:
    one, two = (tw.source(name, COLUMNS, late="drop") for name in ("one", "two"))
    engine = tw.Engine(one.union(two))
    engine.push("one", [cti(10), point(X, 3)])
    engine.push("two", [point(X, 3), cti(10), point(X, 4), point(X, 5)])
    assert (engine.late_count("one"), engine.late_count("two"), engine.status().late) == (1, 2, 3)
    assert engine.late("two").column("_start").to_pylist() == [4, 5]


def test_a_late_row_that_was_moved_is_the_row_that_later_adjusts_speak_of() -> None:
    engine = tw.Engine(tw.source("s", COLUMNS, late="adjust"))
    out = engine.push("s", [cti(10), insert(X, 4, 15), adjust(X, 4, 15, 18)])
    assert tw.cht(tw.elements_of(out)) == [(10, 18, X)]
    assert engine.late_count("s") == 1


def test_what_is_late_does_not_depend_on_how_the_input_is_cut() -> None:
    arriving: list[Element] = [point(X, time) for time in (10, 3, 20, 14, 15, 9, 30, 24)]
    source = tw.source("s", COLUMNS, disorder=5, late="drop")
    tables, ledgers = [], []
    for size in (1, 3, len(arriving)):
        engine = tw.Engine(source)
        out = [
            batch
            for at in range(0, len(arriving), size)
            for batch in engine.push("s", arriving[at : at + size])
        ]
        tables.append(tw.cht(tw.elements_of(out)))
        ledgers.append(engine.late("s").column("_start").to_pylist())
    assert tables[0] == tables[1] == tables[2]
    assert ledgers == [[3, 14, 9, 24]] * 3


@pytest.mark.parametrize("late", ["drop", "adjust"])
def test_an_adjust_that_follows_a_late_one_does_not_depend_on_how_the_input_is_cut(
    late: str,
) -> None:
    # The source believes in the end 7 that came too late; what it says of that end is too late as
    # well.
    arriving: list[Element] = [
        insert(X, 5, 13),
        cti(10),
        adjust(X, 5, 13, 7),
        adjust(X, 5, 7, None),
    ]
    apart, together = (tw.Engine(tw.source("s", COLUMNS, late=late)) for _ in range(2))
    one_by_one = [batch for element in arriving for batch in apart.push("s", element)]
    assert tw.cht(tw.elements_of(one_by_one)) == tw.cht(
        tw.elements_of(together.push("s", arriving))
    )
    assert apart.late_count("s") == together.late_count("s")


def test_an_adjust_of_an_end_that_came_too_late_is_left_out_as_well() -> None:
    # The row has ended for good at 12. That it goes on is too late, and so is everything that is
    # said of it afterwards.
    engine = tw.Engine(tw.source("s", COLUMNS, late="drop"))
    arriving: list[Element] = [
        insert(X, 5, 12),
        cti(20),
        adjust(X, 5, 12, None),
        adjust(X, 5, None, 40),
        adjust(X, 5, 40, 30),
    ]
    out = [batch for element in arriving for batch in engine.push("s", element)]
    assert tw.cht(tw.elements_of(out)) == [(5, 12, X)]
    assert engine.late_count("s") == 3


def test_an_end_that_stays_infinite_does_not_make_the_source_newer() -> None:
    engine = tw.Engine(tw.source("s", COLUMNS, disorder=5))
    engine.push("s", [insert(X, 1), adjust(X, 1, None, None)])
    assert engine.status().progress.cti == -4
    engine.push("s", point(X, 0))


# ------------------------------------------------------------------------------------------------
# any cuts

Played = tuple[list[Row], list[tuple[Any, ...]]]


def some_stream(random: Random, *, promises: bool, scoped: bool) -> list[Element]:
    """Rows around a time that moves on, adjusts of what the source believes is there, and CTIs that
    many of them break."""
    made: list[Element] = []
    believed: list[tuple[dict[str, Any], int, int]] = []
    now, promised = 0, {"a": -10, "b": -10}
    for _ in range(random.randint(5, 25)):
        now += random.randint(0, 4)
        kind = random.random()
        if kind < 0.45 or not believed:
            payload, start = (
                {"k": random.choice("ab"), "v": random.randint(0, 1)},
                now - random.randint(0, 12),
            )
            end = random.choice([INFINITY, start + random.randint(1, 15)])
            made.append(insert(payload, start, end))
            believed.append((payload, start, end))
        elif kind < 0.8:
            payload, start, end = believed.pop(random.randrange(len(believed)))
            new_end = random.choice([INFINITY, start, start + random.randint(1, 20)])
            made.append(adjust(payload, start, end, new_end))
            believed += [(payload, start, new_end)] if new_end > start else []
        elif promises:
            groups = [random.choice("ab")] if scoped and random.random() < 0.5 else ["a", "b"]
            time = now - random.randint(0, 8)
            if time > max(promised[group] for group in groups):
                promised |= dict.fromkeys(groups, time)
                made.append(cti(time, {"k": groups[0]} if len(groups) == 1 else None))
    return made


def played(source: tw.Stream, parts: list[list[Element]], *, restart: bool) -> Played:
    engine = tw.Engine(source)
    out = []
    for part in parts:
        out += engine.push("s", part)
        if restart:
            engine = tw.Engine.restore(source, engine.snapshot())
    out += engine.finish()
    assert_sound(out)
    ledger = engine.late("s")
    assert engine.late_count("s") == ledger.num_rows
    return tw.cht(tw.elements_of(out), source.schema), [
        tuple(entry.values()) for entry in ledger.to_pylist()
    ]


MODES: dict[str, dict[str, Any]] = {
    "promises": {},
    "promises of groups": {"group_ctis": "k"},
    "disorder": {"disorder": 4},
    "partitions": {"disorder": 3, "partition": "k"},
    "a low watermark": {"disorder": 3, "partition": "k", "low_watermark": (3, 8)},
}


@pytest.mark.parametrize("late", LATE_TABLES)
@pytest.mark.parametrize("mode", MODES)
def test_table_and_ledger_do_not_depend_on_how_the_input_is_cut(mode: str, late: str) -> None:
    source, some_late = tw.source("s", COLUMNS, late=late, **MODES[mode]), 0
    for seed in range(15):
        random = Random(f"{mode}/{late}/{seed}")
        arriving = some_stream(
            random, promises="disorder" not in MODES[mode], scoped="group_ctis" in MODES[mode]
        )
        cuts = sorted(random.sample(range(len(arriving) + 1), 3))
        apart = played(source, [[element] for element in arriving], restart=False)
        parts = [
            arriving[begin:end]
            for begin, end in zip([0, *cuts], [*cuts, len(arriving)], strict=True)
        ]
        assert played(source, [arriving], restart=False) == apart
        assert played(source, parts, restart=True) == apart
        some_late += len(apart[1])
    assert some_late > 15
