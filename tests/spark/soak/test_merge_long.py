"""A merge on Spark that is killed with everything it started while its inputs go on, one of them
fails for good and a fresh one joins: no row is lost, none is repeated, no promise is broken."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import thalweg as tw
from tests.merge.ha_process import QUERY, inputs
from tests.spark.jobs.processes import driver
from thalweg.io.element_log import ElementLog, ElementLogReader
from thalweg.merging import MergeRegistry
from thalweg.model import (
    INFINITY,
    Batch,
    first_violation_in_batches,
    rows_of_table,
    table_of_batches,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="processes are found through /proc"
    ),
]

KILLS = int(os.environ.get("THALWEG_KILLS", "5"))


def answers(size: int) -> list[Batch]:
    """The log of a replica that takes so many batches of the input at a time."""
    engine, whole = tw.Engine(QUERY), inputs()
    groups = [whole[at : at + size] for at in range(0, len(whole), size)]
    schema = whole[0].schema
    return [
        Batch.concat(engine.push("events", Batch.concat(group, schema)), QUERY.node.schema)
        for group in groups
    ]


def promised(folder: Path) -> int:
    batches = list(ElementLogReader(folder).read()) if folder.exists() else []
    return max((batch.progress.cti for batch in batches), default=-INFINITY)


def test_a_merge_on_spark_is_killed_while_its_inputs_go_on(tmp_path: Path) -> None:
    random = Random(5)
    waiting = {f"r{n}": answers(n + 1) for n in range(3)}
    logs = {name: ElementLog(tmp_path / name, name) for name in waiting}
    registry = MergeRegistry(tmp_path / "registry")
    for name in ("r0", "r1"):
        registry.attach(name, tmp_path / name)

    def write(share: float) -> None:
        for name, batches in waiting.items():
            for batch in batches[logs[name].next : int(share * len(batches))]:
                logs[name].append(batch)

    for kill in range(KILLS):
        write((kill + 1) / (KILLS + 1))
        with driver(tmp_path, script="merging.py") as job:
            merged = tmp_path / "out"
            before = promised(merged)
            job.until(lambda: promised(merged) > before, "the merge went on")  # noqa: B023
            if kill == KILLS // 2:  # r0 fails for good, and r2 joins, while the merge runs
                registry.detach("r0")
                registry.attach("r2", tmp_path / "r2")
            for _ in range(random.randrange(20)):
                assert not job.tick(), "the job ended by itself"
            job.kill()
    write(1.0)
    with driver(tmp_path, script="merging.py") as job:
        job.until(lambda: promised(tmp_path / "out") == INFINITY, "the merge has ended")
    out = list(ElementLogReader(tmp_path / "out").read())
    expected = tw.table(QUERY, {"events": iter(inputs())})
    assert rows_of_table(table_of_batches(out, QUERY.node.schema)) == expected
    assert first_violation_in_batches(out) is None
    for count in range(1, len(out) + 1):
        rows = rows_of_table(table_of_batches(out[:count], QUERY.node.schema))
        assert max(Counter((p["k"], start) for start, _, p in rows).values(), default=1) == 1
