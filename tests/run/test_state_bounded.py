"""State is bounded by the disorder and the windows, not by the length of the stream.

The stream comes in laps: the same disordered rows again and again, each lap later in time, with a
CTI at its end. What an operator holds after ten times as many laps must be what it held after a
few, to the row; after the end it holds nothing. The ledger of late events is not state: it is
handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

import thalweg as tw
from thalweg.model import Element, Insert, adjust, cti, insert, remove

LAP, DISORDER = 20, 6
SHORT, LONG = 3, 30
COLUMNS = {"k": "int64", "v": "int64"}
A, B = tw.source("a", COLUMNS), tw.source("b", COLUMNS)

KeyOf = Callable[[int, int], int]


def same_keys(lap: int, drawn: int) -> int:
    return drawn


def new_keys(lap: int, drawn: int) -> int:
    """Keys such as those of sessions or orders: each lap has its own, and they never come back."""
    return 3 * lap + drawn


def lap_of(source: str, lap: int, key_of: KeyOf) -> Iterator[list[Element]]:
    """The batches of one lap: rows out of order, ends that change, a row that is taken back, rows
    that end a lap later."""
    random, base = Random(source), lap * LAP
    rows: list[Insert] = []
    for at in range(LAP):
        start = base + at + random.randint(0, DISORDER)
        rows.append(
            insert(
                {"k": key_of(lap, random.randrange(3)), "v": random.randrange(4)},
                start,
                start + random.randint(1, 12),
            )
        )
    first, second, third = (insert({"k": key_of(lap, n), "v": 9}, base + n) for n in range(3))
    changed, gone = rows[3], rows[5]
    yield [*rows[: LAP // 2], first, second]
    longer = adjust(changed.payload, changed.start, changed.end, changed.end + 5)
    yield [
        *rows[LAP // 2 :],
        third,
        longer,
        remove(gone.payload, gone.start, gone.end),
        cti(base + LAP),
    ]
    ends = [
        adjust(row.payload, row.start, None, base + LAP + 7 + n)
        for n, row in enumerate((first, second, third))
    ]
    yield list(ends)


def peak_and_rest(
    query: tw.Stream, laps: int, *, key_of: KeyOf = same_keys, consistency: str = "speculative"
) -> tuple[int, int]:
    """The most rows held after any batch, and the rows held after the end."""
    engine, peak = tw.Engine(query, consistency=consistency), 0
    for lap in range(laps):
        for parts in zip(*(lap_of(name, lap, key_of) for name in engine.sources), strict=True):
            for name, part in zip(engine.sources, parts, strict=True):
                engine.push(name, part)
                peak = max(peak, sum(size.rows for size in engine.state_size().values()))
    engine.finish()
    return peak, sum(size.rows for size in engine.state_size().values())


GROUPED = A.group_by("k")
QUERIES: dict[str, tw.Stream] = {
    "source": A,
    "hopping, adding up": GROUPED.hopping(12, 4).aggregate(n=tw.count(), v=tw.sum_("v")),
    "hopping, rows": GROUPED.hopping(12, 4).aggregate(v=tw.max_("v")),
    "snapshot": GROUPED.snapshot().aggregate(n=tw.count()),
    "snapshot, rows": A.snapshot().aggregate(v=tw.max_("v")),
    "session": GROUPED.session(3).aggregate(n=tw.count()),
    "session_lifetime": GROUPED.session_lifetime(3),
    "join": A.join(B, on="k"),
    "full join": A.full_join(B, on="k"),
    "semi join": A.semi_join(B, on="k"),
    "anti join": A.anti_join(B, on="k"),
    "window join": A.window_join(B, on="k", window=tw.band(before=4, after=3)),
    "full window join": A.window_join(B, on="k", window=tw.same_window(10), how="full"),
    "count by both times": (
        A.window_join(B, on="k", window=tw.band(before=4, after=3))
        .group_by("left_time", "right_time")
        .snapshot()
        .aggregate(n=tw.count())
    ),
    "join of three": tw.join_all({"a": A, "b": B, "c": A}, "k", sizes=3),
    "as-of join": A.asof_join(B, on="k", within=10),
    "distinct": A.distinct(),
    "top_k": GROUPED.top_k(2, by="v"),
    "top_k, hopping": GROUPED.hopping(12, 4).top_k(2, by="v"),
    "clip_by": A.clip_by(B, on="k"),
    "edges": GROUPED.edges(),
    "stitch": A.stitch(),
    "chop": A.chop(5),
    "point_at_end": A.point_at_end(),
    "fill": GROUPED.tumbling(5).fill([0, 1, 2, 3]).aggregate(n=tw.count()),
    "group_apply": GROUPED.apply(
        lambda group: group.snapshot().aggregate(n=tw.count()).where("n > 1")
    ),
    "group_apply, join": GROUPED.apply(lambda group: group.join(group.shift(3), where="l.v = r.v")),
    "window over a window": A.tumbling(5)
    .aggregate(n=tw.count())
    .snapshot()
    .aggregate(n=tw.max_("n")),
}


@pytest.mark.parametrize("consistency", ["speculative", "final"])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_a_long_stream_holds_no_more_than_a_short_one(query: tw.Stream, consistency: str) -> None:
    short = peak_and_rest(query, SHORT, consistency=consistency)
    assert short[0] > 0
    assert peak_and_rest(query, LONG, consistency=consistency) == (short[0], 0)


@pytest.mark.parametrize(
    "query",
    [
        query
        for name, query in QUERIES.items()
        if name.startswith(("hopping", "snapshot", "session", "top_k"))
    ],
)
def test_eager_answers_cost_no_state_that_grows(query: tw.Stream) -> None:
    short = peak_and_rest(query, SHORT, consistency="eager")
    assert peak_and_rest(query, 4 * SHORT, consistency="eager") == (short[0], 0)


# The last sample of a key lasts for ever, so `edges` rightly holds one row for each key there ever
# was.
COMING_AND_GOING = {name: query for name, query in QUERIES.items() if name != "edges"}


@pytest.mark.parametrize("query", COMING_AND_GOING.values(), ids=COMING_AND_GOING.keys())
def test_keys_that_never_come_back_are_forgotten(query: tw.Stream) -> None:
    short = peak_and_rest(query, SHORT, key_of=new_keys)
    assert peak_and_rest(query, 4 * SHORT, key_of=new_keys) == (short[0], 0)


def test_edges_hold_one_row_for_each_key_besides_what_is_unsettled() -> None:
    (short, _), (long, rest) = (
        peak_and_rest(QUERIES["edges"], laps, key_of=new_keys) for laps in (SHORT, LONG)
    )
    assert long - short <= 3 * (LONG - SHORT) and rest == 0


# ------------------------------------------------------------------------------------------------
# what it rests on


def test_without_promises_nothing_is_forgotten() -> None:
    # The measure must see growth where growth is right, or the tests above would show nothing.
    engine = tw.Engine(QUERIES["snapshot"])
    held = []
    for lap in range(SHORT):
        for part in lap_of("a", lap, same_keys):
            engine.push("a", [element for element in part if not isinstance(element, tw.Cti)])
        held.append(engine.status().state.rows)
    assert held == sorted(set(held)) and held[-1] > 2 * held[0]


def test_a_row_without_an_end_is_held_as_one_row() -> None:
    for query in (
        A.chop(5),
        GROUPED.tumbling(5).aggregate(n=tw.count()),
        A.join(A, on="k"),
        A.distinct(),
    ):
        engine = tw.Engine(query)
        engine.push("a", [insert({"k": 0, "v": 0}, 1), cti(10)])
        early = engine.status().state.rows
        for time in range(20, 400, 10):
            engine.push("a", cti(time))
        assert engine.status().state.rows == early > 0


def test_an_insert_only_source_holds_no_rows_itself() -> None:
    engine = tw.Engine(tw.source("a", COLUMNS, insert_only=True))
    engine.push("a", [insert({"k": 0, "v": n}, n) for n in range(100)])
    assert engine.status().state.rows == 0


@pytest.mark.parametrize("late", ["drop", "side", "adjust"])
def test_late_rows_are_forgotten_once_nothing_can_speak_of_them(late: str) -> None:
    engine = tw.Engine(tw.source("a", COLUMNS, late=late))
    peaks = []
    for lap in range(12):
        base = lap * LAP
        row = {"k": 0, "v": lap}
        engine.push(
            "a",
            [
                cti(base + 10),
                insert(row, base, base + 15),
                insert(row, base + 1),
                adjust(row, base + 1, None, base + 12),
            ],
        )
        peaks.append(engine.status().state.rows)
        assert engine.late("a").num_rows >= 2
    assert max(peaks[2:]) == peaks[2]
    engine.finish()
    assert engine.status().state.rows == 0


def test_bytes_follow_rows() -> None:
    engine = tw.Engine(QUERIES["join"])
    assert engine.status().state.bytes == 0
    engine.push("a", [insert({"k": 0, "v": n}, n, n + 5) for n in range(50)])
    full = engine.state_size()
    assert all((size.bytes > 0) == (size.rows > 0) for size in full.values())
    engine.finish()
    assert engine.status().state.bytes == 0
