"""An operator that keeps rows because one of its sources is stuck: it is said, and only then."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.shards.local_engine import DividedEngine
from thalweg.shards.reports.bucket_report import BucketReport


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.graph.stuck.LEAST_ROWS", 100)


def _source(name: str) -> tw.Stream:
    return tw.source(name, {"k": "int64"}, disorder=0, insert_only=True)


def _query() -> tw.Stream:
    return _source("clicks").join(_source("orders"), "k")


def _rows(first: int, last: int) -> list[tw.Insert]:
    return [tw.point({"k": time % 5}, time) for time in range(first, last)]


def test_a_join_says_which_source_is_stuck_and_what_to_do() -> None:
    engine = tw.Engine(_query())
    engine.push("orders", _rows(0, 3))
    engine.push("clicks", _rows(0, 90))
    assert engine.status().warnings == ()
    engine.push("clicks", _rows(90, 200))
    (warning,) = engine.status().warnings
    assert "join-1 holds" in warning
    assert "source orders is stuck at 2 while the other input has come to 199" in warning
    assert "idle=" in warning
    engine.push("orders", _rows(3, 199))
    assert engine.status().warnings == ()


def test_a_source_that_has_said_nothing_is_stuck_too() -> None:
    engine = tw.Engine(_query())
    engine.push("clicks", _rows(0, 200))
    (warning,) = engine.status().warnings
    assert "source orders is stuck at nothing" in warning


def test_a_join_that_holds_many_rows_and_comes_along_is_not_warned_about() -> None:
    lasting = tw.source("clicks", {"k": "int64"}, disorder=0, insert_only=True).set_duration(500)
    engine = tw.Engine(lasting.join(_source("orders"), "k"))
    for first in range(0, 600, 20):
        engine.push("clicks", _rows(first, first + 20))
        engine.push("orders", _rows(first, first + 15))
        assert engine.status().warnings == (), first
    assert engine.state_size()["join-1"].rows > 400


def test_the_divided_engine_says_the_same() -> None:
    engine = DividedEngine(_query(), buckets=1)
    engine.push("orders", _rows(0, 3))
    engine.push("clicks", _rows(0, 300))
    stuck = [text for report in engine.reports() for text in report.stuck]
    assert len(stuck) == 1
    assert "source orders is stuck at 2" in stuck[0]
    for report in engine.reports():
        assert BucketReport.from_json(report.to_json()) == report
