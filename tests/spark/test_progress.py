"""Progress on real Spark: disorder by number of rows, records that cannot be read, figures of
operators, and what a query waits for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import thalweg as tw
from thalweg import spark as tws
from thalweg.cli import main

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

COLUMNS = pa.schema([("ts", pa.int64()), ("k", pa.string())])
FIRST = (
    '{"ts": 3, "k": "a"}\n{"ts": 14, "k": "b"}\n{"ts": 12, "k": "a"}\n{"ts": "soon", "k":'
    ' "b"}\n{"ts": 25, "k": "a"}\n'
)
SECOND = '{"ts": 27, "k": "a"}\n{"k": "a"}\n{"ts": 26, "k": "b"}\nno json\n{"ts": 31, "k": "b"}\n'


def test_a_query_says_what_it_passed_over_did_and_waits_for(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "1.json").write_text(FIRST)
    (folder / "2.json").write_text(SECOND)
    letters: list[Any] = []
    events = tws.from_files(
        str(folder),
        time="ts",
        format="json",
        columns=COLUMNS,
        bad="skip",
        late="drop",
        progress=tw.late_by_rows(1),
        files_per_batch=1,
    )
    query = events.group_by("k").tumbling(10).aggregate(n=tw.count(), last=tw.max_("k"))
    running = tws.start(
        query,
        checkpoint=str(tmp_path / "checkpoint"),
        dead=lambda frame, _: letters.extend(frame.collect()),
        trigger="available now",
        consistency="final",
    )
    running.wait()
    assert sorted((start, payload["k"], payload["n"]) for start, _, payload in running.table()) == [
        (0, "a", 1),
        (10, "a", 1),
        (10, "b", 1),
    ]
    assert sorted((row["source"], row["where"], row["line"]) for row in letters)[:2] == [
        ("events", "1.json", 4),
        ("events", "2.json", 4),
    ]
    status = running.status()
    assert (status.dead, status.late, status.rows) == (3, 0, 7)
    taken = next(
        figures
        for name, figures in status.operators.items()
        if name.startswith("0/window_aggregate")
    )
    assert (taken.rows_in, taken.rows_out) == (7, 3) and taken.state_rows > 0
    (wait,) = running.why().waits
    assert (wait.source, wait.needs, wait.has) == ("events", 30, 20)
    assert wait.release[0] == "1 more rows"
    assert running.why(5).settled
    told = CliRunner().invoke(main, ["why", str(tmp_path / "checkpoint"), "--at", "20"])
    assert "source events has promised 20" in told.output, told.output


@pytest.mark.parametrize("silence", [5, pytest.param(30, marks=pytest.mark.slow)])
def test_a_silent_source_is_asked_and_then_nothing_runs(tmp_path: Path, silence: float) -> None:
    """Answers wait for a source that is silent: it is asked, and they are final. Then nobody waits,
    and no micro-batch runs."""
    begin = 1_700_000_000_000_000
    for name, seconds in (("fast", [0, 1, 2, 3, 4, 5]), ("silent", [0])):
        (tmp_path / name).mkdir()
        lines = [json.dumps({"ts": begin + second * 1_000_000, "k": name}) for second in seconds]
        (tmp_path / name / "1.json").write_text("\n".join(lines) + "\n")
    policies = {"fast": tw.ordered(), "silent": tw.on_demand("2 s")}
    fast, silent = (
        tws.from_files(
            str(tmp_path / name),
            time="ts",
            format="json",
            columns=COLUMNS,
            progress=policy,
            late="drop",
            name=name,
        )
        for name, policy in policies.items()
    )
    running = tws.start(
        fast.union(silent).tumbling("1 s").aggregate(n=tw.count()),
        checkpoint=str(tmp_path / "checkpoint"),
        consistency="final",
    )
    try:
        for _ in range(600):
            if len(running.table()) == 5:
                break
            running.wait(0.5)
        assert [row["n"] for _, _, row in running.table()] == [2, 1, 1, 1, 1]
        ran = running.status().batches
        for _ in range(60):  # those that were on their way when the answer came
            running.wait(1)
            before, ran = ran, running.status().batches
            if before == ran:
                break
        running.wait(silence)
        assert running.status().batches == ran
        assert ran <= 6, "what has come, the ask, and no more than a few beside"
    finally:
        running.stop()
