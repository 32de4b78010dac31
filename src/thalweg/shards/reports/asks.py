"""Promises on demand: sources are asked for the promises that the last micro-batch waits for.

Every bucket reports the promises it waits for. All reports together tell which sources are missing,
which promise each must make, and from which time of the clock on it can. The tickers of the sources
read that from a file in the checkpoint. Where nothing waits, or where a missing source cannot be
asked, the file is empty, and no ticker makes a micro-batch.

The file only decides when a micro-batch runs: the time of a tick is in the offsets. If the newest
micro-batch is not in the file, since the process was killed before, all sources are asked once.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from thalweg.io.whole_files import write_whole
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.plan.nodes import Source
from thalweg.shards.reports.bucket_report import BucketReport
from thalweg.shards.reports.combined import combined_why

__all__ = ["ask_all_if_behind", "ask_time", "asks_file", "asks_of", "lags", "write_asks"]


def asks_of(reports: Sequence[BucketReport], behind: Mapping[str, int]) -> dict[str, int]:
    """By source: the time of the clock from which on it is asked. `behind` are the sources that can
    be asked, with how far their answers lag the clock."""
    if not reports:
        return {}
    why = combined_why([replace(report, waits=report.missing) for report in reports])
    seen = [report.newest for report in reports if report.newest is not None]
    if why.promise > max(seen, default=MIN_TIME):
        return {}  # all that has come is final
    needed = {wait.source: wait.needs for wait in why.waits}
    if any(name not in behind or time == INFINITY for name, time in needed.items()):
        return {}
    when = max((time + behind[name] for name, time in needed.items()), default=0)
    return dict.fromkeys(needed, when)


def lags(sources: Mapping[str, Source]) -> dict[str, int]:
    """By source that answers on demand: how far its answers lag the clock."""
    policies = {name: source.ingress.on_demand for name, source in sources.items()}
    return {name: policy.behind for name, policy in policies.items() if policy is not None}


def asks_file(checkpoint: Path) -> Path:
    return checkpoint / "thalweg" / "asks.json"


@dataclass(frozen=True)
class _Asks:
    """The content of the file."""

    batch: int = -1
    """The micro-batch that they follow from; -1: none."""
    ask: Mapping[str, int] = field(default_factory=dict)
    """By source: the time of the clock from which on it is asked."""

    def write(self, checkpoint: Path) -> None:
        with contextlib.suppress(OSError):  # Spark itself reports a full disk
            write_whole(asks_file(checkpoint), json.dumps(asdict(self)), durable=False)

    @classmethod
    def read(cls, file: Path) -> _Asks:
        """The content of the file; empty if the file is missing or cannot be read."""
        try:
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return cls()


def write_asks(checkpoint: Path, batch: int, asks: Mapping[str, int]) -> None:
    """Write the times at which the tickers should ask, after a micro-batch."""
    _Asks(batch, dict(asks)).write(checkpoint)


def ask_all_if_behind(checkpoint: Path, finished: int, sources: Sequence[str]) -> None:
    """On a start: ask all sources if the newest micro-batch has not written its asks."""
    if finished >= 0 and _Asks.read(asks_file(checkpoint)).batch < finished:
        write_asks(checkpoint, finished, dict.fromkeys(sources, 0))


def ask_time(file: Path, source: str) -> int | None:
    """The time from which a source is asked; None: nothing waits for it."""
    return _Asks.read(file).ask.get(source)
