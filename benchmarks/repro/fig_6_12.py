"""Latency and accuracy under block-sorted disorder: punctuation after each block beside consistent
slack.

The count over 600 s, every 60 s; tuples come in blocks of 490 s, in any order within a block. Slack
of 0 to 600 s. The error is the percentage of wrong answers. Latency as in 6-11, in seconds.

Changed: tuples and baseline as in 6-11. Latency grows with slack below the optimum too, where the
thesis has it flat. Ours is the wait from the moment at which all rows of a window had arrived, as
in 6-11, so that slack adds to it directly; the thesis does not say from when it counts for answers
that are wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.baselines.slack import buffering_with_slack, extents_of
from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.fig_6_11 import covered_at, truth, with_punctuation
from benchmarks.repro.streams import SECOND, block_disorder

TITLE = "Count over 600 s by 60 s, blocks of 490 s: wrong answers by latency"
RANGE, SLIDE = 600 * SECOND, 60 * SECOND
SLACKS = (0.0, 54.4, 109.1, 218.2, 327.3, 434.2, 490.9, 600.0)


def series(scale: float) -> Iterator[Line]:
    data = block_disorder(max(int(400_000 * scale), 40_000))
    ends = extents_of(data, RANGE, SLIDE)
    count, _ = truth(data, RANGE, SLIDE)
    covered = covered_at(data, SLIDE, ends)
    found, seconds = with_punctuation(data, RANGE, SLIDE)
    wrong = float(np.mean(np.array([found[end][0] for end in ends.tolist()]) != count)) * 100
    yield point("6-12", "punctuation", 0.0, "wrong answers", wrong, "%", slack_s=0.0)
    yield point("6-12", "punctuation", 0.0, "latency", float(np.mean(seconds)), "s", slack_s=0.0)
    for slack in SLACKS:
        given = buffering_with_slack(data, RANGE, SLIDE, int(slack * SECOND), consistent=True)
        wrong = float(np.mean(given.count != count)) * 100
        clock = data.clock[np.minimum(given.answered, len(data) - 1)]
        waiting = np.maximum(clock - covered, 0)
        latency = float(np.mean(waiting)) / SECOND + float(np.mean(given.seconds))
        yield point("6-12", "consistent slack", slack, "wrong answers", wrong, "%", slack_s=slack)
        yield point("6-12", "consistent slack", slack, "latency", latency, "s", slack_s=slack)


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="slack (s)")
