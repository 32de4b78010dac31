"""The demo tells the truth: early, revised, final; and the final table is the one a fresh count
gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from thalweg.cli import main
from thalweg.cli.demo_packets import MINUTE, SECOND, SOURCES, Packets, make_packets
from thalweg.cli.demo_run import Report, play
from thalweg.cli.demo_watch import Watch


def stopped_clock() -> float:
    return 0.0


@pytest.fixture(scope="module")
def packets() -> Packets:
    return make_packets(20_000)


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch("10.0.0.1", 10 * MINUTE, 20 * MINUTE)


@pytest.fixture(scope="module")
def early(packets: Packets, watch: Watch) -> Report:
    return play(packets, watch, every=10 * SECOND, consistency="speculative", clock=stopped_clock)


def test_packets_arrive_in_order_of_arrival_and_are_the_same_every_time(packets: Packets) -> None:
    assert (np.diff(packets.arrival) >= 0).all()
    assert packets.table.equals(make_packets(20_000).table)
    assert sum(len(rows) for _, rows in packets.cut(SECOND)) == 20_000


def test_one_answer_is_early_then_revised_then_final(early: Report, watch: Watch) -> None:
    changes = watch.followed.changes
    kinds = [change.kind for change in changes]
    assert kinds[0] == "early"
    assert kinds[-1] == "final"
    assert set(kinds[1:-1]) == {"revised"}
    counts = [change.count for change in changes]
    assert counts == sorted(counts)
    times = [change.at for change in changes]
    assert watch.end < times[0] <= times[-1] <= watch.end + MINUTE + 10 * SECOND


def test_the_final_answer_is_a_plain_count_of_what_was_not_late(
    packets: Packets, early: Report, watch: Watch
) -> None:
    late = Counter((row["_start"], row["src"], row["len"]) for row in early.late.to_pylist())
    rows = Counter((row["_start"], row["src"], row["len"]) for row in packets.table.to_pylist())
    counted = sum(
        n
        for (start, src, _), n in (rows - late).items()
        if src == watch.src and watch.start <= start < watch.end
    )
    assert watch.followed.count == counted
    assert early.status.late == late.total() > 0


def test_final_answers_are_never_taken_back_and_give_the_same_table(
    packets: Packets, early: Report
) -> None:
    final = play(packets, None, every=MINUTE, consistency="final", clock=stopped_clock)
    assert early.status.adjusts_out > 0
    assert final.status.adjusts_out == 0
    assert final.table.equals(early.table)


def test_the_command_prints_the_story() -> None:
    result = CliRunner().invoke(main, ["demo", "--in-process", "--packets", "10000"])
    assert result.exit_code == 0, result.output
    assert f"packets from 10.0.0.{SOURCES}, 09:10 to 09:20, " in result.output
    assert "1970" not in result.output
    for word in ("early", "final", "packets/s", "late", "retractions", "the same table"):
        assert word in result.output


def test_without_spark_the_demo_says_how_it_runs_in_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("thalweg.cli.demo.find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 1 and "thalweg demo --in-process" in result.output
    assert "Making" not in result.output
