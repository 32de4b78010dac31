"""A fragment at work in one bucket: what it promises when, what is late, what it refuses, what it
reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import LateEventError, ProgressError, StateError
from thalweg.model import (
    INFINITY,
    NO_PROGRESS,
    Batch,
    Element,
    Progress,
    batches_of,
    elements_of,
    insert,
    rows_of_table,
    table_of_batches,
)
from thalweg.model.time import MIN_TIME
from thalweg.operators.consistency import Consistency
from thalweg.shards.exchange.blobs import blob_of_batch
from thalweg.shards.exchange.chunk import Chunk
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import FragmentPlan, sources_of, targets_of
from thalweg.shards.local_engine import DividedEngine
from thalweg.shards.worker.answer import Answer
from thalweg.shards.worker.fragment_runner import FragmentRunner
from thalweg.testing.compare import sort_rows

COLUMNS = {"k": "string", "v": "int64"}
N = tw.count()


def events(name: str = "s", **facts: Any) -> tw.Stream:
    return tw.source(name, COLUMNS, **{"insert_only": True, "disorder": 5, "late": "drop", **facts})


class Running:
    """A fragment, and the chunks that its sources send it."""

    def __init__(
        self,
        query: tw.Stream,
        number: int = 0,
        *,
        parts: Mapping[str, int] | None = None,
        **options: Any,
    ) -> None:
        self.plan: FragmentPlan = fragments_of(query.node)
        self.number = number
        self.runner = FragmentRunner(
            self.plan.fragments[number], Consistency(), parts=parts or {}, **options
        )
        self.ingests = {
            name: Ingest(targets_of(self.plan, [0], source=name)) for name in sources_of(self.plan)
        }
        self.schemas = {name: source.columns for name, source in sources_of(self.plan).items()}

    def chunks(self, source: str, *elements: Element, seq: int = 0, **header: Any) -> list[Chunk]:
        """What a source sends for some elements: one chunk for each input that reads it."""
        (batch,) = list(batches_of(elements, self.schemas[source])) or [
            Batch.empty(self.schemas[source])
        ]
        if "cti" in header:
            batch = batch.with_progress(Progress(header.pop("cti")))
        said = Header.of_batch(batch)
        said = replace(said, **header)
        rows = self.ingests[source].rows(batch, said, seq)
        return [
            Chunk(origin, at, Header.from_json(text), blob)
            for _, to, origin, at, text, blob in rows
            if to == self.number
        ]

    def take(self, *chunks: list[Chunk], now: float = 1.0) -> Answer:
        return self.runner.process([chunk for some in chunks for chunk in some], now)

    def cti(self, *chunks: list[Chunk], now: float = 1.0) -> int:
        """What is promised after these chunks."""
        return self.take(*chunks, now=now).batch.progress.cti


def at(time: int, k: str = "a") -> Element:
    return tw.point({"k": k, "v": time}, time)


def told(answer: Answer) -> list[Mapping[str, Any]]:
    return [
        element.payload for element in elements_of([answer.batch]) if isinstance(element, tw.Insert)
    ]


# ------------------------------------------------------------------------------------------------
# disorder


def test_a_source_with_disorder_promises_its_newest_time_minus_that() -> None:
    one = Running(events())
    assert one.cti(one.chunks("s", at(20), at(3))) == 15
    assert one.cti(one.chunks("s", at(18))) == 15
    assert one.cti(one.chunks("s", at(30))) == 25


def test_a_chunk_without_rows_for_this_bucket_still_says_how_far_its_source_is() -> None:
    one = Running(events())
    assert one.cti(one.chunks("s", newest=100, rows=7)) == 95


def test_the_promise_of_a_source_is_the_smallest_over_its_parts() -> None:
    one = Running(events())
    assert (
        one.cti(one.chunks("s", at(20), partition="0"), one.chunks("s", at(50), partition="1"))
        == 15
    )
    assert one.cti(one.chunks("s", at(90), partition="1")) == 15
    assert one.cti(one.chunks("s", at(70), partition="0")) == 65


def test_a_part_that_has_ended_holds_nobody_back() -> None:
    one = Running(events())
    one.take(one.chunks("s", at(20), partition="0"), one.chunks("s", at(50), partition="1"))
    assert one.cti(one.chunks("s", partition="0", cti=INFINITY)) == 45
    assert one.cti(one.chunks("s", partition="1", cti=INFINITY)) == INFINITY


def test_a_part_that_is_silent_too_long_holds_nobody_back_until_it_speaks() -> None:
    one = Running(events(), idle={"s": 10})
    one.take(
        one.chunks("s", at(20), partition="0"), one.chunks("s", at(50), partition="1"), now=100
    )
    assert one.cti(one.chunks("s", at(60), partition="1"), now=109) == 15
    assert one.cti(one.chunks("s", at(70), partition="1"), now=110) == 65
    answer = one.take(
        one.chunks("s", at(30), partition="0"), one.chunks("s", at(90), partition="1"), now=111
    )
    assert (answer.late_rows, answer.batch.progress.cti) == (1, 65)


def test_rows_are_judged_by_the_promise_that_stood_when_their_micro_batch_began() -> None:
    one = Running(events())
    assert one.take(one.chunks("s", at(100)), one.chunks("s", at(3), seq=1)).late_rows == 0
    assert one.take(one.chunks("s", at(94)), one.chunks("s", at(95), seq=1)).late_rows == 1


# ------------------------------------------------------------------------------------------------
# panes


PANES = events().group_by("k").hopping(10, 5).aggregate(n=N)


def test_with_panes_promises_are_rounded_down_to_the_grid() -> None:
    one = Running(PANES)
    assert one.cti(one.chunks("s", at(23))) == 10, (
        "18 is 15 on the grid, and the window from 10 is open there"
    )
    assert one.cti(one.chunks("s", at(24))) == 10
    assert one.cti(one.chunks("s", at(25))) == 15
    assert one.cti(one.chunks("s", cti=INFINITY)) == INFINITY


def test_with_panes_a_row_is_late_when_its_whole_pane_is() -> None:
    one = Running(PANES)
    answers = [one.take(one.chunks("s", at(24)))]  # promises 19, which is 15 on the grid
    answers.append(one.take(one.chunks("s", at(15), at(16))))
    answers.append(one.take(one.chunks("s", at(14), at(13), at(2), at(20))))
    answers.append(one.take(one.chunks("s", cti=INFINITY)))
    assert [answer.late_rows for answer in answers] == [0, 0, 3, 0]
    table = rows_of_table(table_of_batches([answer.batch for answer in answers], PANES.schema))
    assert [(start, payload["n"]) for start, _, payload in sort_rows(table)] == [
        (10, 2),
        (15, 4),
        (20, 2),
    ]


def test_the_grid_has_the_offset_of_the_window() -> None:
    one = Running(events().group_by("k").tumbling(10, offset=3).aggregate(n=N))
    assert one.cti(one.chunks("s", at(27))) == 13
    assert one.cti(one.chunks("s", at(28))) == 23


def test_promises_in_the_data_are_rounded_down_too() -> None:
    one = Running(events(disorder=None).group_by("k").tumbling(10).aggregate(n=N))
    assert one.cti(one.chunks("s", at(12), tw.cti(17))) == 10
    assert one.take(one.chunks("s", at(18))).late_rows == 0


def test_a_late_pane_can_be_an_error() -> None:
    one = Running(events(late="error").group_by("k").tumbling(10).aggregate(n=N))
    one.take(one.chunks("s", at(48)))
    with pytest.raises(LateEventError, match="source 's': 2 rows come before the promise 40"):
        one.take(one.chunks("s", at(3), at(4), at(45)))


# ------------------------------------------------------------------------------------------------
# late


@pytest.mark.parametrize(("late", "kept"), [("drop", []), ("side", []), ("adjust", [(95, 120)])])
def test_late_rows_are_counted_and_put_into_the_ledger(
    late: str, kept: list[tuple[int, int]]
) -> None:
    one = Running(events(late=late))
    one.take(one.chunks("s", at(100)))
    answer = one.take(
        one.chunks(
            "s", insert({"k": "x", "v": 1}, 90, 120), insert({"k": "y", "v": 1}, 91, 92), at(97)
        )
    )
    assert answer.late_rows == one.runner.late == 2
    ledger = answer.ledgers["s"]
    assert ledger.column("k").to_pylist() == ["x", "y"]
    assert ledger.column("_promise").to_pylist() == [95, 95]
    assert ledger.column("_start").to_pylist() == [90, 91]
    inserts = [
        element
        for element in elements_of([answer.batch])
        if isinstance(element, tw.Insert) and element.payload["k"] == "x"
    ]
    assert [(element.start, element.end) for element in inserts] == kept


def test_a_ledger_is_handed_over_once() -> None:
    one = Running(events(late="side"))
    one.take(one.chunks("s", at(100)))
    assert len(one.take(one.chunks("s", at(1))).ledgers["s"]) == 1
    answer = one.take(one.chunks("s", at(101)))
    assert answer.ledgers == {} and answer.late_rows == 0


def test_a_late_row_can_be_an_error_that_leaves_the_state_alone() -> None:
    one = Running(events(late="error").group_by("k").snapshot().aggregate(n=N))
    one.take(one.chunks("s", at(100)))
    before = one.runner.slices()
    with pytest.raises(LateEventError, match="before the promise 95"):
        one.take(one.chunks("s", at(3)))
    assert {
        name: rows.to_pylist() for name, rows in one.runner.slices().items() if "|" in name
    } == {name: rows.to_pylist() for name, rows in before.items() if "|" in name}


# ------------------------------------------------------------------------------------------------
# promises in data


def test_promises_in_the_data_take_effect_where_they_stand() -> None:
    one = Running(tw.source("s", COLUMNS, late="drop"))
    answer = one.take(
        one.chunks("s", at(3), seq=0),
        one.chunks("s", at(4), tw.cti(10), seq=1),
        one.chunks("s", at(5), seq=2),
    )
    assert (answer.late_rows, answer.batch.progress.cti) == (1, 10)
    assert [row["v"] for row in told(answer)] == [3, 4]


def test_chunks_are_taken_in_the_order_of_their_source_whatever_order_they_come_in() -> None:
    one = Running(tw.source("s", COLUMNS))
    later, earlier = one.chunks("s", at(12), seq=1), one.chunks("s", at(4), tw.cti(10), seq=0)
    assert [row["v"] for row in told(one.take(later, earlier))] == [4, 12]


def test_a_promise_that_goes_back_is_refused() -> None:
    one = Running(tw.source("s", COLUMNS))
    one.take(one.chunks("s", tw.cti(10)))
    with pytest.raises(ProgressError, match="goes back"):
        one.take(one.chunks("s", tw.cti(9)))


# ------------------------------------------------------------------------------------------------
# two inputs

JOINED = events("s", disorder=0).join(
    events("t", disorder=0), on="k", select={"a": "l.v", "b": "r.v"}
)


def test_the_promise_of_two_inputs_is_the_smaller() -> None:
    one = Running(JOINED)
    assert one.cti(one.chunks("s", at(50))) == MIN_TIME
    assert one.cti(one.chunks("t", at(20))) == 20
    assert one.cti(one.chunks("t", at(70))) == 50


def test_a_silent_input_comes_along_once_it_is_idle() -> None:
    one = Running(JOINED, idle={"t": 10})
    one.take(one.chunks("s", at(50)), one.chunks("t", at(20)), now=100)
    assert one.cti(one.chunks("s", at(60)), now=109) == 20
    assert one.cti(one.chunks("s", at(70)), now=110) == 70
    answer = one.take(one.chunks("t", at(65), at(80)), one.chunks("s", at(80)), now=111)
    assert answer.late_rows == 1, "what it sends after all falls under its policy"
    assert answer.batch.progress.cti == 80


def test_an_idle_input_follows_a_source_that_is_judged_row_by_row() -> None:
    left, right = (tw.source(name, COLUMNS, late="drop", disorder=5) for name in "st")
    joined = left.join(right, on="k", select={"a": "l.v", "b": "r.v"})
    one = Running(joined, idle={"t": 10})
    one.take(one.chunks("s", at(50)), one.chunks("t", at(20)), now=100)
    assert one.cti(one.chunks("s", at(60)), now=109) == 15
    assert one.cti(one.chunks("s", at(70)), now=110) == 65


def test_only_an_input_with_an_idle_time_can_be_idle() -> None:
    one = Running(JOINED, idle={"s": 10})
    one.take(one.chunks("s", at(50)), one.chunks("t", at(20)), now=100)
    assert one.cti(one.chunks("s", at(60)), now=1_000_000) == 20


def test_an_input_that_never_spoke_is_idle_after_its_time_too() -> None:
    one = Running(JOINED, idle={"t": 10})
    assert one.cti(one.chunks("s", at(50)), now=1_000_000) == MIN_TIME
    assert one.cti(one.chunks("s", at(60)), now=1_000_009) == MIN_TIME
    assert one.cti(one.chunks("s", at(70)), now=1_000_010) == 70


def test_promises_that_an_idle_input_makes_too_late_are_out_of_date() -> None:
    promising = tw.source("s", COLUMNS, late="drop").join(
        tw.source("t", COLUMNS, late="drop"), on="k", select={"a": "l.v", "b": "r.v"}
    )
    one = Running(promising, idle={"t": 10})
    one.take(one.chunks("s", tw.cti(5)), one.chunks("t", tw.cti(5)), now=100)
    assert one.cti(one.chunks("s", at(60), tw.cti(50)), now=110) == 50
    two = Running(promising, idle={"t": 10})
    two.runner.restore(one.runner.slices())
    for again in (one, two):
        answer = again.take(again.chunks("t", at(60), at(30), tw.cti(20)), now=111)
        assert (answer.late_rows, answer.batch.progress.cti, told(answer)) == (
            1,
            50,
            [{"a": 60, "b": 60}],
        )


def test_an_idle_input_does_not_end_when_the_others_do() -> None:
    one = Running(JOINED, idle={"t": 10})
    one.take(one.chunks("s", at(50)), one.chunks("t", at(20)), now=100)
    assert one.cti(one.chunks("s", cti=INFINITY), now=200) < INFINITY
    assert told(one.take(one.chunks("t", at(50)), now=201)) == [{"a": 50, "b": 50}]


# ------------------------------------------------------------------------------------------------
# upstream fragments

CHAINED = (
    tw.source("s", COLUMNS)
    .group_by("k")
    .snapshot()
    .aggregate(n=N)
    .group_by("n")
    .snapshot()
    .aggregate(m=N)
)
COUNTS = pa.schema([("k", pa.string()), ("n", pa.int64())])


def upstream(part: int, cti: int | None, *elements: Element) -> Chunk:
    (batch,) = list(batches_of(elements, COUNTS)) or [Batch.empty(COUNTS)]
    return Chunk(
        "fragment-0",
        0,
        Header(partition=str(part), progress=NO_PROGRESS if cti is None else Progress(cti)),
        blob_of_batch(batch) if len(batch) else None,
    )


def test_all_buckets_of_an_upstream_fragment_must_have_spoken() -> None:
    one = Running(CHAINED, 1, parts={"fragment-0": 3})
    assert one.cti([upstream(0, 10), upstream(1, 20)]) == MIN_TIME
    assert one.cti([upstream(2, 5)]) == 5
    assert one.cti([upstream(2, 30)]) == 10


def test_revisions_from_an_upstream_fragment_are_taken_as_they_are() -> None:
    one = Running(CHAINED, 1, parts={"fragment-0": 1})
    row = {"k": "a", "n": 1}
    one.take([upstream(0, 3, insert(row, 1, 9))])
    one.take([upstream(0, 3, tw.adjust(row, 1, 9, 5))])
    answer = one.take([upstream(0, INFINITY)])
    assert answer.batch.progress.cti == INFINITY
    assert one.runner.late == 0


# ------------------------------------------------------------------------------------------------
# positions


def test_input_that_follows_on_is_taken() -> None:
    one = Running(events())
    one.take(one.chunks("s", at(1), begin=0, end=5), one.chunks("s", at(2), begin=5, end=9, seq=5))
    one.take(one.chunks("s", at(3), begin=9, end=10))
    assert one.cti(one.chunks("s", at(90), begin=10, end=11)) == 85


@pytest.mark.parametrize(
    ("begin", "end"), [(11, 12), (9, 12), (0, 5)], ids=["gap", "overlap", "again"]
)
def test_input_that_does_not_follow_on_is_refused(begin: int, end: int) -> None:
    one = Running(events())
    one.take(one.chunks("s", at(1), begin=0, end=10))
    with pytest.raises(
        StateError, match=f"begins at {begin}, but the state has seen everything up to 10"
    ):
        one.take(one.chunks("s", at(2), begin=begin, end=end))


def test_positions_are_counted_for_each_part() -> None:
    one = Running(events())
    one.take(
        one.chunks("s", at(1), begin=0, end=10, partition="0"),
        one.chunks("s", at(1), begin=0, end=3, partition="1"),
    )
    one.take(one.chunks("s", at(2), begin=3, end=4, partition="1"))
    with pytest.raises(StateError, match="partition '1'"):
        one.take(one.chunks("s", at(2), begin=10, end=11, partition="1"))


def test_positions_are_remembered_with_the_state() -> None:
    one, two = Running(events()), Running(events())
    one.take(one.chunks("s", at(1), begin=0, end=10))
    two.runner.restore(one.runner.slices())
    with pytest.raises(StateError, match="up to 10"):
        two.take(two.chunks("s", at(1), begin=0, end=10))


# ------------------------------------------------------------------------------------------------
# figures


def test_rows_are_counted_as_they_were_read_and_as_they_were_exchanged() -> None:
    one = Running(events().where("v > 2").group_by("k").tumbling(10).aggregate(n=N))
    answer = one.take(one.chunks("s", at(1), at(3), at(4)), one.chunks("s", at(5), at(6), seq=1))
    assert (answer.rows_read, answer.elements_in) == (5, 2)


def test_chunks_of_one_number_are_all_counted() -> None:
    one = Running(events())
    assert one.take(one.chunks("s", at(1), at(3)), one.chunks("s", at(5))).rows_read == 3


def test_a_source_that_is_read_twice_is_counted_once() -> None:
    one = Running(events().join(events().shift(2), on={"v": "v + 1"}, select={"a": "l.v"}))
    assert len(one.plan.fragments[0].inputs) == 2
    assert one.take(one.chunks("s", at(1), at(3))).rows_read == 2


# ------------------------------------------------------------------------------------------------
# state


def test_a_runner_goes_on_from_the_slices_of_another() -> None:
    one, two = (Running(PANES, idle={"s": 10}) for _ in range(2))
    one.take(one.chunks("s", at(12), at(24)), now=50)
    one.take(one.chunks("s", at(1)), now=51)
    two.runner.restore(one.runner.slices())
    assert two.runner.late == one.runner.late == 1
    more = two.chunks("s", at(26), at(40))
    assert told(two.take(more, now=52)) == told(one.take(more, now=52)) != []
    assert {name: rows.to_pylist() for name, rows in one.runner.slices().items()} == {
        name: rows.to_pylist() for name, rows in two.runner.slices().items()
    }


def test_slices_that_were_not_touched_are_the_same_objects() -> None:
    one = Running(events(disorder=1_000).group_by("k").tumbling(10).aggregate(n=N))
    one.take(one.chunks("s", *(at(time) for time in range(0, 1000, 10))))
    before = one.runner.slices()
    one.take(one.chunks("s", at(999)))
    touched = [name for name, rows in one.runner.slices().items() if before.get(name) is not rows]
    assert 0 < len(touched) < len(before)


def test_what_a_bucket_promises_never_goes_back() -> None:
    one = Running(events())
    one.take(one.chunks("s", at(100)))
    assert one.cti() == 95
    assert one.cti(one.chunks("s", at(96))) == 95


def test_the_common_promise_of_a_divided_query_is_that_of_its_slowest_bucket() -> None:
    engine = DividedEngine(events(disorder=0).group_by("k").tumbling(10).aggregate(n=N), buckets=4)
    (batch,) = engine.push("s", [at(time, k) for time, k in enumerate("abcdefgh" * 5)])
    assert batch.progress.cti == 30
    assert sorted(
        (row.start, row.payload["n"])
        for row in elements_of([batch])
        if isinstance(row, tw.Insert) and row.end <= 30
    )
