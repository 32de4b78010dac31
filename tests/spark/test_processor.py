"""The stateful stage as Spark calls it, over a state store in a dictionary: micro-batches,
failures, what passes through."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import LateEventError
from thalweg.io.row_bytes import read_rows
from thalweg.model import Batch, Element, batches_of, elements_of
from thalweg.operators.consistency import Consistency
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import parts_of, targets_of
from thalweg.shards.state.store import DictStore
from thalweg.shards.worker.fragment_bucket import FragmentSpec
from thalweg.spark.stages.processor import FragmentProcessor

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64())])
COUNTS = tw.source("s", COLUMNS).group_by("k").tumbling(10).aggregate(n=tw.count())
NAMES = ("bucket", "fragment", "origin", "seq", "header", "blob")

Rows = list[dict[str, Any]]


class Handle:
    def __init__(self, store: DictStore) -> None:
        self._store = store

    def getMapState(self, name: str, key: str, value: str) -> DictStore:  # noqa: N802
        return self._store

    @property
    def _statefulProcessorApiClient(self) -> Handle:  # noqa: N802
        return self

    def _get_batch_timestamp(self) -> int:
        return 1_000


class Stage:
    """One fragment of a query in a single bucket."""

    def __init__(self, query: tw.Stream, number: int = 0, store: DictStore | None = None) -> None:
        plan = fragments_of(query.node)
        self.schema = plan.root.schema
        self.store = DictStore({}) if store is None else store
        self.ingest = Ingest(
            [target for target in targets_of(plan, [0], source="s") if target[0] == number]
        )
        fragment = plan.fragments[number]
        targets = targets_of(plan, [0], upstream=number)
        spec = FragmentSpec(
            uuid.uuid4().hex, fragment, Consistency(), parts_of(plan, fragment, [0]), {}, 0, targets
        )
        self.processor = FragmentProcessor(spec)
        self.processor.init(Handle(self.store))

    def arrive(self, *elements: Element, newest: int | None = None) -> Rows:
        """What the source sends for some elements."""
        found: Rows = []
        for batch in batches_of(elements, COLUMNS):
            header = Header(progress=batch.progress, rows=len(batch), newest=newest)
            found += [
                dict(zip(NAMES, row, strict=True)) for row in self.ingest.rows(batch, header, 0)
            ]
        return found

    def run(self, rows: Rows) -> Rows:
        """One micro-batch."""
        return [row.asDict() for row in self.processor.handleInputRows((0,), iter(rows), None)]

    def batch(self, *elements: Element) -> list[Element]:
        """One micro-batch of the last fragment; the changes that come out of it."""
        changes = [
            batch_of_blob(row["blob"])
            for row in self.run(self.arrive(*elements))
            if row["kind"] == "changes"
        ]
        return list(elements_of([Batch.concat(changes, self.schema)]))


def at(time: int, k: str = "a") -> Element:
    return tw.point({"k": k, "v": time}, time)


def payloads(elements: list[Element]) -> list[Any]:
    return [element.payload for element in elements if isinstance(element, tw.Insert)]


# ------------------------------------------------------------------------------------------------
# failures


def test_another_worker_goes_on_where_one_stopped() -> None:
    one = Stage(COUNTS)
    assert one.batch(at(1), at(2, "b"), tw.cti(3)) == []
    two = Stage(COUNTS, store=one.store)
    assert payloads(two.batch(at(5), tw.cti(10))) == [{"k": "a", "n": 2}, {"k": "b", "n": 1}]


def test_a_failed_micro_batch_leaves_nothing_in_the_worker() -> None:
    stage = Stage(COUNTS)
    stage.batch(at(1), tw.cti(3))
    with pytest.raises(LateEventError):
        stage.batch(at(4), at(2))
    assert payloads(stage.batch(tw.cti(10))) == [{"k": "a", "n": 1}]


def test_a_micro_batch_that_spark_takes_back_is_run_again_on_the_old_state() -> None:
    stage = Stage(COUNTS)
    stage.batch(at(1), tw.cti(3))
    before = dict(stage.store.entries)
    first = stage.batch(at(4), tw.cti(10))
    stage.store.entries.clear()
    stage.store.entries.update(before)
    assert stage.batch(at(4), tw.cti(10)) == first
    assert payloads(first) == [{"k": "a", "n": 2}]


def test_a_worker_that_kept_an_older_batch_takes_up_the_newer_state() -> None:
    one = Stage(COUNTS)
    one.batch(at(1), tw.cti(2))
    Stage(COUNTS, store=one.store).batch(at(3), tw.cti(4))
    assert payloads(one.batch(tw.cti(10))) == [{"k": "a", "n": 2}]


# ------------------------------------------------------------------------------------------------
# figures and late


def test_every_micro_batch_reports_its_figures() -> None:
    stage = Stage(COUNTS)
    rows = stage.run(stage.arrive(at(1), at(2), at(11)))
    (figures,) = [row for row in rows if row["kind"] == "figures"]
    assert (
        figures["read"],
        figures["taken"],
        figures["changes"],
        figures["adjusts"],
        figures["late"],
    ) == (3, 3, 1, 0, 0)
    assert (
        figures["cti"] is None
        and figures["state_rows"] > 0
        and figures["state_bytes"] > 0
        and figures["written"] > 0
    )
    rows = stage.run(stage.arrive(at(3), tw.cti(10)))
    (figures,) = [row for row in rows if row["kind"] == "figures"]
    assert (figures["read"], figures["changes"], figures["adjusts"], figures["cti"]) == (
        1,
        2,
        1,
        10,
    )


SUMS = tw.source("s", COLUMNS, insert_only=True, late="drop", disorder=5).group_by("k").tumbling(10)
LATE_SUMS = SUMS.aggregate(n=tw.count())
LATE_ROWS = SUMS.aggregate(m=tw.max_("v"))


@pytest.mark.parametrize("query", [LATE_SUMS, LATE_ROWS], ids=["partial sums", "rows"])
def test_late_rows_are_counted_in_the_last_fragment(query: tw.Stream) -> None:
    stage = Stage(query)
    stage.run(stage.arrive(at(100), newest=100))
    rows = stage.run(stage.arrive(at(3), at(4), newest=4))
    assert sum(row["late"] or 0 for row in rows) == 2


@pytest.mark.parametrize(
    "query", [LATE_SUMS.top_k(1, by="n"), LATE_ROWS.top_k(1, by="m")], ids=["partial sums", "rows"]
)
def test_late_rows_of_an_earlier_fragment_are_counted_at_the_end(query: tw.Stream) -> None:
    first, last = Stage(query, 0), Stage(query, 1)
    last.run(first.run(first.arrive(at(100), newest=100)))
    rows = last.run(first.run(first.arrive(at(3), at(4), newest=4)))
    assert sum(row["late"] or 0 for row in rows) == 2


def test_the_ledger_of_an_earlier_fragment_reaches_the_output() -> None:
    query = LATE_ROWS.group_by("m").snapshot().aggregate(n=tw.count()).top_k(1, by="n")
    stages = [Stage(query, number) for number in range(3)]
    found: Rows = []
    for newest, elements in ((100, [at(100)]), (4, [at(3), at(4)])):
        found = stages[0].arrive(*elements, newest=newest)
        for stage in stages:
            found = stage.run(found)
    (late,) = [row for row in found if row["kind"] == "late"]
    assert (late["origin"], late["late"]) == ("s", 2)
    assert read_rows(late["blob"]).column("v").to_pylist() == [3, 4]


def test_a_fragment_tells_the_next_one_how_far_it_is_even_without_rows() -> None:
    query = COUNTS.top_k(1, by="n")
    first = Stage(query)
    rows = first.run(first.arrive(at(1), tw.cti(3)))
    kinds = [Header.from_json(row["header"]).kind for row in rows]
    assert kinds == [Message.ROWS, Message.REPORT]
    assert [(row["origin"], row["fragment"], row["blob"]) for row in rows] == [
        ("fragment-0", 1, None),
        ("", 1, None),
    ]
    assert Header.from_json(rows[0]["header"]).progress.cti == 0, "the window from 0 is open"
    assert Header.from_json(rows[0]["header"]).partition == "0"
