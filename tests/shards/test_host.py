"""A divided host: every query has the table that the host in one process gives it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import thalweg as tw
from thalweg.errors import PlanError, StateError
from thalweg.model import Batch, Row, rows_of_table, table_of_batches
from thalweg.run import Host
from thalweg.shards.host.local_host import DividedHost
from thalweg.shards.host.query_registry import QueryRegistry
from thalweg.stream import Stream
from thalweg.testing import difference

COLUMNS = {"k": "int64", "v": "int64"}
Query = Callable[[Stream, Stream], Stream]
QUERIES: dict[str, Query] = {
    "filter": lambda a, b: a.where("v > 0"),
    "counts": lambda a, b: a.where("v > 0").group_by("k").tumbling(5).aggregate(n=tw.count()),
    "sums": lambda a, b: b.shift(3).group_by("v").hopping(6, 3).aggregate(s=tw.sum_("k")),
    "join": lambda a, b: a.where("v > 0").join(b, "k"),
    "two levels": lambda a, b: (
        a.group_by("k", "v")
        .tumbling(4)
        .aggregate(n=tw.count())
        .group_by("v")
        .tumbling(8)
        .aggregate(m=tw.max_("n"))
    ),
    "session": lambda a, b: a.group_by("k").session(3).aggregate(n=tw.count()),
    "one bucket": lambda a, b: a.tumbling(4).aggregate(s=tw.sum_("v")),
    "distinct": lambda a, b: b.distinct(),
}


def streams() -> tuple[Stream, Stream]:
    facts: dict[str, Any] = {"insert_only": True, "disorder": 6, "late": "drop"}
    return tw.source("a", COLUMNS, **facts), tw.source("b", COLUMNS, **facts)


def table(batches: list[Batch], stream: Stream) -> list[Row]:
    return rows_of_table(table_of_batches(batches, stream.node.schema))


class Pair:
    """A host in one process beside a divided one that is stopped now and then."""

    def __init__(self, folder: Path, random: Random, *, stages: int = 2) -> None:
        self.folder, self.random, self.stages = folder, random, stages
        self.whole = Host()
        self.divided = self._start()
        self.out: dict[str, tuple[list[Batch], list[Batch]]] = {}
        self.made: dict[str, str] = {}

    def _start(self, **state: Any) -> DividedHost:
        return DividedHost(streams(), QueryRegistry(self.folder), stages=self.stages, **state)

    def restart(self) -> None:
        self.divided = self._start(stores=self.divided.stores, offsets=self.divided.offsets)

    def add(self, name: str, kind: str, *, partial: bool) -> None:
        query = QUERIES[kind](*streams())
        self.whole.add(name, query, partial=partial)
        self.divided.add(name, query, partial=partial)
        self.made[name], self.out[name] = kind, ([], [])

    def remove(self, name: str) -> None:
        self.whole.remove(name)
        self.divided.remove(name)
        del self.made[name], self.out[name]

    def push(self, source: str, feed: Any) -> None:
        for side, answers in enumerate(
            (
                self.whole.push(source, feed) if source in self.whole._graph.sources else {},
                self.divided.push(source, feed),
            )
        ):
            for name, batches in answers.items():
                self.out[name][side].extend(batches)

    def compare(self) -> None:
        for side, answers in enumerate((self.whole.finish(), self.divided.finish())):
            for name, batches in answers.items():
                self.out[name][side].extend(batches)
        for name, (whole, divided) in self.out.items():
            query = QUERIES[self.made[name]](*streams())
            wrong = difference(table(whole, query), table(divided, query))
            assert wrong is None, (name, self.made[name], wrong)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 80))]
)
def test_every_query_has_the_table_of_the_host_in_one_process(tmp_path: Path, seed: int) -> None:
    """While queries come and go, and the divided host is started again from its state."""
    random = Random(seed)
    pair = Pair(tmp_path / "queries", random)
    for kind in random.sample(list(QUERIES), 3):
        pair.add(kind, kind, partial=False)
    # In one process a source is there while a query reads it.
    kept = {"a": "filter", "b": "distinct"}
    for name, kind in kept.items():
        pair.add(name, kind, partial=True)
    time = 0
    for number in range(20):
        move = random.random()
        if move < 0.3:
            kind = random.choice(list(QUERIES))
            pair.add(f"{kind} {number}", kind, partial=random.random() < 0.5)
        elif move < 0.45 and len(pair.made) > 2:
            pair.remove(random.choice([name for name in pair.made if name not in kept]))
        elif move < 0.6:
            pair.restart()
        time += random.randint(0, 4)
        for source in random.sample("ab", random.randint(1, 2)):
            rows = [
                tw.point(
                    {"k": random.randint(0, 2), "v": random.randint(-1, 3)},
                    time + random.randint(0, 6),
                )
                for _ in range(random.randint(0, 4))
            ]
            pair.push(source, rows)
    pair.compare()


def _state(host: DividedHost) -> set[str]:
    return {key.split("/")[0] for entries in host.stores.values() for key in entries if "/" in key}


def test_removed_queries_leave_no_state(tmp_path: Path) -> None:
    host = DividedHost(streams(), QueryRegistry(tmp_path), stages=2)
    a, b = streams()
    for name, kind in (("one", "two levels"), ("two", "join")):
        host.add(name, QUERIES[kind](a, b))
    host.push("a", [tw.point({"k": k, "v": 1}, k) for k in range(5)])
    host.push("b", [tw.point({"k": k, "v": 1}, k) for k in range(5)])
    assert _state(host) == {"one@1", "two@2"}
    host.remove("one")
    host.push("a", [tw.point({"k": 1, "v": 1}, 9)])
    assert _state(host) == {"two@2"}


def test_equal_inputs_travel_once(tmp_path: Path) -> None:
    host = DividedHost(streams(), QueryRegistry(tmp_path))
    a, b = streams()
    counts = QUERIES["counts"](a, b)
    host.queries.add({"one": counts, "two": counts.where("n > 1"), "other": a.where("v > 0")})
    assert sorted(map(sorted, host.queries.shared().values())) == [["one", "two"], ["other"]]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    host = DividedHost(streams(), QueryRegistry(tmp_path))
    a, b = streams()
    with pytest.raises(PlanError, match="'deep' needs 2 stages"):
        host.add("deep", QUERIES["two levels"](a, b))
    with pytest.raises(PlanError, match="no source 'c'"):
        host.add("c", tw.source("c", COLUMNS))
    with pytest.raises(PlanError, match="declares the source 'a' in another way"):
        host.add("a", tw.source("a", COLUMNS))
    host.add("q", a.where("v > 0"))
    with pytest.raises(PlanError, match="has a query 'q' already"):
        host.add("q", a)
    assert QueryRegistry(tmp_path).version == 1


def test_a_query_that_is_replaced_goes_on_with_its_state_where_it_fits(tmp_path: Path) -> None:
    host = DividedHost(streams(), QueryRegistry(tmp_path))
    counts = QUERIES["counts"](*streams())
    host.add("q", counts, consistency="final")
    host.push("a", [tw.point({"k": 1, "v": 1}, 1), tw.point({"k": 1, "v": 1}, 2)])
    host.replace("q", counts.where("n > 1"))
    assert host.queries.live["q"].id == "q@1"
    out = host.push("a", [tw.point({"k": 1, "v": 1}, 3), tw.point({"k": 1, "v": 1}, 20)])["q"]
    assert [e.payload["n"] for e in tw.elements_of(out) if isinstance(e, tw.Insert)] == [3]
    host.replace("q", QUERIES["sums"](*streams()))
    assert host.queries.live["q"].id == "q@3"


# ------------------------------------------------------------------------------------------------
# the registry


def test_the_registry_is_read_again(tmp_path: Path) -> None:
    host = DividedHost(streams(), QueryRegistry(tmp_path))
    host.add("one", streams()[0])
    host.add("two", streams()[1])
    host.remove("one")
    assert list(DividedHost(streams(), QueryRegistry(tmp_path)).queries.live) == ["two"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_flipped_bit_is_refused(tmp_path: Path, version: int) -> None:
    host = DividedHost(streams(), QueryRegistry(tmp_path))
    for name in "xyz":
        host.add(name, streams()[0].where("v > 0"))
    file = tmp_path / f"{version:08}.json"
    written = file.read_bytes()
    random = Random(version)
    for at in [0, len(written) - 1, *(random.randrange(len(written)) for _ in range(60))]:
        bad = bytearray(written)
        bad[at] ^= 1 << random.randrange(8)
        file.write_bytes(bad)
        with pytest.raises(StateError, match="is not what was written"):
            QueryRegistry(tmp_path).check()
    file.write_bytes(written)
    QueryRegistry(tmp_path).check()
    file.unlink()
    if version < 3:
        with pytest.raises(StateError, match=f"version {version} of the host's queries is gone"):
            QueryRegistry(tmp_path).check()
    with pytest.raises(StateError, match="restored apart"):
        QueryRegistry(tmp_path).between(0, 3)


def test_versions_that_change_places_are_refused(tmp_path: Path) -> None:
    host = DividedHost(streams(), QueryRegistry(tmp_path))
    for name in "xyz":
        host.add(name, streams()[0].where("v > 0"))
    two, three = (json.loads((tmp_path / f"{n:08}.json").read_text()) for n in (2, 3))
    (tmp_path / "00000002.json").write_text(json.dumps(three))
    (tmp_path / "00000003.json").write_text(json.dumps(two))
    with pytest.raises(StateError, match="is not what was written"):
        QueryRegistry(tmp_path).check()
