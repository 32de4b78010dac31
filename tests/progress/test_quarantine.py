"""Clock quarantine: the gate against its definition row by row, and what an engine makes of it."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import PlanError, UnknownColumnError
from thalweg.model import Batch, batches_of, cht
from thalweg.model.time import MIN_TIME
from thalweg.progress import QuarantineGate
from thalweg.progress.policies import Quarantine, quarantine
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import FakeClock

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
Sent = list[tuple[str, int]]


def naive(sent: Sent, policy: Quarantine) -> tuple[list[int], list[int], list[int]]:
    """Row by row from the definition: the numbers of the rows that come in, are set aside, and wait
    at the end."""
    newest: dict[str, int] = {}
    waiting: list[int] = []
    admitted: list[int] = []
    aside: list[int] = []

    def reference() -> int:
        best = sorted(newest.values(), reverse=True)
        return best[policy.quorum - 1] if len(best) >= policy.quorum else MIN_TIME

    for number, (key, time) in enumerate(sent):
        newest[key] = max(time, newest.get(key, MIN_TIME))
        now = reference()
        for other in [at for at in waiting if sent[at][1] - policy.ahead <= now]:
            waiting.remove(other)
            admitted.append(other)
        if time - policy.ahead > now:
            waiting.append(number)
        elif policy.behind is not None and time < now - policy.behind:
            aside.append(number)
        else:
            admitted.append(number)
    return admitted, aside, waiting


def batch(sent: Sent, first: int) -> Batch:
    (made,) = batches_of(
        [tw.point({"k": key, "n": first + at}, time) for at, (key, time) in enumerate(sent)], SCHEMA
    )
    return made


def played(
    sent: Sent, policy: Quarantine, random: Random
) -> tuple[list[int], list[int], list[int]]:
    gate = QuarantineGate(policy, SCHEMA)
    admitted: list[int] = []
    aside: list[int] = []
    begin = 0
    while begin < len(sent):
        end = begin + random.choice([1, 2, 5, 40])
        gated = gate.gate(batch(sent[begin:end], begin), MIN_TIME, None)
        admitted += gated.batch.payload.column("n").to_pylist()
        aside += gated.aside.payload.column("n").to_pylist()
        gate = QuarantineGate(policy, SCHEMA).from_rows(
            gated.gate.to_rows()
        )  # a restart after every batch
        begin = end
    return (
        admitted,
        aside,
        [] if gate.waiting is None else sorted(gate.waiting.payload.column("n").to_pylist()),
    )


@pytest.mark.parametrize("quorum", [2, 3, 4])
@pytest.mark.parametrize("seed", range(12))
def test_the_gate_is_its_definition_whatever_the_batches(quorum: int, seed: int) -> None:
    random = Random(f"{quorum}/{seed}")
    rogue = {"r": 10_000, "s": 500, "t": -300}
    keys = random.choices("abcrst" if seed % 2 else "abr", k=80)
    sent = [(key, at + rogue.get(key, 0) + random.randint(-5, 5)) for at, key in enumerate(keys)]
    policy = Quarantine(ahead=20, behind=random.choice([None, 50]), key="k", quorum=quorum)
    assert played(sent, policy, random) == naive(sent, policy)


@pytest.mark.parametrize("seed", range(4))
def test_equal_times_and_keys_that_rise(seed: int) -> None:
    random = Random(seed)
    sent = [(random.choice("abcd"), random.randint(0, 6) * 10) for _ in range(60)]
    policy = Quarantine(ahead=5, behind=25, key="k", quorum=3)
    assert played(sent, policy, random) == naive(sent, policy)


def engine(**facts: Any) -> tuple[tw.Engine, FakeClock]:
    clock = FakeClock(1_000)
    stream = tw.source(
        "s", {"k": "string", "n": "int64"}, insert_only=True, disorder=5, late="error", **facts
    )
    return tw.Engine(stream, now=clock), clock


def rows(*sent: tuple[str, int]) -> list[Any]:
    return [tw.point({"k": key, "n": time}, time) for key, time in sent]


def told(out: list[Batch]) -> list[int]:
    return [element.start for element in tw.elements_of(out) if isinstance(element, tw.Insert)]


def test_without_quarantine_one_clock_makes_every_other_row_late() -> None:
    plain, _ = engine()
    with pytest.raises(tw.ThalwegError, match="before the promise"):
        plain.push("s", rows(("a", 10), ("r", 99_999), ("b", 11)))


def test_a_clock_in_the_far_future_is_isolated_reported_and_merged_back() -> None:
    running, clock = engine(quarantine=quarantine(100, key="k"))
    assert told(
        running.push("s", rows(("a", 10), ("b", 11), ("r", 99_999), ("a", 12), ("b", 13)))
    ) == [10, 11, 12, 13]
    (case,) = running.quarantine("s")
    assert (case.key, case.reason, case.since, case.rows, case.claims) == (
        "r",
        "ahead",
        1_000,
        1,
        99_999,
    )
    assert "'r' is in quarantine" in str(running.why())
    clock.advance_to(2_000)
    assert told(running.push("s", rows(("r", 14), ("a", 15)))) == [
        14,
        15,
    ]  # its clock is right again
    assert [case.rows for case in running.quarantine("s")] == [1]  # but one row still waits
    out = running.push(
        "s", rows(("a", 99_996), ("b", 99_997))
    )  # everybody jumps: the second vouches for all
    assert sorted(told(out)) == [99_996, 99_997, 99_999]
    assert running.push("s", rows(("r", 99_998))) and running.quarantine("s") == []
    assert running.status().quarantined == 0


def test_a_stuck_clock_is_set_aside_and_does_not_end_the_query() -> None:
    running, _ = engine(quarantine=quarantine(100, behind=50, key="k"))
    running.push("s", rows(("a", 10), ("b", 11), ("c", 12), ("a", 100), ("b", 101)))
    assert told(running.push("s", rows(("c", 12), ("c", 12), ("a", 103)))) == [103]
    assert [(case.key, case.reason, case.rows) for case in running.quarantine("s")] == [
        ("c", "behind", 2)
    ]
    assert running.quarantined("s").column("_action").to_pylist() == ["quarantined"] * 2
    running.push("s", rows(("c", 104)))
    assert running.quarantine("s") == [] and running.status().quarantined == 2


def test_the_clock_is_the_reference_of_a_source_without_keys() -> None:
    running, clock = engine(quarantine=quarantine(100))
    assert told(running.push("s", rows(("a", 990), ("a", 1_500)))) == [990]
    clock.advance_to(1_450)
    assert told(running.push("s", rows(("a", 1_498)))) == [
        1_500,
        1_498,
    ]  # it waited for its time, and comes in first


def test_rows_that_wait_survive_a_restart_and_are_set_aside_at_the_end() -> None:
    running, _ = engine(quarantine=quarantine(100, key="k"))
    running.push("s", rows(("a", 10), ("r", 9_000), ("b", 11)))
    again = tw.Engine.restore(running.query, running.snapshot())
    assert [case.key for case in again.quarantine("s")] == ["r"]
    again.finish()
    assert again.quarantined("s").column("n").to_pylist() == [9_000]


def test_only_so_many_rows_wait() -> None:
    running, _ = engine(quarantine=quarantine(100, key="k", hold=2))
    running.push("s", rows(("a", 10), ("b", 11), *(("r", 9_000 + at) for at in range(4))))
    assert running.state_size()["source-1"].rows == 2
    assert running.quarantined("s").column("n").to_pylist() == [9_002, 9_003]


def test_a_promise_in_the_data_vouches_for_rows_that_wait() -> None:
    running, _ = engine(quarantine=quarantine(100, key="k"))
    running.push("s", rows(("a", 10), ("b", 11), ("a", 500)))
    assert told(running.push("s", tw.cti(450))) == [500]


def test_a_source_whose_clock_stands_still_holds_nobody_back() -> None:
    second = 1_000_000
    policy = (tw.ordered(), tw.timer("2 s", every="1 s"))
    stuck = tw.source(
        "stuck",
        {"k": "string"},
        insert_only=True,
        late="error",
        progress=policy,
        quarantine=quarantine("9 s", behind="5 s"),
    )
    query = (
        tw.source("fast", {"k": "string"}, insert_only=True, progress=tw.ordered())
        .union(stuck)
        .tumbling("1 s")
        .aggregate(n=tw.count())
    )
    clock, told = FakeClock(100 * second), FakeClock(100 * second)
    one, many = tw.Engine(query, now=clock), DividedEngine(query, clock=lambda: told() / second)
    for at in range(100, 120):
        clock.advance("1 s")
        told.advance("1 s")
        for engine in (one, many):
            engine.push("fast", tw.point({"k": "f"}, at * second))
            engine.push(
                "stuck", tw.point({"k": "s"}, (at if at < 105 or at >= 117 else 105) * second)
            )
        one.tick()
        out = many.tick()
        if at == 115:
            assert one.status().progress.cti == out[-1].progress.cti == 114 * second
            assert [case.reason for case in one.quarantine("stuck")] == ["behind"]
            assert any("its clock is behind" in note for note in many.why().notes)
    assert one.quarantine("stuck") == [] and not any(
        "quarantine" in note for note in many.why().notes
    ), "its clock goes again"
    assert one.status().progress.cti >= 118 * second


@pytest.mark.parametrize("seed", range(2))
def test_a_divided_query_keeps_the_same_rows_out(seed: int) -> None:
    random = Random(seed)
    stream = tw.source(
        "s",
        {"k": "string", "n": "int64"},
        insert_only=True,
        disorder=12,
        late="drop",
        quarantine=quarantine(50, key="k"),
    )
    query = stream.group_by("k").tumbling(20).aggregate(n=tw.count())
    sent = rows(
        *(
            (key, at + (5_000 if key == "r" else 0) - random.randint(0, 5))
            for at, key in enumerate(random.choices("abcr", k=90))
        )
    )
    one, many = tw.Engine(query), DividedEngine(query)
    parts = [sent[begin : begin + 15] for begin in range(0, len(sent), 15)]
    answers = [
        cht(tw.elements_of([*(b for part in parts for b in e.push("s", part)), *e.finish()]))
        for e in (one, many)
    ]
    assert sorted(answers[0], key=repr) == sorted(answers[1], key=repr)
    assert one.status().quarantined == sum(element.payload["k"] == "r" for element in sent)


def test_mistakes() -> None:
    with pytest.raises(PlanError, match="insert_only"):
        tw.source("s", {"k": "string"}, quarantine=quarantine(5, key="k"))
    with pytest.raises(UnknownColumnError, match="quarantine"):
        tw.source("s", {"k": "string"}, insert_only=True, quarantine=quarantine(5, key="q"))
    with pytest.raises(PlanError, match="quorum must be 2 or more"):
        quarantine(5, key="k", quorum=1)
    with pytest.raises(PlanError, match="counts keys"):
        quarantine(5, quorum=3)
