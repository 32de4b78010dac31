"""When a group should be eager and when lazy: the memory that each would take, from what is
observed of the stream.

    eager   aggr * wed / slide            a partial result for each open window
    lazy    tup * (vol * wed - sum over the sources K of vol_K * offset_K)    the rows themselves

`vol` is the number of rows of a group per unit of time, `wed` how long a window extent stays open
(from the low watermark when its first row came to the high watermark when it closed), `offset_K`
how far source K is behind the earliest. With winVol = vol * wed rows of the group in open windows,
eager is better when

    winVol > aggr * wed / (tup * slide) + sum of vol_K * offset_K

What is counted of a lazy group are the rows that have come: winVol less those of sources that are
behind, so that the offset stands on neither side when it turns eager. Of an eager group only the
size of full partial results is known: there it is taken off. A group turns eager above the
threshold and lazy below a lower one, so that one near it does not go back and forth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.rows import Codes
from thalweg.model.time import MIN_TIME, Times

Rate = TypeVar("Rate", float, npt.NDArray[np.float64])

__all__ = ["Monitor", "eager_bytes", "lazy_bytes", "lower_threshold", "threshold"]

_BACK = 0.75
"""The lower threshold as a part of the upper one."""

_FADE = 0.9
"""The weight of a source's earlier rows after a window has closed."""


def eager_bytes(aggregate_bytes: float, extent: float, slide: float) -> float:
    """Eq. 6.5."""
    return aggregate_bytes * extent / slide


def lazy_bytes(tuple_bytes: float, volume: Rate, extent: float, behind: Rate) -> Rate:
    """Eq. 6.8; `behind` is the sum of vol_K * offset_K."""
    return tuple_bytes * (volume * extent - behind)


def threshold(
    aggregate_bytes: float, tuple_bytes: float, extent: float, slide: float, behind: float = 0.0
) -> float:
    """Cond. 6.9: rows in open windows above which a group should be eager.

    >>> threshold(32, 16, extent=10, slide=1)
    20.0
    """
    return eager_bytes(aggregate_bytes, extent, slide) / tuple_bytes + behind


def lower_threshold(upper: float) -> float:
    """Below this a group goes back to lazy."""
    return upper * _BACK


class Opened(NamedTuple):
    """Windows whose first rows came at one low watermark."""

    first: int
    last: int
    since: int


@dataclass(slots=True)
class Monitor:
    """Observations of a stream: watermarks, how long extents stay open, how far sources lie
    apart."""

    range: int
    high: int = MIN_TIME
    extent: float = 0.0
    opened: list[Opened] = field(default_factory=list)
    """Windows that are open, in order."""
    source_high: dict[Any, int] = field(default_factory=dict)
    source_rows: dict[Any, float] = field(default_factory=dict)
    """Rows so far; with every window that closes, older ones count less."""

    def __post_init__(self) -> None:
        self.extent = self.extent or float(self.range)

    def see(
        self, start: Times, first: Codes, beyond: Codes, low: int, source: pa.Array | None = None
    ) -> None:
        """Observe new rows, their windows, the low watermark when they arrived, and the source of
        each."""
        if not len(start):
            return
        self.high = max(self.high, int(start.max()))
        since = int(start.min()) if low == MIN_TIME else low
        begin = int(first.min())
        if self.opened:
            begin = max(begin, self.opened[-1].last + 1)
        if begin < int(beyond.max()):
            self.opened.append(Opened(begin, int(beyond.max()) - 1, since))
        if source is not None:
            self._see_sources(start, source.dictionary_encode(null_encoding="encode"))

    def _see_sources(self, start: Times, source: pa.DictionaryArray) -> None:
        code = source.indices.to_numpy()
        high = np.full(len(source.dictionary), MIN_TIME)
        np.maximum.at(high, code, start)
        rows = np.bincount(code, minlength=len(high))
        for name, newest, many in zip(
            source.dictionary.to_pylist(), high.tolist(), rows.tolist(), strict=True
        ):
            self.source_high[name] = max(self.source_high.get(name, MIN_TIME), newest)
            self.source_rows[name] = self.source_rows.get(name, 0) + many

    def close(self, window: int) -> None:
        """Observe that all windows up to one are closed."""
        closing = [windows for windows in self.opened if windows.first <= window]
        if closing:
            since = closing[-1].since
            self.extent = float(
                max(self.high - since, self.range)
            )  # the first windows, which are partial, last less
            self.opened = [
                windows._replace(first=max(windows.first, window + 1))
                for windows in self.opened
                if windows.last > window
            ]
            self.source_rows = {name: rows * _FADE for name, rows in self.source_rows.items()}

    def share_behind(self) -> float:
        """The part of an extent's rows that are still to come because their source is behind: sum
        of share_K * offset_K / extent."""
        if len(self.source_high) < 2:
            return 0.0
        earliest, total = max(self.source_high.values()), sum(self.source_rows.values())
        late = sum(
            self.source_rows[source] / total * (earliest - high)
            for source, high in self.source_high.items()
        )
        return min(late / self.extent, 1.0)
