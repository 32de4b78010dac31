"""Queries behind a conflating source: what is allowed, what is refused and where, promises."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.errors import InputError, PlanError, UnknownColumnError
from thalweg.freshness.queue_status import Admission
from thalweg.freshness.runner import FreshRunner
from thalweg.freshness.shared_runner import SharedRunner
from thalweg.io.feeds import Feed
from thalweg.model.batch import Batch
from thalweg.model.cht import rows_of_table, table_of_batches
from thalweg.stream import Stream
from thalweg.testing.reference import ReferenceEngine


def quotes(name: str = "quotes") -> Stream:
    return tw.source(
        name, {"symbol": "string", "price": "int64"}, disorder=5, insert_only=True
    ).update_key("symbol")


def trades() -> Stream:
    return tw.source("trades", {"symbol": "string", "size": "int64"}, insert_only=True)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a map that drops the key": (lambda: quotes().select("price"), "must be passed on unchanged"),
    "a map that changes the key": (
        lambda: quotes().with_columns(symbol="upper(symbol)"),
        "must be passed on unchanged",
    ),
    "a group without the key": (
        lambda: quotes().tumbling(10).aggregate(n=tw.count()),
        r"groups must contain the update key \(symbol\)",
    ),
    "a hopping window": (
        lambda: quotes().group_by("symbol").hopping(10, 5).aggregate(n=tw.count()),
        "would answer from the rows that are left",
    ),
    "a snapshot window": (
        lambda: quotes().group_by("symbol").snapshot().aggregate(n=tw.count()),
        "would answer from the rows that are left",
    ),
    "a union": (lambda: quotes().union(quotes("more")), "Feed both inputs to one source"),
    "a union with a stream of all rows": (
        lambda: quotes().union(
            tw.source("all", {"symbol": "string", "price": "int64"}, insert_only=True)
        ),
        "Feed both inputs to one source",
    ),
    "a join with a stream of all rows": (
        lambda: quotes().edges("symbol").join(trades(), on="symbol"),
        "both sides of a join must be update streams",
    ),
    "a join of all matches": (
        lambda: quotes().join(trades().update_key("symbol"), on="symbol"),
        "only the newest match counts",
    ),
    "a join without the key": (
        lambda: (
            quotes()
            .edges("symbol")
            .join(trades().update_key("symbol").edges("symbol"), where="price > size")
        ),
        "must be equal in it",
    ),
    "rows cut by another key": (lambda: quotes().edges("price"), "by the next row of their key"),
    "distinct": (lambda: quotes().distinct(), "not from all rows"),
    "the top rows": (lambda: quotes().top_k(3, by="price"), "groups must contain the update key"),
    "the top rows of a key": (
        lambda: quotes().group_by("symbol").top_k(3, by="price"),
        "would answer from the rows that are left",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_forbidden_query_is_refused_on_the_line_that_says_it(name: str) -> None:
    build, reason = REFUSED[name]
    with pytest.raises(PlanError, match=reason) as refused:
        build()
    assert "keeps only the newest row of each key" in str(refused.value)
    lines, first = inspect.getsourcelines(build)
    assert refused.value.file == __file__
    assert refused.value.line is not None
    assert first <= refused.value.line < first + len(lines)


ALLOWED: dict[str, Callable[[], Stream]] = {
    "filter": lambda: quotes().where("price > 3"),
    "map": lambda: quotes().with_columns(double="price * 2"),
    "renamed key": lambda: quotes().rename(symbol="name").where("name <> 'a'"),
    "lifetimes": lambda: quotes().set_duration(10).shift(3),
    "newest row": lambda: quotes().edges("symbol"),
    "newest with newest": lambda: (
        quotes()
        .edges("symbol")
        .join(quotes("more").edges("symbol").rename(price="other"), on="symbol")
    ),
}


class Recorder:
    """An engine that remembers what it was given."""

    def __init__(self, query: Stream) -> None:
        self.engine = tw.Engine(query)
        self.given: dict[str, list[Batch]] = {}
        self.out: list[Batch] = []

    def push(self, source: str, feed: Feed) -> list[Batch]:
        from thalweg.io.feeds import batches_from

        batches = list(batches_from(feed, self.engine.sources[source], source))
        self.given.setdefault(source, []).extend(batches)
        produced = [out for batch in batches for out in self.engine.push(source, batch)]
        self.out += produced
        return produced


offers = st.lists(
    st.tuples(
        st.sampled_from(["quotes", "more"]),
        st.lists(
            st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 8)), max_size=8
        ),
        st.integers(0, 4),
    ),
    max_size=10,
)


@pytest.mark.parametrize("name", ALLOWED)
@given(offers=offers)
@settings(max_examples=12, deadline=None)
def test_an_allowed_query_is_the_query_over_the_delivered_rows(
    name: str, offers: list[tuple[str, list[tuple[str, int, int]], int]]
) -> None:
    """No row is late because it waited (late rows would raise), and the answer is the oracle's over
    what left the queues."""
    query = ALLOWED[name]()
    recorder = Recorder(query)
    ticks = count()
    runner = FreshRunner(query, recorder, now=lambda: next(ticks))
    sources = list(recorder.engine.sources)
    now = 100
    newest: dict[tuple[str, str], int] = {}
    for source, rows, served in offers:
        if source not in sources:
            continue
        now += 5  # rows are at most 8 apart, declared is 5 and 3 more are dropped below
        points = []
        for symbol, price, offset in rows:
            start = now + min(offset, 5)
            points.append(tw.point({"symbol": symbol, "price": price}, start))
            newest[source, symbol] = max(newest.get((source, symbol), 0), start)
        runner.offer(source, points)
        runner.serve(served)
    runner.serve(10_000)
    assert all(runner.waiting(source) == 0 for source in sources)
    naive = ReferenceEngine(query.node)
    for source, batches in recorder.given.items():
        for batch in batches:
            naive.push(source, Batch(batch.payload, batch.start, batch.end))
    answered = table_of_batches([*recorder.out, *recorder.engine.finish()], query.schema)
    at_once = table_of_batches(naive.finish(), query.schema)
    assert sorted(map(str, rows_of_table(answered))) == sorted(map(str, rows_of_table(at_once)))
    for (source, symbol), start in newest.items():
        seen = [
            int(at)
            for batch in recorder.given.get(source, [])
            for at, value in zip(
                batch.start.tolist(), batch.payload.column("symbol").to_pylist(), strict=True
            )
            if value == symbol
        ]
        assert seen == sorted(seen)
        assert seen[-1] == start, "the newest row of a key was not delivered"


def test_a_queue_promises_no_more_than_it_holds() -> None:
    query = quotes()
    ticks = count()
    runner = FreshRunner(query, tw.Engine(query), now=lambda: next(ticks))
    runner.offer(
        "quotes",
        [
            tw.point({"symbol": "a", "price": 1}, 20),
            tw.point({"symbol": "b", "price": 2}, 22),
            tw.point({"symbol": "c", "price": 3}, 40),
        ],
    )
    promised = [
        element.time
        for _ in range(4)
        for element in tw.elements_of(runner.serve(1))
        if isinstance(element, tw.Cti)
    ]
    # 40 - 5 was promised to the queue; b holds it back at 22 until it is served.
    assert list(dict.fromkeys(promised)) == [22, 35]


def test_an_adjust_is_refused() -> None:
    query = quotes()
    runner = FreshRunner(query, tw.Engine(query), now=lambda: 0)
    with pytest.raises(InputError, match="adjust cannot say which"):
        runner.offer("quotes", tw.adjust({"symbol": "a", "price": 1}, 1, 5, 3))
    assert runner.status("quotes").arrived == 0


def test_mistakes_about_update_keys() -> None:
    with pytest.raises(UnknownColumnError, match="symbl"):
        tw.source("q", {"symbol": "string"}, insert_only=True).update_key("symbl")
    with pytest.raises(PlanError, match=r"schedule must be one of .*Did you mean 'in-place'"):
        tw.source("q", {"symbol": "string"}, insert_only=True).update_key(
            "symbol", schedule="inplace"
        )
    with pytest.raises(PlanError, match="stands before a source"):
        tw.source("q", {"symbol": "string"}, insert_only=True).where("symbol <> ''").update_key(
            "symbol"
        )
    with pytest.raises(PlanError, match="insert_only=True"):
        tw.source("q", {"symbol": "string"}).update_key("symbol")
    with pytest.raises(PlanError, match="leave a queue in another order"):
        tw.source(
            "q", {"symbol": "string"}, insert_only=True, progress=tw.late_by_rows(3)
        ).update_key("symbol")
    with pytest.raises(PlanError, match="no source of this query has an update key"):
        FreshRunner(trades(), tw.Engine(trades()), now=lambda: 0)
    query = quotes()
    with pytest.raises(PlanError, match="no source 'qotes' with an update key"):
        FreshRunner(query, tw.Engine(query), now=lambda: 0).serve(1, ["qotes"])


def test_spark_needs_a_receiver_and_a_receiver_a_key(tmp_path: Path) -> None:
    from thalweg import spark
    from thalweg.spark.preparing import prepare

    with pytest.raises(PlanError, match=r"make the source with spark\.from_receiver"):
        prepare(quotes(), checkpoint="unused")
    rows = spark.from_receiver(str(tmp_path), {"symbol": "string", "at": "int64"}, time="at")
    with pytest.raises(PlanError, match="say which by update_key"):
        prepare(rows, checkpoint="unused")
    with pytest.raises(PlanError, match="those with a receiver are: none"):
        spark.receiver_of(quotes())


def test_an_update_key_is_shown_by_explain() -> None:
    assert "newest row by symbol, gain" in quotes().explain()


def test_rows_that_are_replaced_are_counted() -> None:
    query = quotes()
    runner = FreshRunner(query, tw.Engine(query), now=lambda: 0)
    rows = [tw.point({"symbol": "a", "price": at}, 10 + at) for at in (0, 2, 1)]
    assert runner.offer("quotes", rows) == Admission(accepted=2, outdated=1, refused=0)
    runner.serve(5)
    status = runner.status("quotes")
    assert (status.arrived, status.conflated, status.outdated, status.taken) == (2, 1, 1, 1)


def test_keys_with_targets_of_their_own_are_served_in_time() -> None:
    """GM may be 3 ticks old, the others 12: whatever else waits, GM is served as soon as it is due
    first."""
    rows = tw.source("quotes", {"symbol": "string", "price": "int64"}, insert_only=True)
    query = rows.update_key("symbol", schedule="deadline", freshness=12, targets={"GM": 3})
    clock = {"now": 0}
    runner = FreshRunner(query, tw.Engine(query), now=lambda: clock["now"])
    others = [f"s{number}" for number in range(8)]
    served: dict[str, list[int]] = {}
    for step in range(60):
        clock["now"] += 1
        names = [others[step % 8], "GM"]
        runner.offer("quotes", [tw.point({"symbol": s, "price": 1}, step) for s in names])
        for element in tw.elements_of(runner.serve(1)):
            if isinstance(element, tw.Insert):
                served.setdefault(element.payload["symbol"], []).append(step)
    gaps = [later - earlier for earlier, later in zip(served["GM"], served["GM"][1:], strict=False)]
    assert max(gaps) <= 4
    assert len(served) == 9, "the others are served too"


def test_targets_that_make_no_sense_are_refused() -> None:
    rows = tw.source("q", {"a": "string", "b": "int64"}, insert_only=True)
    with pytest.raises(PlanError, match="met by schedule='deadline'"):
        rows.update_key("a", targets={"x": 3})
    with pytest.raises(PlanError, match="names 1 values; the key has 2 columns"):
        rows.update_key("a", "b", schedule="deadline", targets={"x": 3})


def test_several_queries_share_a_queue() -> None:
    """Each query sees the newest row at the moment it takes it; a row stays until all have it, and
    the answers are those of the rows that each was given."""
    rows = tw.source("q", {"k": "string", "v": "int64"}, insert_only=True)
    fast = rows.update_key("k", schedule="in-place")
    slow = rows.update_key("k", schedule="gain").where("v > 0")
    ticks = count()
    runner = SharedRunner(
        {"fast": (fast, tw.Engine(fast)), "slow": (slow, tw.Engine(slow))},
        now=lambda: next(ticks),
    )

    def values(query: str) -> list[tuple[str, int]]:
        found = tw.elements_of(runner.serve(query, 10))
        return [(e.payload["k"], e.payload["v"]) for e in found if isinstance(e, tw.Insert)]

    runner.offer([tw.point({"k": "a", "v": 1}, 1), tw.point({"k": "b", "v": 2}, 2)])
    assert values("fast") == [("a", 1), ("b", 2)]
    runner.offer([tw.point({"k": "a", "v": 3}, 3)])
    assert sorted(values("slow")) == [("a", 3), ("b", 2)]
    assert values("fast") == [("a", 3)]
    quick, late = runner.status("fast"), runner.status("slow")
    assert (quick.taken, quick.conflated, quick.waiting) == (3, 0, 0)
    assert (late.taken, late.conflated, late.waiting) == (2, 1, 0)
    assert late.staleness_average > quick.staleness_average
    with pytest.raises(PlanError, match="no query 'none'"):
        runner.serve("none", 1)
    other = rows.update_key()
    with pytest.raises(PlanError, match="queries that share a queue read one source"):
        SharedRunner(
            {"one": (fast, tw.Engine(fast)), "two": (other, tw.Engine(other))}, now=lambda: 0
        )


class NaiveUnion:
    """One row for each key and time, the youngest at hand, by definition."""

    def __init__(self, truth: str | None) -> None:
        self.truth = truth
        self.held: dict[str, tuple[int, int, str]] = {}
        self.seen: dict[str, int] = {}

    def offer(self, key: str, time: int, value: int, input_name: str) -> None:
        newest = self.seen.get(key)
        held = self.held.get(key)
        replaces = (
            held is not None
            and held[0] == time
            and input_name == self.truth
            and held[2] != self.truth
        )
        if newest is None or time > newest or replaces:
            self.held[key] = (time, value, input_name)
            self.seen[key] = time

    def serve(self) -> set[tuple[str, int, int]]:
        served = {(key, time, value) for key, (time, value, _) in self.held.items()}
        self.held = {}
        return served


union_rows = st.lists(
    st.tuples(
        st.sampled_from(["nyse", "arca"]),
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), min_size=1, max_size=5),
        st.booleans(),
    ),
    max_size=12,
)


@given(offers=union_rows, truth=st.sampled_from(["nyse", "arca", None]))
@settings(max_examples=60, deadline=None)
def test_a_union_passes_on_the_youngest_and_the_truth_counts(
    offers: list[tuple[str, list[tuple[str, int]], bool]], truth: str | None
) -> None:
    rows = tw.source("quotes", {"symbol": "string", "price": "int64"}, insert_only=True)
    query = rows.update_key("symbol", inputs=("nyse", "arca"), truth=truth)
    ticks, prices = count(), count()
    runner = FreshRunner(query, tw.Engine(query), now=lambda: next(ticks))
    naive = NaiveUnion(truth)
    for name, updates, serves in [*offers, ("nyse", [("a", 0)], True)]:
        valued = [(symbol, time, next(prices)) for symbol, time in updates]
        points = [tw.point({"symbol": s, "price": p}, t) for s, t, p in valued]
        runner.offer("quotes", points, input=name)
        for symbol, time, price in valued:
            naive.offer(symbol, time, price, name)
        if serves:
            out = [e for e in tw.elements_of(runner.serve(10)) if isinstance(e, tw.Insert)]
            got = {(e.payload["symbol"], e.start, e.payload["price"]) for e in out}
            assert got == naive.serve()


def test_inputs_that_make_no_sense_are_refused() -> None:
    rows = tw.source("q", {"k": "string"}, insert_only=True)
    with pytest.raises(PlanError, match=r"truth='nise' is none of the inputs.*nyse"):
        rows.update_key("k", inputs=("nyse", "arca"), truth="nise")
    query = rows.update_key("k", inputs=("nyse", "arca"))
    runner = FreshRunner(query, tw.Engine(query), now=lambda: 0)
    for name in (None, "other"):
        with pytest.raises(PlanError, match="its inputs are: nyse, arca"):
            runner.offer("q", [tw.point({"k": "a"}, 1)], input=name)
