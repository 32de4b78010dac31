"""Counters of a merge: its output, the causes of retractions, alarms about its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.time import MIN_TIME
from thalweg.operators.merging.level import Alarm, MergeContext, MergeInput

__all__ = ["Cause", "MergeFigures"]

Cause = Literal["promise", "policy", "other leader"]
"""Why the output was adjusted."""

_ALARMS_KEPT = 100


@dataclass(slots=True)
class MergeFigures:
    """
    >>> figures = MergeFigures()
    >>> figures.note_broken(MergeInput("left", 0), "out of order")
    >>> figures.alarm_count, str(figures.alarms[0])
    (1, 'out of order')
    """

    inserts: int = 0
    adjusts: int = 0
    removals: int = 0
    caused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(get_args(Cause), 0))
    """Adjusts and removals of the output by their cause."""
    left_out: int = 0
    """Rows of other inputs that the leaders of their time lacked."""
    alarms: list[Alarm] = field(default_factory=list)
    """The first `_ALARMS_KEPT` alarms."""
    alarm_count: int = 0

    def count(self, out: Batch) -> None:
        """Count the elements of an output batch."""
        if out.is_adjust is None or out.new_end is None:
            self.inserts += len(out)
            return
        adjusts = int(out.is_adjust.sum())
        removed = int(np.count_nonzero(out.is_adjust & (out.new_end == out.start)))
        self.inserts += len(out) - adjusts
        self.adjusts += adjusts - removed
        self.removals += removed

    def count_cause(self, cause: Cause, part: Batch) -> Batch:
        """Count the adjusts of a part of the output; returns the part."""
        if part.is_adjust is not None:
            self.caused[cause] += int(part.is_adjust.sum())
        return part

    def note(self, context: MergeContext) -> None:
        """Add the alarms and counts that a level has noted in its context."""
        self.left_out += context.left_out
        if context.alarms:
            self._keep(context.alarms)

    def note_broken(self, member: MergeInput, text: str) -> None:
        """Note an alarm: an input breaks the level of the merge."""
        self._keep([Alarm("broken level", member.name, "", {}, MIN_TIME, text)])

    def _keep(self, alarms: list[Alarm]) -> None:
        self.alarm_count += len(alarms)
        self.alarms += alarms[: max(0, _ALARMS_KEPT - len(self.alarms))]

    def to_json(self) -> dict[str, Any]:
        """The counters as a JSON object; alarms without their payloads."""
        alarms = [asdict(replace(alarm, payload={})) for alarm in self.alarms]
        return {
            "out": [self.inserts, self.adjusts, self.removals],
            "caused": self.caused,
            "left_out": self.left_out,
            "alarms": [alarms, self.alarm_count],
        }

    @classmethod
    def of_json(cls, saved: Mapping[str, Any]) -> MergeFigures:
        """The inverse of `to_json`."""
        inserts, adjusts, removals = saved["out"]
        alarms, alarm_count = saved["alarms"]
        kept = [Alarm(**each) for each in alarms]
        return cls(
            inserts, adjusts, removals, saved["caused"], saved["left_out"], kept, alarm_count
        )
