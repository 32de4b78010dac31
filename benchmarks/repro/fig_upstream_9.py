"""Key schedules against in-place where some keys are slow (update queues, figure 9).

At load 2 `gain` reaches 1.15 to 1.19 with nine slow keys of ten (a hundredth as fast), by the seed,
and serving slow keys first can bring no more. In units of the cost the fast key updates at 1.835
and each slow one at 0.018, so a service in six is one of theirs whatever the schedule. In place the
nine hold 0.13 of the staleness and the fast one 0.30, measured. Served first, an update of a slow
key waits for the service that has begun, E[W^2] = 1/3: 0.028 for all nine. The fast key then waits
E[(L - X)^2]/2 in each round, X its next update and L 1 or, with a slow key in between, 2: 0.335.
That is 0.43 / 0.363 = 1.19, if no two slow keys ever meet; measured for `gain`: 0.036 and 0.34. At
loads 5 and 10 it is 1.3 to 1.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.updates import arrivals, average_staleness, slow_and_fast
from thalweg.freshness.simulation import zipf_shares

TITLE = "Queue staleness of in-place over that of other schedules"
SCHEDULES = ("linecutting-literal", "linecutting", "gain")


def series(scale: float) -> Iterator[Line]:
    """`value` above 1: fresher than in-place. x is the number of slow keys of ten, or the skew of a
    hundred keys."""
    services = max(500, int(10_000 * scale))
    for regular in (False, True):
        for load in (5, 2, 10):
            for ratio in (100, 10):
                for slow in range(11):
                    yield from _compare(
                        slow_and_fast(slow, ratio),
                        load,
                        services,
                        f"slow = fast/{ratio}",
                        slow,
                        regular=regular,
                    )
            for skew in (0.0, 0.5, 0.9, 1.2):
                shares = zipf_shares(100, skew).tolist()
                yield from _compare(shares, load, services, "zipf", skew, regular=regular)


def _compare(
    shares: list[float], load: int, services: int, mix: str, x: float, *, regular: bool
) -> Iterator[Line]:
    rows = arrivals(shares, load, services, regular=regular, seed=int(10 * x))
    _, base = average_staleness("in-place", rows, services)
    for schedule in SCHEDULES:
        _, other = average_staleness(schedule, rows, services)
        yield point(
            "upstream-9",
            schedule,
            x,
            "in-place / schedule",
            base / other,
            "",
            load=load,
            mix=mix,
            arrivals="regular" if regular else "random",
        )


def draw(lines: Iterable[Line], path: Path) -> None:
    """The figure of the document: load 5, ten keys, random arrivals."""
    shown = [
        Line(
            line.bench,
            f"{line.metric}, {line.params['mix']}",
            line.value,
            line.unit,
            line.params,
        )
        for line in lines
        if line.params["load"] == 5
        and line.params["arrivals"] == "random"
        and line.params["mix"] != "zipf"
    ]
    draw_series(shown, path, title=TITLE, x="slow keys of 10, load 5")
