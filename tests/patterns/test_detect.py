"""Regular patterns: against the oracle under every form of their input, and what is refused."""

from __future__ import annotations

from random import Random

import pytest

import thalweg as tw
from thalweg.errors import PlanError, TypeMismatchError, UnknownColumnError
from thalweg.model import Row
from thalweg.plan.automata import Pattern
from thalweg.plan.nodes.detect import Simultaneous
from thalweg.testing import assert_physically_independent

S = tw.source("s", {"k": "int64", "v": "int64", "x": "string"})

UP = tw.event("v > top", keep={"top": "v", "n": "n + 1"})
START = tw.event("v is not null", keep={"top": "v"})
LETTER = {letter: tw.event(f"x = '{letter}'") for letter in "abc"}

PATTERNS: dict[str, Pattern] = {
    "rising": tw.then(START, tw.repeated(UP)),
    "a b* c": tw.then(LETTER["a"], tw.repeated(LETTER["b"], least=0), LETTER["c"]),
    "a b? (c | b a)": tw.then(
        LETTER["a"],
        tw.optional(LETTER["b"]),
        tw.one_of(LETTER["c"], tw.then(LETTER["b"], LETTER["a"])),
    ),
    "(a | b)+": tw.repeated(tw.one_of(LETTER["a"], LETTER["b"])),
    "a": LETTER["a"],
}
SETS: dict[str, Pattern] = {
    "a, then no b, then c": tw.then(
        LETTER["a"], tw.repeated(tw.no_event("x = 'b'"), least=0), LETTER["c"]
    ),
    "a+": tw.repeated(LETTER["a"]),
}


def events(random: Random, count: int, span: int) -> list[Row]:
    rows: list[Row] = []
    for _ in range(count):
        start = random.randint(0, span)
        payload = {
            "k": random.choice([1, 1, 2, None]),
            "v": random.choice([0, 1, 2, 3, None]),
            "x": random.choice("aaabbbcc"),
        }
        rows.append((start, start + random.choice([1, 4]), payload))
    return rows


def check(
    pattern: Pattern,
    random: Random,
    *,
    overlap: bool,
    simultaneous: Simultaneous = "sequence",
    forms: int = 3,
) -> None:
    query = S.group_by("k").detect(
        pattern,
        within=random.choice([3, 8, 20]),
        registers={"top": "int64", "n": ("int64", 0)},
        overlap=overlap,
        simultaneous=simultaneous,
    )
    assert_physically_independent(
        query.node,
        {"s": events(random, random.randint(0, 14), 18)},
        forms=forms,
        seed=random.randint(0, 10**6),
        consistency=random.choice(["speculative", "final", "eager"]),
    )


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("name", PATTERNS)
def test_law(name: str, overlap: bool) -> None:
    random = Random(1)
    for _ in range(5):
        check(PATTERNS[name], random, overlap=overlap)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("name", SETS)
def test_law_of_sets(name: str, overlap: bool) -> None:
    random = Random(2)
    for _ in range(5):
        check(SETS[name], random, overlap=overlap, simultaneous="set")


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("name", [*PATTERNS, *SETS])
def test_law_at_length(name: str, overlap: bool) -> None:
    random = Random(3)
    for _ in range(100):
        if name in SETS:
            check(SETS[name], random, overlap=overlap, simultaneous="set", forms=6)
        else:
            check(PATTERNS[name], random, overlap=overlap, forms=6)


def test_an_instance_is_over_though_its_first_events_are_forgotten() -> None:
    # The events at 8 and 9 belong to the instance that began at 7, also when a second CTI comes
    # after which no further instance has begun.
    query = S.group_by("k").detect(
        PATTERNS["(a | b)+"],
        within=3,
        registers={"top": "int64", "n": ("int64", 0)},
        overlap=False,
    )
    rows = [tw.point({"k": 1, "v": 0, "x": "a"}, time) for time in (7, 8, 9)]
    late = tw.point({"k": 1, "v": 0, "x": "a"}, 11)
    engine = tw.Engine(query)
    out = []
    for part in ([*rows, tw.cti(10)], [tw.cti(11)], [late]):
        out += engine.push("s", part)
    starts = [(e.start, e.end) for e in tw.elements_of(out) if isinstance(e, tw.Insert)]
    assert starts == [(7, 10), (8, 10), (9, 10), (11, 14)]


def test_state_goes_with_the_bound_not_with_the_stream() -> None:
    query = S.detect(PATTERNS["a b* c"], within=10, registers={"top": "int64"}, overlap=False)
    engine = tw.Engine(query)
    held = []
    for time in range(0, 4_000, 40):
        rows = [tw.point({"k": 1, "v": 1, "x": "abbc"[n % 4]}, time + n) for n in range(40)]
        engine.push("s", [*rows, tw.cti(time + 40)])
        held.append(sum(size.rows for size in engine.state_size().values()))
    assert max(held) <= 20
    engine.push("s", [tw.cti(tw.INFINITY)])
    assert sum(size.rows for size in engine.state_size().values()) == 0


def test_mistakes_are_refused_when_the_pattern_is_written() -> None:
    with pytest.raises(UnknownColumnError, match="tops"):
        S.detect(tw.event("true", keep={"tops": "v"}), within=5, registers={"top": "int64"})
    with pytest.raises(TypeMismatchError, match="'top' is int64"):
        S.detect(tw.event("true", keep={"top": "x"}), within=5, registers={"top": "int64"})
    with pytest.raises(PlanError, match=r"simultaneous must be one of sequence, set\. .*'sets'"):
        S.detect(LETTER["a"], within=5, simultaneous="sets")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="simultaneous"):
        S.detect(tw.no_event("v = 1"), within=5, registers={"top": "int64"})
    with pytest.raises(PlanError, match="name the register otherwise"):
        S.detect(LETTER["a"], within=5, registers={"v": "int64"})
    with pytest.raises(PlanError, match="set"):
        S.detect(tw.event("v > top"), within=5, registers={"top": "int64"}, simultaneous="set")
    with pytest.raises(PlanError, match="pattern such as event"):
        tw.then(LETTER["a"], "b")  # type: ignore[arg-type]
