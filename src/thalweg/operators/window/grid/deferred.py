"""Windows over shared panes whose rows wait until a window is over.

    answers(batch 1), answers(batch 2), ...  =  answers(all of them together), while no window ends

Where many windows read one stream of panes, most of them have no answer after most batches: a
window of an hour over panes of a second answers once in 3,600 batches. Since a kernel takes a fixed
time for a batch of a few sums, batches wait, and are processed as one when

    a window is over by the CTI, or may answer by the watermark
    a row belongs to a window that has answered, which is revised at once
    more than a few thousand rows wait, or a group has had a promise of its own
    state is saved

No answer is emitted later for that: before these times the kernel has none, and its promise, the
start of the first window that is not over, does not change.

State: that of the kernel, and the waiting rows. All windows over the same panes hold the same
batches, so that these take their memory once.
"""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, MIN_TIME, greatest, least
from thalweg.operators.base import Operator, Slices, StateSize, WrappedOperator
from thalweg.operators.window.grid.grid import Release
from thalweg.operators.window.grid.promised_groups import PromisedGroupsKernel

__all__ = ["DeferredKernel"]

_MOST_ROWS = 4_096
"""The most rows that wait."""


class DeferredKernel(WrappedOperator):
    """`inner` is a kernel of windows on a grid that follows `release`.

    >>> import thalweg as tw
    >>> events = tw.source("s", {"v": "int64"})
    >>> by_4, by_6 = (events.tumbling(size).aggregate(n=tw.count()) for size in (4, 6))
    >>> both = by_4.union(by_6)
    >>> tw.table(both, {"s": [tw.point({"v": 1}, 2), tw.point({"v": 3}, 5)]})
    [(0, 4, {'n': 1}), (0, 6, {'n': 2}), (4, 8, {'n': 1})]
    """

    def __init__(self, inner: Operator, release: Release) -> None:
        super().__init__(inner)
        self._release = release
        self._is_final = release.consistency.is_final
        self._waiting: list[Batch] = []
        self._rows = 0
        self._counted = (0, 0)
        """How many of the waiting batches `state_size` has counted, and their bytes."""
        self._last: Batch | None = None
        """The last batch that was deferred, with rows or without."""
        self._watermark = self._closes_at = self._answers_at = self._revises_before = MIN_TIME
        self._answers_at_once = False
        self._no_answer = Batch.empty(inner.schema)
        """A batch without rows, with the last promise."""
        self._look_ahead()

    def process(self, port: int, batch: Batch) -> Batch:
        count = len(batch.start)
        if self._cannot_wait(batch, count):
            return self._take_in(batch)
        if count:
            self._waiting.append(batch)
            self._rows += count
        self._last = batch
        return self._no_answer

    def _cannot_wait(self, batch: Batch, count: int) -> bool:
        """Whether a batch closes a window, makes one answer or revises one, or too many rows
        wait."""
        progress = batch.progress
        if self._answers_at_once or self._rows + count > _MOST_ROWS or batch.is_adjust is not None:
            return True
        cti = progress.cti
        if cti >= self._closes_at or progress.speaks_of_groups or progress.column_promises:
            return True
        if self._is_final:  # no row comes before the CTI, and no window answers before it
            return False
        if count:
            if least(batch.start) < self._revises_before:
                return True
            self._watermark = max(self._watermark, greatest(batch.start))
        newest = max(self._watermark, cti)
        return self._release.consistency.threshold(newest, cti) >= self._answers_at

    def _look_ahead(self) -> None:
        """Find the times from which on batches do not wait."""
        release, end = self._release, self._release.grid.end
        self._closes_at = min(max(end(release.promised_window), MIN_TIME + 1), INFINITY)
        self._answers_at = min(max(end(release.released + 1), MIN_TIME + 1), INFINITY)
        self._revises_before = end(release.released)
        self._watermark = release.watermark
        grouped = isinstance(self.inner, PromisedGroupsKernel) and self.inner.is_apart
        self._answers_at_once = grouped or release.consistency.is_eager

    def _take_in(self, batch: Batch) -> Batch:
        if self._waiting:
            parts = [*self._waiting, batch]
            batch = Batch.concat(parts, batch.schema)
            self._waiting, self._rows, self._counted = [], 0, (0, 0)
        self._last = None
        answer = self.inner.process(0, batch)
        self._no_answer = Batch.empty(self.schema, answer.progress)
        self._look_ahead()
        return answer

    def _take_in_waiting(self) -> None:
        """Process the waiting batches, none of which makes a window answer."""
        if self._last is not None:
            answer = self._take_in(Batch.empty(self._last.schema, self._last.progress))
            assert not len(answer), "windows answered before their time"

    def forget(self, time: int, unwanted: tuple[int, ...]) -> None:
        self._take_in_waiting()
        self.inner.forget(time, unwanted)
        self._look_ahead()

    def snapshot(self) -> Slices:
        self._take_in_waiting()
        return self.inner.snapshot()

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._waiting, self._rows, self._counted, self._last = [], 0, (0, 0), None
        self.inner.restore(slices)
        self._no_answer = Batch.empty(
            self.schema, Progress(self._release.grid.promise(self._release.cti))
        )
        self._look_ahead()

    def state_size(self) -> StateSize:
        count, held = self._counted
        for batch in self._waiting[count:]:
            held += batch.payload.nbytes + 16 * len(batch)
        self._counted = len(self._waiting), held
        return self.inner.state_size() + StateSize(self._rows, held)
