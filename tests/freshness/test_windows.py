"""Windows over update streams: LAZY and EAGER, states, marks, buffers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.freshness.marked_aggregate import MarkedAggregate
from thalweg.errors import WindowError
from thalweg.freshness.pages import PagedMemory, PagePool
from thalweg.freshness.schedules import SCHEDULES, make_schedule
from thalweg.freshness.simulation import Answer, Workload, run_windows
from thalweg.freshness.window_blocks import BlockBuffers
from thalweg.freshness.window_choice import make_window_queue
from thalweg.freshness.window_marks import DISALLOW, UPDATE, UpdateWindow
from thalweg.freshness.window_queue import KeyState, WindowQueue
from thalweg.testing.oracle.freshness import Row, window_staleness, windows_of

READY, WAIT, IDLE = KeyState.READY, KeyState.WAIT, KeyState.IDLE


def make_queue(
    size: int, slide: int, rule: str, *, keys: int = 1, pages: int = 64, schedule: str = "in-place"
) -> WindowQueue:
    memory = PagedMemory(PagePool(pages, 2))
    queue = make_window_queue(
        UpdateWindow(size, slide), rule, memory, make_schedule(schedule), block_rows=2
    )
    queue.grow(keys)
    return queue


def one_row_a_tick(until: int) -> tuple[Workload, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    times = np.arange(1, until)
    return Workload(times, np.zeros(len(times), np.int64), 1), times


@pytest.mark.parametrize(
    ("rule", "delivered", "application", "waiting"),
    [
        (
            "lazy",
            [9, 15, 21],
            # time 1 2 3 4 5 6 7 8|9 ................14|15
            [0, 0, 0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 5, 6, 7, 8, 9, 10, 5],
            [0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 0],
        ),
        (
            "eager",
            [7, 13, 19],
            # time 1 2 3 4 5 6|7 .............12|13
            [0, 0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 3, 4, 5, 6, 7, 8, 3, 4, 5],
            [0, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 0, 0, 1],
        ),
    ],
)
def test_figure_12(
    rule: str, delivered: list[int], application: list[int], waiting: list[int]
) -> None:
    """One row a tick, size 3, slide 1, cost 2. Both answer windows 1, 7 and 13; both curves are
    given for ticks 1 to 21, after what happens at the tick. EAGER's answer for window 1, out at 7,
    is already stale by window 2, which closed at 4."""
    load, times = one_row_a_tick(40)
    queue = make_queue(3, 1, rule)
    seen: dict[int, tuple[int, int]] = {}

    def watch(now: int) -> None:
        seen[now] = int(queue.application_staleness(now)[0]), int(queue.queue_staleness(now)[0])

    answers = run_windows(queue, load, times, 2, until=23, at=watch)
    assert [(a.window, a.delivered) for a in answers] == list(
        zip([1, 7, 13], delivered, strict=True)
    )
    assert [seen[tick][0] for tick in range(1, 22)] == application
    assert [seen[tick][1] for tick in range(1, 22)] == waiting


def test_table_1_the_aggregate_goes_by_the_marks() -> None:
    total = MarkedAggregate(0.0, lambda state, value: state + value)
    assert total.take(1, DISALLOW, 5.0) is None  # no window is opened
    assert total.take(2, 4, 1.0) is None  # opens [2, 4], updates
    assert total.take(3, DISALLOW, 2.0) is None  # starts a window that is not opened: updates
    assert total.take(4, UPDATE, 4.0) == (2, 7.0)  # at the end, whatever the mark: emits
    assert total.take(5, UPDATE, 9.0) is None  # nothing is open
    total.take(6, 8, 3.0)
    assert total.close() == (6, 3.0)  # the queue closes a window whose last tick has no row
    assert total.close() is None


def test_marks_of_a_served_window() -> None:
    queue = make_queue(4, 2, "lazy")
    for time in (2, 3, 4, 5):
        queue.arrive_one(0, time, now=time)
    steps = [queue.next_step(9) for _ in range(4)]
    assert [(s.time, s.mark, s.completes) for s in steps if s is not None] == [
        (2, 5, False),
        (3, UPDATE, False),
        (4, DISALLOW, False),
        (5, UPDATE, True),
    ]


def test_the_key_transition_graph() -> None:
    """EAGER, size 3, slide 3: ENQ - WAIT - READY - IDLE - READY - DONE, and two states at once."""
    queue = make_queue(3, 3, "eager")
    assert queue.states(0) == set()
    queue.arrive_one(0, 3, now=3)
    assert queue.states(0) == {WAIT}  # is_update: a window starts
    step = queue.next_step(3)
    assert step is not None and not step.completes
    assert queue.states(0) == {READY}  # committed
    assert queue.next_step(4) is None
    assert queue.states(0) == {IDLE}  # not is_available: the next row has not come
    queue.arrive_one(0, 4, now=8)
    assert queue.states(0) == {READY}  # promoted by a row of the committed window
    queue.arrive_one(0, 6, now=9)
    assert queue.states(0) == {READY, WAIT}  # and the next window has started
    assert [queue.next_step(9), queue.next_step(9)][0] is not None
    # The row at 6 told that window [3, 6) is complete: the row at 4 was its last.
    assert queue.states(0) == {
        READY
    }  # the next window is committed to: its row at 6 was handed out


def test_a_gap_at_the_last_tick_is_closed_without_a_row() -> None:
    queue = make_queue(3, 3, "eager")
    queue.arrive_one(0, 3, now=3)
    queue.next_step(3)
    assert queue.next_step(4) is None
    queue.arrive_one(0, 7, now=7)
    step = queue.next_step(7)
    assert step is not None
    assert (step.window, step.location, step.completes) == (3, -1, True)


def test_the_cost_of_a_window_is_the_sum_not_the_bound() -> None:
    assert UpdateWindow(3, 2).cost(1) == 4  # the bound beside the sum in the document says 3
    assert UpdateWindow(3, 1).cost(2) == 2 * (3 + 2 + 1)
    assert UpdateWindow(4, 4).cost(5) == 20


def test_windows_that_leave_gaps_are_refused() -> None:
    with pytest.raises(WindowError, match="1 <= slide <= size; got size 2, slide 3"):
        UpdateWindow(2, 3)


rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=50
)
"""Gap to the previous arrival, gap in source time to the key's previous row, key."""


