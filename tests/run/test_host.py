"""Queries that come and go while rows flow: each has the table of its own engine, over the rows
that were admitted after its starting point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

import thalweg as tw
from thalweg import udm
from thalweg.errors import PlanError, StateError
from thalweg.model import Batch, Element, Row, rows_of_table, table_of_batches
from thalweg.run import Engine, Host
from thalweg.stream import Stream
from thalweg.testing import difference

COLUMNS = {"k": "int64", "v": "int64"}
Query = Callable[[Stream, Stream], Stream]


def sources() -> tuple[Stream, Stream]:
    return tw.source("a", COLUMNS), tw.source("b", COLUMNS)


QUERIES: dict[str, Query] = {
    "filter": lambda a, b: a.where("v > 0"),
    "narrow": lambda a, b: a.where("v > 0").select(w="v * 2"),
    "counts": lambda a, b: a.where("v > 0").group_by("k").tumbling(5).aggregate(n=tw.count()),
    "join": lambda a, b: a.where("v > 0").join(b, "k"),
    "left join": lambda a, b: a.join(b.where("v > 1"), "k", how="left"),
    "both": lambda a, b: a.union(b).tumbling(4).aggregate(s=tw.sum_("v")),
}


def query(name: str) -> Stream:
    return QUERIES[name](*sources())


class Script:
    """A legal sequence of pushes: rows that may be adjusted, and promises that hold."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.live: dict[str, list[tuple[dict[str, int], int, int]]] = {"a": [], "b": []}
        self.promise = {"a": 0, "b": 0}
        self.seen: set[tuple[str, int, int, int]] = set()

    def step(self) -> tuple[str, list[Element]]:
        random = self.random
        source = random.choice("ab")
        promise, live = self.promise[source], self.live[source]
        elements: list[Element] = []
        for _ in range(random.randint(0, 3)):
            can = [row for row in live if row[2] >= promise]
            if can and random.random() < 0.4:
                payload, start, end = row = random.choice(can)
                live.remove(row)
                new = max(start, promise) + random.randint(0, 5)
                if new > start:
                    live.append((payload, start, new))
                if new != end:
                    elements.append(tw.adjust(payload, start, end, new))
            else:
                start = promise + random.randint(0, 6)
                payload = {"k": random.randint(0, 1), "v": random.randint(-1, 3)}
                row_key = (source, payload["k"], payload["v"], start)
                if row_key in self.seen:
                    continue  # of two equal rows an adjust could mean either
                self.seen.add(row_key)
                live.append((payload, start, start + random.randint(1, 5)))
                elements.append(tw.insert(payload, start, live[-1][2]))
        if random.random() < 0.5:
            self.promise[source] += random.randint(1, 4)
            elements.append(tw.cti(self.promise[source]))
        return source, elements


def restored(host: Host) -> Host:
    """The host after a restart: the same queries, operators and state."""
    again = Host.restore(host.snapshot())
    assert list(again.queries) == list(host.queries)
    assert {name: set(users) for name, users in again.shared().items()} == {
        name: set(users) for name, users in host.shared().items()
    }
    before, after = (
        {name: size.rows for name, size in one.state_size().items()} for one in (host, again)
    )
    assert after == before
    return again


def table(batches: list[Batch], stream: Stream) -> list[Row]:
    return rows_of_table(table_of_batches(batches, stream.node.schema))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("consistency", ["speculative", "final"])
