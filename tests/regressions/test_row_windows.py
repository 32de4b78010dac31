"""Windows over the numbers of rows, behind filters: numbers progress whether their rows pass or
not; and windows that a late row completes with rows behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

import thalweg as tw
from tests.windows.test_own_kind import Neighbours
from thalweg import cti, point
from thalweg.model import Element, Row, rows_of_table, table_of_batches
from thalweg.testing import oracle

VALUE = {"v": "int64"}


def play(
    query: tw.Stream, *pushes: Sequence[Element], consistency: str = "speculative"
) -> list[Row]:
    engine = tw.Engine(query, consistency=consistency)
    out = [batch for push in pushes for batch in engine.push("s", push)]
    return rows_of_table(table_of_batches(out + engine.finish(), query.schema))


def odd(*, insert_only: bool = True) -> tw.Stream:
    return tw.source("s", VALUE, insert_only=insert_only).where("v % 2 = 1")


@pytest.mark.parametrize("insert_only", [True, False])
@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
def test_the_last_window_answers_though_its_last_row_was_filtered(
    insert_only: bool, consistency: str
) -> None:
    windows = odd(insert_only=insert_only).sliding(2, 2, over=tw.rows(at="system"))
    query = windows.aggregate(x=tw.sum_("v"))
    rows = [point({"v": at}, at) for at in range(1, 7)]
    wanted = [(1, 2, {"x": 1}), (3, 4, {"x": 3}), (5, 6, {"x": 5})]
    assert play(query, rows, consistency=consistency) == wanted
    assert play(query, *([row] for row in rows), consistency=consistency) == wanted


def test_answers_do_not_depend_on_where_promises_fall() -> None:
    windows = tw.source("s", VALUE).where("v > 0").sliding(1, 1, over=tw.rows(at="system"))
    query = windows.aggregate(x=tw.sum_("v"))
    first, second, third = point({"v": None}, 8), point({"v": 2}, 0), point({"v": 2}, 4)
    wanted = [(8, 9, {"x": 2}), (8, 9, {"x": 2})]
    assert play(query, [first, second, third]) == wanted
    assert play(query, [first], [second], [cti(4)], [third]) == wanted


def test_a_final_answer_leaves_when_its_numbers_are_settled() -> None:
    query = tw.source("s", VALUE, insert_only=True).sliding(2, 2, over=tw.rows())
    engine = tw.Engine(query.aggregate(x=tw.sum_("v")), consistency="final")
    engine.push("s", [point({"v": 1}, 1)])
    (batch,) = engine.push("s", [point({"v": 2}, 2)])
    assert [row for row in tw.elements_of([batch]) if isinstance(row, tw.Insert)] == [
        tw.insert({"x": 3}, 2, 3)
    ]


@pytest.mark.parametrize("slide", [1, 2, 3])
@pytest.mark.parametrize("range_", [3, 5, None])
def test_law(range_: int | None, slide: int) -> None:
    random = Random(f"{range_}/{slide}")
    stream = odd()
    over = tw.rows(at="system")
    windows = (
        stream.landmark(slide, over=over)
        if range_ is None
        else stream.sliding(range_, slide, over=over)
    )
    query = windows.aggregate(x=tw.sum_("v"), n=tw.count())
    for _ in range(12):
        start = 0
        rows: list[Element] = []
        for _ in range(random.randint(1, 12)):
            start += random.choice([0, 1, 3])
            rows.append(point({"v": random.randint(0, 5)}, start))
        table = [(row.start, row.end, row.payload) for row in rows if isinstance(row, tw.Insert)]
        wanted = oracle(query.node, {"s": table})
        for consistency in ("speculative", "eager", "final"):
            pushes: list[list[Element]] = []
            for row in rows:
                pushes.append([row])
                assert isinstance(row, tw.Insert)
                if random.random() < 0.4:
                    pushes.append([cti(row.start)])
            found = play(query, *pushes, consistency=consistency)
            assert sorted(map(str, found)) == sorted(map(str, wanted)), (rows, pushes)


WINDOWS: dict[str, Callable[[tw.Stream], tw.Stream]] = {
    "rank": lambda s: s.sliding(5, 2, over=tw.rank("ts")).aggregate(n=tw.count()),
    "landmark": lambda s: s.landmark(2, over=tw.rank("ts")).aggregate(n=tw.count()),
    "every second": lambda s: s.slide_by_tuple(9, every=2, order=tw.rank("ts")).aggregate(
        n=tw.count()
    ),
    "module": lambda s: s.sliding(5, 2, over=tw.rank("ts")).apply("average", "v"),
    "count": lambda s: s.count_by_start(4).apply("average", "v"),
    "a kind of a user's own": lambda s: s.windows(Neighbours(9)).aggregate(n=tw.count()),
}


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
@pytest.mark.parametrize("name", list(WINDOWS))
def test_a_late_row_completes_a_window_that_ends_behind_it(name: str, consistency: str) -> None:
    """The newest row has left no window that waits: with the late one it is the second, or the
    fourth, of a window that was not there before."""
    query = WINDOWS[name](tw.source("s", VALUE))
    for times in ([1, 2, 30, 2], [1, 30, 60, 25], [1, 2, 3, 2], [4, 4, 9, 1], [1, 10, 10, 5]):
        rows = [point({"v": at}, at) for at in times]
        sorted_rows = [point({"v": at}, at) for at in sorted(times)]
        in_order = play(query, sorted_rows, consistency=consistency)
        late = play(query, rows[:3], rows[3:], consistency=consistency)
        assert late == in_order