def make_load(
    steps: list[tuple[int, int, int]],
) -> tuple[Workload, np.ndarray[tuple[int], np.dtype[np.int64]], dict[int, list[Row]]]:
    arrived = np.cumsum(np.array([gap for gap, _, _ in steps], np.int64))
    source: list[int] = []
    last: dict[int, int] = {}
    by_key: dict[int, list[Row]] = {}
    for (_, gap, key), arrival in zip(steps, arrived.tolist(), strict=True):
        last[key] = last.get(key, 0) + gap
        source.append(last[key])
        by_key.setdefault(key, []).append(Row(last[key], arrival))
    keys = np.array([key for _, _, key in steps], np.int64)
    return Workload(arrived, keys, 3), np.array(source, np.int64), by_key


def check_answers(
    answers: list[Answer], load: Workload, by_key: dict[int, list[Row]], size: int, slide: int
) -> None:
    """Every answered window is whole, and the windows of a key are answered in order."""
    for key, its_rows in by_key.items():
        numbers = np.flatnonzero(load.keys == key).tolist()
        windows = windows_of(its_rows, size, slide)
        mine = [answer for answer in answers if answer.key == key]
        assert [a.window for a in mine] == sorted({a.window for a in mine})
        for answer in mine:
            inside, closed = windows[answer.window]
            assert list(answer.rows) == [numbers[at] for at in inside]
            assert closed is not None and closed <= answer.delivered