def test_queries_that_were_there_from_the_start_have_their_own_tables(
    seed: int, consistency: str
) -> None:
    """While others are added, removed and replaced, and the host is saved and restored."""
    random = Random(seed)
    host, script = Host(), Script(random)
    out: dict[str, list[Batch]] = {}

    def gather(answers: dict[str, list[Batch]]) -> None:
        for name, batches in answers.items():
            out.setdefault(name, []).extend(batches)

    fixed = ["join", *random.sample([name for name in QUERIES if name != "join"], 2)]
    for name in fixed:
        host.add(name, query(name), consistency=consistency)
    engines = {name: Engine(query(name), consistency=consistency) for name in fixed}
    answers: dict[str, list[Batch]] = {name: [] for name in fixed}
    guests: list[str] = []
    for number in range(25):
        move = random.random()
        if move < 0.3:
            guests.append(f"guest-{number}")
            host.add(guests[-1], query(random.choice(list(QUERIES))), consistency=consistency)
        elif move < 0.5 and guests:
            host.remove(guests.pop(random.randrange(len(guests))))
        elif move < 0.6 and guests:
            gather(host.replace(random.choice(guests), query(random.choice(list(QUERIES)))))
        if random.random() < 0.2:
            host = restored(host)
        source, elements = script.step()
        gather(host.push(source, elements))
        for name, engine in engines.items():
            if source in engine.sources:
                answers[name] += engine.push(source, elements)
    gather(host.finish())
    for name, engine in engines.items():
        answers[name] += engine.finish()
        wrong = difference(table(answers[name], query(name)), table(out.get(name, []), query(name)))
        assert wrong is None, (name, wrong)


@pytest.mark.parametrize("name", ["filter", "narrow", "join", "left join"])
@pytest.mark.parametrize("seed", range(6))
def test_an_added_query_has_the_rows_that_were_admitted_later(name: str, seed: int) -> None:
    random = Random(seed)
    host, script = Host(), Script(random)
    host.add("first", query("join"))
    earlier = [script.step() for _ in range(8)]
    for source, elements in earlier:
        host.push(source, elements)
    before = {
        source: {
            (tuple(sorted(payload.items())), start) for payload, start, _ in script.live[source]
        }
        for source in "ab"
    }
    host.add("added", query(name))
    alone = Engine(query(name))
    out: list[Batch] = []
    expected: list[Batch] = []
    for _ in range(12):
        source, elements = script.step()
        mine = [
            element
            for element in elements
            if not isinstance(element, tw.Adjust)
            or (tuple(sorted(element.payload.items())), element.start) not in before[source]
        ]
        if random.random() < 0.2:
            host = restored(host)
        out += host.push(source, elements).get("added", [])
        if source in alone.sources:
            expected += alone.push(source, mine)
    out += host.finish().get("added", [])
    expected += alone.finish()
    assert difference(table(expected, query(name)), table(out, query(name))) is None


def counts() -> Stream:
    return tw.source("a", COLUMNS, insert_only=True).tumbling(10).aggregate(n=tw.count())


def at(time: int) -> Element:
    return tw.point({"k": 0, "v": 1}, time)


def answers_of(host: Host, *pushes: list[Element]) -> list[tuple[int, int]]:
    batches = [batch for push in pushes for batch in host.push("a", push).get("added", [])]
    return [
        (element.start, element.payload["n"])
        for element in tw.elements_of(batches)
        if isinstance(element, tw.Insert)
    ]


@pytest.mark.parametrize(
    ("partial", "expected"), [(False, [(20, 1), (30, 1)]), (True, [(10, 1), (20, 1), (30, 1)])]
)
def test_windows_that_began_before_the_point_are_left_out(
    partial: bool, expected: list[tuple[int, int]]
) -> None:
    """
    rows      12 .  15      21      33
    point          |
    windows   [10 ---- 20)[20 - 30)[30 - 40)
    promise            17
    """
    host = Host()
    host.add("first", counts())
    host.push("a", [at(12)])
    host.add("added", counts(), partial=partial)
    assert answers_of(host, [at(15), tw.cti(17)], [at(21), at(33), tw.cti(50)]) == expected


