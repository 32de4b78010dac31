"""A merge whose query can be replaced by one with different answers, while both run.

Inputs are attached to the current query, or to its candidate. Each of the two is a merge of its
own, and a `Cutover` connects them: before the switch only the current query reaches the sink. After
the switch the table has the old query's rows that start before t and the candidate's from t on; the
candidate is the current query, and another candidate may come.

State: that of both merges, and the rows of both queries that are not final in both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.io.feeds import Feed
from thalweg.merging.cutover import Cutover
from thalweg.merging.merger import Merger, MergeStatus
from thalweg.model.batch import Batch
from thalweg.model.rows import Rows
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Slices
from thalweg.operators.text_slices import slice_of_text, text_of_slice

__all__ = ["SwitchedMerge"]

_SHOWN = 20
"""How many differences are listed; the others are only counted."""


class SwitchedMerge:
    """`make` makes a merge without inputs; `history` reads again what was shown so far.

    >>> import thalweg as tw
    >>> schema = pa.schema([("n", pa.int64())])
    >>> merge = SwitchedMerge(lambda: Merger(schema))
    >>> merge.attach("old")
    >>> out = merge.push("old", [tw.insert({"n": 1}, 0, 5), tw.insert({"n": 1}, 5, 10), tw.cti(5)])
    >>> merge.attach("new", candidate=True, history=out)
    >>> out += merge.push("new", [tw.insert({"n": 2}, 0, 5), tw.insert({"n": 2}, 5, 10), tw.cti(6)])
    >>> out += merge.switch()
    >>> tw.cht(tw.elements_of(out))
    [(0, 5, {'n': 1}), (5, 10, {'n': 2})]
    >>> list(merge.inputs)
    ['new']
    """

    def __init__(self, make: Callable[[], Merger]) -> None:
        self._make = make
        self._shown = make()
        self._candidate: Merger | None = None
        self._between: Cutover | None = None
        """The cutover from the current query to its candidate."""
        self._last: Cutover | None = None
        """The last cutover that was made; the current query is its new side."""
        self.switches = 0
        self.promised = MIN_TIME
        """The CTI of the output."""

    @property
    def schema(self) -> pa.Schema:
        return self._shown.schema

    @property
    def inputs(self) -> dict[str, bool]:
        """All inputs, and whether each is the candidate's."""
        candidates = () if self._candidate is None else self._candidate.status().inputs
        return {
            **dict.fromkeys(self._shown.status().inputs, False),
            **dict.fromkeys(candidates, True),
        }

    def attach(
        self,
        name: str,
        since: int | None = None,
        *,
        candidate: bool = False,
        history: Iterable[Batch] = (),
    ) -> None:
        """Add an input to the current query, or to its candidate. The first input of a candidate
        needs `history`, the output so far."""
        if name in self.inputs:
            raise PlanError(f"merge: there is an input {name!r} already; detach it first.")
        if not candidate:
            self._shown.attach(name, since)
            return
        if self._candidate is None:
            self._candidate, self._between = self._make(), Cutover(self.schema)
            for batch in history:
                self._between.old(batch)
        self._candidate.attach(name, since)

    def push(self, name: str, feed: Feed) -> list[Batch]:
        """Take elements of one input; returns the batches that reach the sink."""
        if self._candidate is not None and self._between is not None and self.inputs.get(name):
            answers = self._candidate.push(name, feed)
            return self._noted([out for batch in answers for out in self._between.new(batch)])
        return self._reach(self._shown.push(name, feed))

    def detach(self, name: str) -> list[Batch]:
        """Remove an input; returns the batches that reach the sink."""
        if self._candidate is None or self._between is None or not self.inputs.get(name):
            return self._reach(self._shown.detach(name))
        answers = self._candidate.detach(name)
        out = [shown for batch in answers for shown in self._between.new(batch)]
        if not self._candidate.status().inputs:  # the candidate was abandoned
            self._candidate = self._between = None
        return self._noted(out)

    def _noted(self, out: list[Batch]) -> list[Batch]:
        for batch in out:
            self.promised = max(self.promised, batch.progress.cti)
        return out

    def _reach(self, batches: list[Batch]) -> list[Batch]:
        """The output of the current query, as it reaches the sink."""
        if self._last is not None:
            last = self._last
            batches = [out for batch in batches for out in last.new(batch)]
        if self._between is not None:
            between = self._between
            batches = [out for batch in batches for out in between.old(batch)]
        return self._noted(batches)

    def switch(self) -> list[Batch]:
        """Replace the current query by the candidate, from the CTI of the output on."""
        if self._candidate is None or self._between is None:
            raise PlanError("merge: there is no candidate to switch to; attach one first.")
        out = self._between.switch() + self._between.stop_old()
        self._shown, self._last = self._candidate, self._between
        self._candidate = self._between = None
        self.switches += 1
        return self._noted(out)

    # ------------------------------------------------------------------------------------------
    # status

    def status(self) -> MergeStatus:
        """The status of the current query."""
        return self._shown.status()

    def standing(self) -> dict[str, Any]:
        """The status of both queries, as a JSON object."""
        cutover = None if self._last is None else self._last.time
        status = {**_standing(self._shown), "switches": self.switches, "switched_at": cutover}
        status["cti"] = self.promised
        if self._candidate is not None and self._between is not None:
            rows, final = self._between.differences(), self._between.final_differences()
            status["candidate"] = {
                **_standing(self._candidate),
                "differences": len(rows),
                "first_differences": rows.slice(0, _SHOWN).to_pylist(),
                "final_differences": len(final),
                "first_final_differences": final.slice(0, _SHOWN).to_pylist(),
            }
        return status

    # ------------------------------------------------------------------------------------------
    # state

    def _parts(self) -> dict[str, Merger | Cutover | None]:
        return {
            "shown": self._shown,
            "candidate": self._candidate,
            "between": self._between,
            "last": self._last,
        }

    def snapshot(self) -> Slices:
        """All state, between two pushes."""
        parts = {name: part for name, part in self._parts().items() if part is not None}
        facts = json.dumps(
            {"switches": self.switches, "promised": self.promised, "parts": [*parts]}
        )
        slices = {"switched": slice_of_text(facts, "switched")}
        for name, part in parts.items():
            slices |= {f"{name}/{key}": rows for key, rows in part.snapshot().items()}
        return slices

    def restore(self, slices: Mapping[str, Rows]) -> None:
        """Back to a snapshot."""
        facts = json.loads(text_of_slice(slices["switched"]))
        self.switches, self.promised = facts["switches"], facts["promised"]
        self._shown = self._make()
        self._candidate = self._make() if "candidate" in facts["parts"] else None
        self._between = Cutover(self.schema) if "between" in facts["parts"] else None
        self._last = Cutover(self.schema) if "last" in facts["parts"] else None
        for name, part in self._parts().items():
            if part is not None:
                size = len(name) + 1
                part.restore(
                    {key[size:]: rows for key, rows in slices.items() if key.startswith(f"{name}/")}
                )


def _standing(merger: Merger) -> dict[str, Any]:
    status = merger.status()
    return {
        "cti": status.cti,
        "leader": status.leader,
        "inputs": {name: asdict(each) for name, each in status.inputs.items()},
        "alarms": [str(alarm) for alarm in status.alarms],
    }
