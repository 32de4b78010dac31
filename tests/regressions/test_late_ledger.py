"""The late ledger is bounded in-process: the newest entries wait, all are counted."""

from __future__ import annotations

import pyarrow as pa

import thalweg as tw
from thalweg.run.engine import LEDGER_LIMIT

SOURCE = tw.source("s", {"v": "int64"}, late="drop", disorder=0)


def late_rows(first: int, count: int) -> list[tw.Insert]:
    return [tw.point({"v": first + at}, 1) for at in range(count)]


def test_entries_that_nobody_takes_are_counted_beyond_the_limit() -> None:
    engine = tw.Engine(SOURCE)
    engine.push("s", tw.point({"v": 0}, 100))
    sizes = []
    for turn in range(4):
        engine.push("s", late_rows(turn * LEDGER_LIMIT, LEDGER_LIMIT))
        sizes.append(len(engine.snapshot()))
    assert sizes[3] < 1.1 * sizes[0]
    assert engine.late_count("s") == 4 * LEDGER_LIMIT
    assert engine.late_unlisted("s") == 3 * LEDGER_LIMIT
    again = tw.Engine.restore(SOURCE, engine.snapshot())
    assert again.late_unlisted("s") == 3 * LEDGER_LIMIT
    listed = again.late("s")
    assert listed.column("v").to_pylist()[0] == 3 * LEDGER_LIMIT
    assert len(listed) == LEDGER_LIMIT


def test_a_sink_takes_all_entries() -> None:
    taken: list[tuple[str, pa.Table]] = []
    engine = tw.Engine(SOURCE, on_late=lambda name, table: taken.append((name, table)))
    engine.push("s", tw.point({"v": 0}, 100))
    engine.push("s", late_rows(0, 3))
    engine.push("s", late_rows(3, 2))
    assert [(name, table.column("v").to_pylist()) for name, table in taken] == [
        ("s", [0, 1, 2]),
        ("s", [3, 4]),
    ]
    assert engine.late("s").num_rows == 0
    assert engine.late_count("s") == 5 and engine.late_unlisted("s") == 0
