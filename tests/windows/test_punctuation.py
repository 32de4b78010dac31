"""Punctuation as patterns: which are promises, and what is caught at the input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import InputError, LateEventError, MalformedElementError
from thalweg.model.punctuation import ANY, Punctuation, before, punctuation, within

PACKETS = {"src": "string", "len": "int64"}


def packet(time: int, src: str = "a", length: int = 50) -> tw.Element:
    return tw.point({"src": src, "len": length}, time)


def test_kinds() -> None:
    assert punctuation(ts=before(12)).to_cti() == tw.cti(12)
    assert punctuation(src="a", len=ANY, ts=before(12)).to_cti() == tw.cti(12, {"src": "a"})
    assert punctuation(src="a").to_cti() == tw.cti(None, {"src": "a"})
    for general in (
        punctuation(len=within(0, 9)),
        punctuation(ts=within(5, 9)),
        punctuation(src=before("m"), ts=before(4)),
    ):
        assert general.kind == "general" and general.to_cti() is None


def test_matching() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"src": ["a", "b", None, "a"], "len": pa.array([10, 20, 30, None], pa.int64())}
    )
    start = np.array([1, 2, 3, 4])
    assert punctuation(src="a", ts=before(4)).matches(rows, start).tolist() == [
        True,
        False,
        False,
        False,
    ]
    assert punctuation(len=within(15, 40)).matches(rows, start).tolist() == [
        False,
        True,
        True,
        False,
    ]
    assert punctuation(src=None).matches(rows, start).tolist() == [False, False, True, False]
    assert punctuation(len=before(100), ts=within(1, 3)).limits(rows, start).tolist()[:2] == [3, 3]


@pytest.mark.parametrize(
    "pattern",
    [
        punctuation(src="a", ts=before(9)),
        punctuation(len=within(0, 9.5)),
        punctuation(src=None, len=before(4)),
    ],
)
def test_written_and_read(pattern: Punctuation) -> None:
    assert Punctuation.from_text(pattern.to_text()) == pattern


def test_a_group_wise_promise_closes_the_windows_of_its_group() -> None:
    stream = tw.source("s", PACKETS, group_ctis="src")
    engine = tw.Engine(
        stream.group_by("src").snapshot().aggregate(n=tw.count()), consistency="final"
    )
    engine.push("s", [packet(1), packet(1, "b")])
    out = tw.elements_of(engine.punctuate("s", punctuation(src="a", ts=before(10))))
    assert [row.payload["src"] for row in out if isinstance(row, tw.Insert)] == ["a"]


@pytest.mark.parametrize("policy", ["drop", "side", "adjust"])
def test_what_matches_is_caught_by_the_policy(policy: str) -> None:
    stream = tw.source("s", PACKETS, late=policy)
    engine = tw.Engine(stream)
    assert engine.punctuate("s", punctuation(len=within(1_000, 2_000), ts=before(20))) == []
    out = engine.push("s", [packet(5), packet(6, length=1_500), packet(25, length=1_500)])
    assert [int(start) for batch in out for start in batch.start] == [5, 25]
    assert engine.late_count("s") == 1
    assert engine.late("s").column("_promise").to_pylist() == [20]


def test_a_pattern_outlives_a_restart_and_is_forgotten_when_time_has_passed_it() -> None:
    stream = tw.source("s", PACKETS, late="drop")
    engine = tw.Engine(stream)
    engine.punctuate("s", punctuation(src="a", len=before(100), ts=before(20)))
    again = tw.Engine.restore(stream, engine.snapshot())
    again.push("s", packet(7))
    assert again.late_count("s") == 1
    again.push("s", tw.cti(30))
    again.push("s", packet(35))
    assert again.late_count("s") == 1


def test_mistakes() -> None:
    engine = tw.Engine(tw.source("s", PACKETS))
    engine.punctuate("s", punctuation(len=before(10)))
    with pytest.raises(LateEventError):
        engine.push("s", packet(3, length=5))
    with pytest.raises(InputError, match="Did you mean 'len'"):
        engine.punctuate("s", punctuation(lne=before(10)))
    with pytest.raises(MalformedElementError, match="every attribute is a wildcard"):
        punctuation(src=ANY)
    with pytest.raises(MalformedElementError, match="has no values"):
        within(5, 5)
    with pytest.raises(MalformedElementError, match="ts must be a range of time"):
        punctuation(ts=5)  # type: ignore[arg-type]
