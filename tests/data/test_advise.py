"""The disorder of recorded streams: the late shares that were published with them come out
exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from thalweg.cli.advise import advice_of, read_source

SECOND = 1_000_000
SLACKS = {"0 s": 0, "1 s": 1, "10 s": 10, "1 min": 60, "10 min": 600, "1 h": 3_600, "2 h": 7_200}
SETS = {
    "zeek_conn/conn.parquet": (
        ("start_us", "seq", "us"),
        (37.07, 33.06, 22.63, 6.21, 0.178, 0.114, 0),
    ),
    "bitstamp_orders/orders.parquet": (
        ("exchange_ms", "seq", "ms"),
        (39.38, 36.97, 21.59, 6.51, 1.20, 0.41, 0.18),
    ),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", SETS)
def test_late_shares(recorded: Path, name: str) -> None:
    (time, arrival, unit), shares = SETS[name]
    slacks = [seconds * SECOND for seconds in SLACKS.values()]
    told = advice_of(
        read_source(recorded / name),
        time,
        arrival=arrival,
        key=None,
        target=0.99,
        window=60 * SECOND,
        slacks=slacks,
        unit=unit,
    )
    late = {point.slack: 100 * (1 - point.completeness) for point in told.curve}
    for slack, share in zip(slacks, shares, strict=True):
        assert late[slack] == pytest.approx(share, abs=0.006)
    assert told.policy.startswith("late_by(")
