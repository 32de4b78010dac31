"""Benchmarks give the peer what its best user would: as many partitions as cores, the better store,
a process of its own, its best batch size; and they end when they say."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks import _spark_peer, sliding
from benchmarks._turns import Turns
from thalweg.cli.bench import Value

BENCHMARKS = Path(sliding.__file__).parent


@pytest.mark.parametrize("store", _spark_peer.PEERS)
def test_sparks_own_has_as_many_partitions_as_cores(store: _spark_peer.Store) -> None:
    settings = _spark_peer.peer_settings(store)
    assert settings["spark.sql.shuffle.partitions"] == str(os.cpu_count())
    assert settings["spark.master"] == f"local[{os.cpu_count()}]"
    provider = settings["spark.sql.streaming.stateStore.providerClass"]
    assert ("RocksDB" in provider) == (store == "rocksdb")
    changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    assert settings[changelog] == "true"


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


def test_every_peer_on_spark_is_set_up_in_one_place_and_has_a_process_of_its_own() -> None:
    own = {"_spark_peer.py"}
    for path in BENCHMARKS.glob("*.py"):
        names = names_in(path)
        if path.name not in own:
            assert "SparkSession" not in names, f"{path.name}: take peer_session"
        if "peer_session" in names and path.name not in own:
            assert names & {"call", "OwnProcess"}, (
                f"{path.name}: the peer needs a process of its own"
            )


class Clock:
    """A clock that only measurements and starts of processes move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


START_S, OVERSHOOT = 30.0, 1.3
"""What starting an engine takes on two cores, and how far a last micro-batch goes beyond its
time."""


def test_sliding_ends_within_a_quarter_of_an_hour_and_gives_three_ratios(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, given = Clock(), []

    def call(function: str, *, trials: list[list[int]], budget_s: float, **_: Any) -> list[float]:
        clock.now += START_S + len(trials) * budget_s * OVERSHOOT
        given.append((function, budget_s))
        factor = 5.0 if function.endswith("ours") else 1.0
        return [factor * size for size, _ in trials]

    def duckdb(*_: object) -> float:
        clock.now += 15.0
        return 1.0

    def write(_folder: object, _keys: int, rows: int, *_: object) -> None:
        clock.now += rows / 1e6

    def turns(measure: object, seconds: object, rounds: int, warm_rounds: int) -> Turns:
        taken = 3 + 2 * (rounds + warm_rounds)
        clock.now += 3 * START_S + taken * sliding.InTurns.budget_s * OVERSHOOT
        runs = {"thalweg": [{"rows_per_s": 5.0}], "spark, default": [{"rows_per_s": 2.0}]}
        return Turns(runs, "spark, default")

    found: list[tuple[str, float, dict[str, Value]]] = []
    monkeypatch.setattr(sliding, "call", call)
    monkeypatch.setattr(sliding, "take_turns", turns)
    monkeypatch.setattr(sliding, "_duckdb", duckdb)
    monkeypatch.setattr(sliding, "_write", write)
    monkeypatch.setattr(sliding, "monotonic", clock)
    sliding.run(lambda metric, value, unit, **facts: found.append((metric, value, facts)))
    assert clock.now <= 15 * 60
    assert min(budget for _, budget in given) >= 10.0, "time for some micro-batches"
    ratios = [
        (facts["range_over_slide"], facts["sizes"])
        for m, _, facts in found
        if m == "ratio_to_spark"
    ]
    assert ratios[0] == (10, "small")
    assert sorted(ratios[1:]) == [(r, s) for r in (1, 10, 60) for s in ("best", "equal")]
    searched = {facts["engine"] for metric, _, facts in found if metric == "batch_search"}
    assert searched == {"spark", "thalweg"}