@pytest.mark.parametrize("name", ["rows", *QUERIES])
@pytest.mark.parametrize("since", ["now", "history"])
def test_history_is_read_whatever_other_queries_have_read(name: str, since: str) -> None:
    """Operators of other queries have passed the rows before; they cannot give them again."""
    rows = [tw.point({"k": 1, "v": v}, at) for at, v in [(1, 2), (2, 0), (12, 3)]]
    asked = sources()[0] if name == "rows" else query(name)
    host = Host(keep_history=True)
    host.add("filters", query("filter").union(sources()[1]))
    for source in "ab":
        host.push(source, rows)
    host.add("same", asked, since=since)  # at the same point, with the same operators
    out = host.add("asked", asked, since="history").get("asked", [])
    host = Host.restore(host.snapshot())
    later = host.add("later", asked, since="history").get("later", [])
    last = host.finish()
    alone = Engine(asked)
    wanted = [
        batch for source in "ab" if source in alone.sources for batch in alone.push(source, rows)
    ]
    expected = table_of_batches([*wanted, *alone.finish()], asked.schema)
    for batches in ([*out, *last["asked"]], [*later, *last["later"]]):
        assert table_of_batches(batches, asked.schema).equals(expected)
    assert expected.num_rows


@pytest.mark.parametrize("restart", [False, True])
def test_history_has_the_rows_of_a_source_that_no_query_read_for_a_while(restart: bool) -> None:
    counted = sources()[0].tumbling(10).aggregate(n=tw.count())
    host = Host(keep_history=True)
    host.add("first", counted)
    host.push("a", [tw.insert({"k": 1, "v": 1}, 3, 14), tw.cti(4)])
    host.remove("first")
    if restart:
        host = restored(host)
    assert host.queries == {} and host.push("a", [at(12)]) == {}
    with pytest.raises(PlanError, match="its history, which declares it in another way"):
        host.add("other", tw.source("a", {"k": "int64"}))
    out = host.add("added", counted, since="history")["added"]
    assert [e.payload["n"] for e in tw.elements_of(out) if isinstance(e, tw.Insert)] == [1]
    shorter = tw.adjust({"k": 1, "v": 1}, 3, 14, 9)
    assert answers_of(host, [shorter, tw.cti(20)]) == [(10, 1)]


def test_history_comes_first() -> None:
    host = Host(keep_history=True)
    host.add("first", counts())
    host.push("a", [at(3), at(12), tw.cti(15)])
    out = host.add("added", counts(), since="history")["added"]
    assert [e.payload["n"] for e in tw.elements_of(out) if isinstance(e, tw.Insert)] == [1]
    assert answers_of(host, [at(16), tw.cti(20)]) == [(10, 2)]
    with pytest.raises(PlanError, match="keep_history=True"):
        Host().add("x", counts(), since="history")


def test_equal_prefixes_are_one_operator() -> None:
    a = tw.source("a", COLUMNS, insert_only=True)
    host = Host()
    host.add("one", a.where("v > 0").tumbling(10).aggregate(n=tw.count()))
    host.add("two", a.where("v > 0").tumbling(10).aggregate(n=tw.count()).where("n > 1"))
    assert host.shared() == {
        "a": ["one", "two"],
        "one/where-1": ["one", "two"],
        "one/window_aggregate-1": ["one", "two"],
    }
    host.push("a", at(3))
    host.add("three", a.where("v > 0").tumbling(10).aggregate(n=tw.count()))
    assert host.shared()["one/window_aggregate-1"] == ["one", "two"], "its state has an earlier row"
    assert host.shared()["one/where-1"] == ["one", "two", "three"]
    assert "one/where-1: one, two, three" in host.explain()


def test_removal_drops_state_and_leaves_the_others() -> None:
    a = tw.source("a", COLUMNS, insert_only=True)
    host = Host()
    for number in range(100):
        length = 10 + number
        host.add(f"q{number}", a.where("v > 0").tumbling(length).aggregate(n=tw.count()))
    host.push("a", [at(time) for time in range(20)])
    kept = {name: size for name, size in host.state_size().items() if name.startswith("q99/")}
    for number in range(50):
        host.remove(f"q{number}")
    left = host.state_size()
    # The filter was made for q0 and is used by all.
    assert {name.split("/")[0] for name in left} == {"a", "q0", *(f"q{n}" for n in range(50, 100))}
    assert {name: size for name, size in left.items() if name.startswith("q99/")} == kept
    assert sorted(host.push("a", tw.cti(1_000))) == sorted(f"q{n}" for n in range(50, 100))


