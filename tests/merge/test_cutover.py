"""Cutting over: equivalent queries by LMerge, different answers at a CTI, with an oracle."""

from __future__ import annotations

from random import Random

import pytest

import thalweg as tw
from thalweg.errors import PlanError
from thalweg.merging.cutover import Cutover
from thalweg.model import (
    INFINITY,
    Batch,
    Element,
    Row,
    batches_of,
    first_violation_in_batches,
    rows_of_table,
    table_of_batches,
)
from thalweg.testing import REPLICA_SCHEMA, difference, make_reference, make_replica


def steps(rows: list[Row], random: Random) -> list[Batch]:
    elements: list[Element] = make_replica("R4", rows, random)
    return [b for e in elements for b in batches_of([e], REPLICA_SCHEMA)]


def table(batches: list[Batch]) -> list[Row]:
    return rows_of_table(table_of_batches(batches, REPLICA_SCHEMA))


@pytest.mark.parametrize("seed", range(60))
def test_different_answers_the_table_is_old_before_t_and_new_from_t_on(seed: int) -> None:
    random = Random(seed)
    old_rows, new_rows = (make_reference("R4", 12, random) for _ in range(2))
    old, new = steps(old_rows, random), steps(new_rows, random)
    cut, out = Cutover(REPLICA_SCHEMA), []
    asked = random.randint(1, len(old))
    while old or new:
        side = random.choice([name for name, rest in (("old", old), ("new", new)) if rest])
        out += cut.old(old.pop(0)) if side == "old" else cut.new(new.pop(0))
        asked -= 1
        if asked <= 0 and cut.time is None and cut._promised > -100:
            before = len(out)
            out += cut.switch()
            assert len(out) - before <= 1  # one batch at most: no pause
    if cut.time is None:
        out += cut.switch()
    out += cut.stop_old()
    t = cut.time
    assert t is not None
    expected = [row for row in old_rows if row[0] < t] + [row for row in new_rows if row[0] >= t]
    assert difference(expected, table(out)) is None
    assert first_violation_in_batches(out) is None
    assert out[-1].progress.cti == INFINITY or max(b.progress.cti for b in out) == INFINITY


def test_what_a_cti_forbids_to_change_is_listed() -> None:
    random = Random(1)
    cut = Cutover(REPLICA_SCHEMA)
    shared: list[Row] = [(0, 5, {"k": "a", "v": 1}), (9, 12, {"k": "b", "v": 1})]
    for batch in steps([*shared, (3, 6, {"k": "c", "v": 1})], random):
        cut.old(batch)
    for batch in steps([*shared, (4, 6, {"k": "c", "v": 2})], random):
        cut.new(batch)
    listed = {(row["_in"], row["_start"]) for row in cut.differences().to_pylist()}
    assert listed == {("old", 3), ("new", 4)}


def test_a_cutover_switches_once_and_at_a_cti() -> None:
    cut = Cutover(REPLICA_SCHEMA)
    with pytest.raises(PlanError, match="there is no CTI"):
        cut.switch()
    with pytest.raises(PlanError, match="switch first"):
        cut.stop_old()
    cut.old(Batch.empty(REPLICA_SCHEMA, tw.Progress(5)))
    cut.switch()
    with pytest.raises(PlanError, match="switched at 5"):
        cut.switch()


def test_equivalent_queries_are_merged_and_the_sink_sees_no_switch() -> None:
    random = Random(3)
    rows = make_reference("R3", 14, random)
    merger = tw.Merger(REPLICA_SCHEMA)
    merger.attach("old")
    out: list[Batch] = []
    old, new = (
        [b for e in make_replica("R3", rows, random) for b in batches_of([e], REPLICA_SCHEMA)]
        for _ in range(2)
    )
    for batch in old[: len(old) // 2]:
        out += merger.push("old", batch)
    merger.attach("new", since=merger.cti)
    assert merger.status().inputs["new"].joined
    out += merger.detach("old")
    for batch in new:
        out += merger.push("new", batch)
    assert difference(rows, table(out)) is None
    assert first_violation_in_batches(out) is None
