"""A batch of one row takes short ways, through the source and through row operators in a row: what
comes out, what is counted and what is kept is the same as on the long way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import thalweg as tw
from thalweg.errors import EvaluationError, ThalwegError
from thalweg.graph.fused import Fused
from thalweg.model import Batch, Element
from thalweg.model.element_batches import elements_of
from thalweg.operators.source.ingress import IngressKernel
from thalweg.stream import Stream

COLUMNS = {"k": "int64", "v": "int64", "x": "double", "s": "string", "p": "bool"}
TOP = 2**63 - 1


def _steps(random: Random) -> list[Callable[[Stream], Stream]]:
    """Row operators that have a form for one row, and two that have none."""
    condition = random.choice(["v > 1", "p AND v < 9", "x >= 0.5 OR p", "s = 'b'"])
    by, lasts = random.randint(-4, 4), random.randint(1, 5)
    return [
        lambda s: s.where(condition),
        lambda s: s.select(k="k", v="v * 2 - k", x="x + x", s="s", p="NOT p"),
        lambda s: s.select(k="v", v="k", x="x", s="s", p="v IS NULL OR x > 0.0"),
        lambda s: s.select(k="k", v="_start + v", x="x * x", s="s", p="p"),
        lambda s: s.shift(by),
        lambda s: s.extend(by),
        lambda s: s.set_duration(lasts),
        lambda s: s.clip_duration(lasts),
        lambda s: s.point_at_end(),
        lambda s: s.where("length(s) > 0"),
        lambda s: s.alter_lifetime(start="_start + 1", duration=3),
    ]


def _chain(random: Random, stream: Stream) -> Stream:
    """Two to six row operators."""
    for _ in range(random.randint(2, 6)):
        stream = random.choice(_steps(random))(stream)
    return stream


def _payload(random: Random) -> dict[str, Any]:
    return {
        "k": random.choice([None, 0, 1, 2]),
        "v": random.choice([None, -1, 2, 7]),
        "x": random.choice([None, -0.0, 0.5, 2.0, float("nan")]),
        "s": random.choice([None, "", "b", "é"]),
        "p": random.choice([None, True, False]),
    }


def _elements(random: Random, count: int) -> list[Element]:
    found: list[Element] = []
    time = 0
    for _ in range(count):
        time += random.randint(0, 3)
        start = max(time - random.randint(0, 4), 0)
        last = random.choice([1, 2, 5, None])
        payload = _payload(random)
        found.append(
            tw.insert(payload, start) if last is None else tw.insert(payload, start, start + last)
        )
        if random.random() < 0.1:
            found.append(tw.cti(max(time - 3, 0)))
    return found


def _told(batches: list[Batch]) -> list[str]:
    """What came out, one line for each batch; NaN is equal to itself there."""
    return [f"{list(elements_of([b]))} {b.schema.types} {b.progress}" for b in batches]


def _figures(engine: tw.Engine) -> dict[str, tuple[int, ...]]:
    return {
        name: (done.batches, done.rows_in, done.rows_out, done.state_rows)
        for name, done in engine.status().operators.items()
    }


@pytest.mark.parametrize("seed", range(60))
def test_one_row_through_a_chain_is_what_its_operators_make_of_it(seed: int) -> None:
    random = Random(seed)
    only = random.random() < 0.5
    query = _chain(random, tw.source("s", COLUMNS, disorder=5, late="drop", insert_only=only))
    short, long = tw.Engine(query), tw.Engine(query, strategy="depth-first")
    for element in _elements(random, 40):
        said = [_told(engine.push("s", element)) for engine in (short, long)]
        assert said[0] == said[1]
    assert _figures(short) == _figures(long)
    assert short._graph.arcs() == long._graph.arcs()


def test_a_chain_has_a_short_way() -> None:
    query = tw.source("s", COLUMNS).where("v > 1").select(w="v + 1").shift(2)
    engine = tw.Engine(query)
    engine.push("s", tw.point({"k": 1, "v": 5, "x": 1.0, "s": "", "p": True}, 3))
    (fused,) = [row.operator for row in engine._graph.state if isinstance(row.operator, Fused)]
    assert fused._row_chain is not None


def test_what_the_kernels_refuse_is_refused() -> None:
    query = tw.source("s", {"v": "int64"}).where("v > 1").select(w="v + 1")
    engine = tw.Engine(query)
    assert list(elements_of(engine.push("s", tw.point({"v": 4}, 1)))) == [tw.point({"w": 5}, 1)]
    with pytest.raises(EvaluationError, match="overflow"):
        engine.push("s", tw.point({"v": TOP}, 2))


POLICIES: list[dict[str, Any]] = [
    {"disorder": 3},
    {"disorder": 3, "insert_only": True},
    {"progress": [tw.late_by(3)], "insert_only": True},
    {"insert_only": True},
    {},
]


@pytest.mark.parametrize("most", [1, 5])
@pytest.mark.parametrize("late", ["drop", "adjust", "side", "error"])
@pytest.mark.parametrize("policy", range(len(POLICIES)))
def test_a_source_admits_a_few_rows_as_it_admits_many(
    policy: int, late: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a batch has a CTI behind its rows."""
    declared = POLICIES[policy]
    query = tw.source("s", {"v": "int64"}, late=late, **declared)
    for seed in range(5):
        outcomes = []
        for plain in (True, False):
            random = Random(seed)
            with monkeypatch.context() as patch:
                if not plain:
                    patch.setattr(IngressKernel, "_is_plain", lambda *_: False)
                engine = tw.Engine(query, now=lambda: 0)
                said: list[object] = []
                waiting: list[Element] = []
                for element in _elements(random, 30 * most):
                    given = element
                    if isinstance(element, tw.Insert):
                        given = tw.insert({"v": element.payload["v"]}, element.start, element.end)
                    waiting.append(given)
                    if len(waiting) < most and random.random() < 0.8:
                        continue
                    given_now, waiting = waiting, []
                    try:
                        said.append(_told(engine.push("s", given_now)))
                    except ThalwegError as error:
                        said.append(str(error))
                said += [engine.late("s").to_pylist(), engine.snapshot()]
            outcomes.append(said)
        assert outcomes[0] == outcomes[1]


def test_a_row_of_a_group_that_has_ended_is_late_by_itself_too() -> None:
    source = tw.source("s", {"k": "int64"}, insert_only=True, late="drop", group_ctis="k")
    engine = tw.Engine(source)
    engine.push("s", [tw.point({"k": 1}, 1), tw.cti(tw.INFINITY, {"k": 1})])
    for time in (2, 3):  # promises that follow make the source forget all but that it has ended
        engine.push("s", [tw.point({"k": 2}, time), tw.cti(time, {"k": 2})])
    engine.push("s", tw.cti(4))
    engine.push("s", tw.point({"k": 1}, 9))
    assert engine.late_count("s") == 1
    engine.push("s", tw.point({"k": 2}, 9))
    assert engine.late_count("s") == 1