def test_replacing_takes_state_over_where_answers_are_final() -> None:
    host = Host()
    host.add("q", counts(), consistency="final")
    host.push("a", [at(1), at(2)])
    host.replace("q", counts().where("n > 1"))
    out = host.push("a", [at(3), tw.cti(10)])["q"]
    assert [e.payload["n"] for e in tw.elements_of(out) if isinstance(e, tw.Insert)] == [3]


def test_a_restored_host_shares_with_queries_that_come_later_and_keeps_its_history() -> None:
    host = Host(keep_history=True)
    host.add("first", counts())
    host.push("a", [at(3), at(12), tw.cti(15)])
    host = restored(host)
    out = host.add("added", counts(), since="history")["added"]
    assert [e.payload["n"] for e in tw.elements_of(out) if isinstance(e, tw.Insert)] == [1]
    host.add("third", counts())
    assert host.shared()["a"] == ["first", "added", "third"]
    assert answers_of(host, [at(16), tw.cti(20)]) == [(10, 2)]


def test_bytes_that_are_no_snapshot_of_a_host_are_refused() -> None:
    for wrong in (b"", Engine(counts()).snapshot()):
        with pytest.raises(StateError):
            Host.restore(wrong)


def test_late_rows_are_in_the_ledger_of_their_source() -> None:
    rows = tw.source("a", COLUMNS, insert_only=True, late="drop")
    host = Host()
    host.add("one", rows)
    host.add("two", rows.where("v > 0"))
    host.push("a", [at(12), tw.cti(15), at(3)])
    assert host.late_count("a") == 1
    host = Host.restore(host.snapshot())
    assert host.late("a").column("_start").to_pylist() == [3]
    assert host.late("a").num_rows == 0 and host.late_count("a") == 1


@udm.aggregate("host.not_three", inputs={"v": "int64"}, output="int64")
def not_three(values: Sequence[int]) -> int:
    if 3 in values:
        raise RuntimeError("three")
    return sum(values)


def test_windows_that_a_module_failed_on_are_told_to_one_of_its_queries() -> None:
    """Both queries use one operator, whose letters are read once; others have letters of their
    own."""
    a = tw.source("a", COLUMNS, insert_only=True)
    totals = a.tumbling(10).apply("host.not_three", "v", on_error="skip")
    host = Host()
    host.add("one", totals)
    host.add("two", totals.where("not_three > 0"))
    host.add("other", a.hopping(20, 10).apply("host.not_three", "v", on_error="skip"))
    host.push("a", [at(1), tw.point({"k": 1, "v": 3}, 12), tw.cti(20)])
    host = Host.restore(host.snapshot())
    letters = host.dead_letters("two").to_pylist()
    assert [(letter["start"], letter["end"]) for letter in letters] == [(10, 20)]
    assert "three" in letters[0]["reason"] and "host.not_three" in letters[0]["module"]
    assert host.dead_letters("one").num_rows == 0, "they were read"
    assert {letter["start"] for letter in host.dead_letters("other").to_pylist()} == {0}
    with pytest.raises(PlanError, match="no query 'three'"):
        host.dead_letters("three")


def test_rows_whose_clock_is_wrong_are_set_aside_for_all_queries() -> None:
    """Such a row waits in the source, also over a restart, and no query has seen it."""
    policy = tw.quarantine(100, key="k")
    a = tw.source("a", COLUMNS, insert_only=True, disorder=5, late="error", quarantine=policy)
    host = Host(now=lambda: 1_000)
    host.add("rows", a)
    host.add("counts", a.tumbling(10).aggregate(n=tw.count()), consistency="final")

    def row(key: int, time: int) -> Element:
        return tw.point({"k": key, "v": 1}, time)

    out = host.push("a", [row(1, 10), row(2, 11), row(3, 99_999), row(1, 12)])
    host = Host.restore(host.snapshot(), now=lambda: 1_000)
    ended = host.finish()["counts"]
    assert [start for start, _, _ in table(out["rows"], a)] == [10, 11, 12]
    assert host.quarantined("a").column("_start").to_pylist() == [99_999]
    assert host.quarantined("a").num_rows == 0, "they were read"
    assert [row["n"] for _, _, row in table(ended, Stream(host.queries["counts"]))] == [3]