@pytest.mark.parametrize("schedule", ["in-place", "gain"])
@pytest.mark.parametrize("rule", ["lazy", "eager", "auto"])
@given(steps=rows, size=st.integers(1, 5), slide=st.integers(1, 5), cost=st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_a_delivered_window_is_whole(
    rule: str, schedule: str, steps: list[tuple[int, int, int]], size: int, slide: int, cost: int
) -> None:
    slide = min(slide, size)
    load, source, by_key = make_load(steps)
    queue = make_queue(size, slide, rule, keys=3, schedule=schedule)
    until = int(load.times[-1]) + 10 * cost
    answers = run_windows(queue, load, source, cost, until=until)
    check_answers(answers, load, by_key, size, slide)
    assert (queue.conflated() >= 0).all()
    assert not queue.lost.any()
    for key, its_rows in by_key.items():
        windows = windows_of(its_rows, size, slide)
        delivered = [(a.window, a.delivered) for a in answers if a.key == key]
        area = Fraction(0)
        for t in range(until):
            left = window_staleness(windows, delivered, t)
            right = window_staleness(windows, delivered, t + 1, before=True)
            area += Fraction(left + right, 2)
        assert queue.application_area(until)[key] == area


def show(queue: WindowQueue, now: int) -> object:
    """All of a queue's state that a user could ever see, and what decides about what follows."""
    buffers = [queue.buffers.rows(number) for number in range(2 * KEYS)]
    return (
        [getattr(queue, name)[:KEYS].tolist() for name in COUNTS],
        queue.conflated()[:KEYS].tolist(),
        [queue.states(cell) for cell in range(KEYS)],
        [queue.is_eager(cell) for cell in range(KEYS)],
        [queue.row_number[held].tolist() for held in buffers],
        [queue.row_time[held].tolist() for held in buffers],
        queue.buffers.memory.used,
        queue.application_area(now)[:KEYS].tolist(),
        queue.queue_area(now)[:KEYS].tolist(),
        queue.rates.rates(np.arange(KEYS), now)[queue.updates[:KEYS] > 0].tolist(),
    )


KEYS = 4
COUNTS = ("arrived", "outdated", "refused", "updates", "taken", "lost")
actions = st.lists(
    st.one_of(
        st.lists(
            st.tuples(st.integers(0, KEYS - 1), st.integers(-1, 3), st.integers(0, 40)),
            min_size=1,
            max_size=60,
        ),
        st.integers(0, 12),
    ),
    max_size=12,
)
"""Rows that arrive together (key, gap in source time to the key's newest row, 0 for one without
room), or how many steps are taken."""


@pytest.mark.parametrize("pages", [3, 200], ids=["full", "roomy"])
@pytest.mark.parametrize("rule", ["lazy", "eager", "auto"])
@given(
    actions=actions,
    size=st.integers(1, 6),
    slide=st.integers(1, 6),
    schedule=st.sampled_from(sorted(SCHEDULES)),
)
@settings(max_examples=60, deadline=None)
def test_a_batch_is_its_rows_one_by_one(
    rule: str, pages: int, actions: list[object], size: int, slide: int, schedule: str
) -> None:
    """And a run of steps is its steps."""
    slide = min(slide, size)
    whole, single = (
        make_queue(size, slide, rule, keys=KEYS, pages=pages, schedule=schedule) for _ in range(2)
    )
    newest, now, number = [90] * KEYS, 0, 0
    for action in actions:
        now += 3
        if isinstance(action, list):
            cells = np.array([key for key, _, _ in action])
            times, numbers = np.empty(len(action), np.int64), np.empty(len(action), np.int64)
            for at, (key, gap, has_room) in enumerate(action):
                newest[key] += gap
                number += 1
                times[at], numbers[at] = newest[key], number if has_room else -1
            together = whole.arrive(cells, times, now, numbers)
            each = zip(cells.tolist(), times.tolist(), numbers.tolist(), strict=True)
            assert together.tolist() == [single.arrive_one(c, t, now, n) for c, t, n in each]
        else:
            assert isinstance(action, int)
            check_steps(whole, single, action, now)
        assert show(whole, now) == show(single, now)
        held = [whole.buffers.rows(buffer) for buffer in range(2 * KEYS)]
        blocks = np.unique(np.concatenate(held) // whole.buffers.block_rows)
        assert whole.buffers.memory.used == len(blocks), "a block leaked"


def check_steps(whole: WindowQueue, single: WindowQueue, count: int, now: int) -> None:
    """`count` steps of both queues, in runs and one by one; what is complete is delivered."""
    left = count
    while left:
        run = whole.next_run(now, left)
        steps = [single.next_step(now) for _ in range(1 if run is None else run.steps)]
        if run is None:
            assert steps == [None]
            return
        left -= run.steps
        taken = [step for step in steps if step is not None]
        assert {(step.cell, step.window) for step in taken} == {(run.cell, run.window)}
        assert [step.number for step in taken if step.location >= 0] == run.numbers.tolist()
        assert [step.completes for step in taken] == [False] * (run.steps - 1) + [run.completes]
        assert (taken[0].mark > 0) == (run.begins and len(run.numbers) > 0)
        if run.completes:
            whole.deliver_one(run.cell, now + 1)
            single.deliver_one(run.cell, now + 1)


@pytest.mark.parametrize("rule", ["lazy", "eager", "auto"])
@given(steps=rows, size=st.integers(1, 5), cost=st.integers(1, 4), pages=st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_with_too_few_pages_windows_are_lost_not_answered_in_part(
    rule: str, steps: list[tuple[int, int, int]], size: int, cost: int, pages: int
) -> None:
    load, source, by_key = make_load(steps)
    queue = make_queue(size, 1, rule, keys=3, pages=pages)
    answers = run_windows(queue, load, source, cost, until=int(load.times[-1]) + 50)
    check_answers(answers, load, by_key, size, 1)
    assert queue.buffers.memory.pages <= pages


@given(size=st.integers(1, 6), slide=st.integers(1, 6), cost=st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_an_eager_buffer_is_never_longer_than_size_and_slide(
    size: int, slide: int, cost: int
) -> None:
    slide = min(slide, size)
    load, times = one_row_a_tick(60)
    queue = make_queue(size, slide, "eager")
    longest = 0

    def watch(now: int) -> None:
        nonlocal longest
        longest = max(longest, int(queue.buffers.count[:2].sum()))

    run_windows(queue, load, times, cost, until=60, at=watch)
    assert longest <= size + slide - 1


@given(
    st.lists(
        st.tuples(st.sampled_from(["push", "pop", "drop", "clear"]), st.integers(0, 1)), max_size=60
    )
)
@settings(max_examples=50, deadline=None)
def test_blocks_are_a_list_and_leak_nothing(actions: list[tuple[str, int]]) -> None:
    pool = PagePool(16, 2)
    buffers = BlockBuffers(PagedMemory(pool), block_rows=3)
    buffers.grow(2)
    naive: list[list[int]] = [[], []]
    for action, at in actions:
        if action == "push":
            location = buffers.push(at)
            assert location not in naive[0] + naive[1]
            naive[at].append(location)
        elif action == "pop":
            assert buffers.pop(at) == (naive[at].pop(0) if naive[at] else -1)
        elif action == "drop" and naive[at]:
            buffers.drop(at, len(naive[at]) // 2)
            naive[at] = naive[at][len(naive[at]) // 2 :]
        elif action == "clear":
            buffers.clear(at)
            naive[at] = []
        for number in range(2):
            assert buffers.rows(number).tolist() == naive[number]
    buffers.clear(0)
    buffers.clear(1)
    assert pool.lent == 0


def test_outdated_rows_are_counted() -> None:
    queue = make_queue(3, 1, "lazy")
    assert queue.arrive_one(0, 5, now=0)
    assert not queue.arrive_one(0, 5, now=1)
    assert not queue.arrive_one(0, 4, now=2)
    assert queue.outdated[0] == 2


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_can_serve_windows(schedule: str) -> None:
    """Not every schedule serves every key: with regular arrivals, fifo may send one back for
    ever."""
    steps = [(1, 1, at % 3) for at in range(150)]
    load, source, by_key = make_load(steps)
    queue = make_queue(4, 2, "lazy", keys=3, schedule=schedule)
    answers = run_windows(queue, load, source, 2, until=150)
    assert len(answers) > 10
    check_answers(answers, load, by_key, 4, 2)