def test_a_timer_promises_for_a_silent_source() -> None:
    clock = [0]
    a = tw.source("a", COLUMNS, insert_only=True, progress=[tw.ordered(), tw.timer(2, every=10)])
    host = Host(now=lambda: clock[0])
    host.add("counts", a.tumbling(10).aggregate(n=tw.count()), consistency="final")

    def answers(out: dict[str, list[Batch]]) -> list[int]:
        elements = tw.elements_of(out.get("counts", []))
        return [e.payload["n"] for e in elements if isinstance(e, tw.Insert)]

    assert not answers(host.push("a", at(3)))
    clock[0] = 9
    assert not answers(host.tick()), "it is not time yet"
    clock[0] = 25
    assert answers(host.tick()) == [1]
    assert not host.tick(), "it has gone off"


def test_sources_of_a_host_answer_when_somebody_waits() -> None:
    """A silent source holds the count of both back, until the clock says that nothing comes."""
    clock = [0]
    a, b = (
        tw.source(name, COLUMNS, insert_only=True, progress=[tw.ordered(), tw.on_demand(5)])
        for name in "ab"
    )
    host = Host(now=lambda: clock[0])
    both = a.union(b).tumbling(10).aggregate(n=tw.count())
    host.add("both", both, consistency="final")
    host.add("alone", a.where("v > 0"))
    assert "both" not in host.push("a", at(3))
    clock[0] = 14
    assert "both" not in host.tick(), "the clock has not come so far that an answer releases it"
    clock[0] = 15
    out = host.tick()["both"]
    assert [e.payload["n"] for e in tw.elements_of(out) if isinstance(e, tw.Insert)] == [1]
    host.remove("both")
    assert host.push("a", at(16))["alone"]


def test_mistakes() -> None:
    host = Host()
    host.add("q", counts())
    with pytest.raises(PlanError, match="has a query 'q' already"):
        host.add("q", counts())
    with pytest.raises(PlanError, match="no query 'p'"):
        host.remove("p")
    with pytest.raises(PlanError, match="declare it alike"):
        host.add("p", tw.source("a", {"v": "int64"}))
    with pytest.raises(PlanError, match="no query of the host reads a source 'z'"):
        host.push("z", at(1))
    assert list(host.queries) == ["q"]


@pytest.mark.parametrize("seed", range(20))
def test_windows_that_are_kept_have_missed_nothing(seed: int) -> None:
    """Under any disorder, each is a window of the query that ran from the start; and behind the
    newest row that came before, all of them are there."""
    random = Random(seed)
    shift = random.choice([0, 0, 7])
    rows = tw.source("a", COLUMNS, insert_only=True)
    query = rows.shift(shift).group_by("k").tumbling(10).aggregate(n=tw.count(), s=tw.sum_("v"))
    host, out = Host(), {"first": list[Batch](), "added": list[Batch]()}
    host.add("first", query)
    times = sorted(range(200), key=lambda time: time + random.uniform(0, 60))
    point = random.randrange(20, 120)
    for number, time in enumerate(times):
        if number == point:
            host.add("added", query)
        row = {"k": random.randint(0, 2), "v": random.randint(0, 9)}
        for name, batches in host.push("a", tw.point(row, time)).items():
            out[name] += batches
    for name, batches in host.finish().items():
        out[name] += batches
    whole, added = table(out["first"], query), table(out["added"], query)
    since = max(times[:point]) + 1 + shift
    assert added == [row for row in whole if row[0] >= since]
