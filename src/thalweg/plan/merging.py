"""Policies and levels of a merge.

What a merge is free to choose (section V of the document): when a row is shown, when its end is
revised, how far its CTI stays behind, and what becomes of rows that the input that leads lacks.

The choices trade latency against chattiness. They never change the final table of a merge of
mutually consistent inputs. A level follows from what is known of the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from thalweg.errors import PlanError, UnknownColumnError, require_choice
from thalweg.model.time import duration_us
from thalweg.plan.properties import StreamProperties

__all__ = [
    "Broken",
    "InputFacts",
    "InsertPolicy",
    "Level",
    "LevelChoice",
    "MergePolicy",
    "Missing",
    "RevisePolicy",
    "Settled",
    "check_merge",
    "choose_level",
]

Level = Literal["R0", "R1", "R2", "R3", "R4"]

InsertPolicy = Literal[
    "first seen", "leader", "highest start", "most unfrozen", "half frozen", "share"
]
"""When a row is shown before a CTI makes it necessary (location 2 of Algorithm R3)."""

RevisePolicy = Literal["lazy", "every", "leader"]
"""When a row that is shown gets another end (location 1): only when a CTI makes it necessary, with
every adjust of any input, or with every adjust of the input that leads."""

Broken = Literal["cut", "climb"]
"""What becomes of an input that is not in order at R0 to R2: it leaves, or (rows are held as at R3
from the start) the merge goes on."""

Missing = Literal["leader", "keep"]
"""The table is that of the inputs that led, or it has every row that any input had; then progress
is that of the slowest input."""


Settled = Literal["forget", "compare"]
"""Rows that the output has settled are forgotten, as in the document, or kept until every input has
promised beyond them, so that an input that contradicts them is noticed (R3, R4)."""


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """
    >>> MergePolicy(insert="half frozen").revise
    'lazy'
    """

    insert: InsertPolicy = "first seen"
    revise: RevisePolicy = "lazy"
    missing: Missing = "leader"
    lag: int = 0
    """How far the output's CTI stays behind the largest of the inputs."""
    share: float = 0.5
    """With `insert="share"`: the share of the inputs that must have a row."""
    settled: Settled = "forget"

    @property
    def keeps_all(self) -> bool:
        """Whether the table has every row that any input had."""
        return self.missing == "keep"

    @property
    def compares(self) -> bool:
        """Whether settled rows wait until every input has confirmed them."""
        return self.settled == "compare"

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("insert", self.insert, get_args(InsertPolicy)),
            ("revise", self.revise, get_args(RevisePolicy)),
            ("missing", self.missing, get_args(Missing)),
            ("settled", self.settled, get_args(Settled)),
        ):
            require_choice(value, choices, f"merge: {name}")
        object.__setattr__(self, "lag", duration_us(self.lag, what="merge: lag"))
        if self.lag < 0:
            raise PlanError(f"merge: lag must not be negative; got {self.lag}.")
        if not is_number(self.share) or not 0 < self.share <= 1:
            raise PlanError(f"merge: share must be above 0 and at most 1; got {self.share!r}.")


def is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def check_merge(
    schema: pa.Schema,
    level: Level | None,
    groups: tuple[str, ...],
    tolerance: float,
    broken: Broken,
) -> None:
    """Refuse what cannot be merged: a level or a choice that there is not, a group by columns that
    are not there."""
    if level is not None:
        require_choice(level, get_args(Level), "merge: level")
    require_choice(broken, get_args(Broken), "merge: broken")
    for name in groups:
        if name not in schema.names:
            raise UnknownColumnError(name, schema.names, "merge, groups")
    if not is_number(tolerance) or not 0 <= tolerance < math.inf:
        raise PlanError(
            f"merge: tolerance is how far equal floats may differ, 0 or more; got {tolerance!r}."
        )
    if groups and level == "R4":
        raise PlanError("merge: at R4 an answer may occur several times; leave groups= out.")


@dataclass(frozen=True, slots=True)
class LevelChoice:
    """The level of a merge, what identifies its rows, and why."""

    level: Level
    groups: tuple[str, ...] = ()
    sort: bool = False
    """Whether the merge puts every batch in canonical order first: by start, then by digest."""
    reason: str = ""

    def __str__(self) -> str:
        groups = f" by group ({', '.join(self.groups)})" if self.groups else ""
        return f"{self.level}{groups}: {self.reason}"


@dataclass(frozen=True, slots=True)
class InputFacts:
    """What is known of one input of a merge, by its plan and the consistency of the query."""

    properties: StreamProperties
    insert_only: bool
    ordered: bool
    whole_runs: bool
    """All rows of a start come in one batch, and batches in order of their starts."""


def choose_level(inputs: Sequence[InputFacts]) -> LevelChoice:
    """The cheapest level that fits all inputs (section IV-D).

    >>> facts = StreamProperties(ordered=True, insert_only=True, unique_start=True)
    >>> print(choose_level([InputFacts(facts, True, True, False)]))
    R0: inserts only, in order, and no two start together
    """
    properties = [facts.properties for facts in inputs]
    inserts = all(facts.insert_only for facts in inputs)
    in_order = all(facts.ordered or facts.whole_runs for facts in inputs)
    sort = any(facts.whole_runs and not facts.ordered for facts in inputs)
    unique = all(each.unique_start for each in properties)
    keys = {each.group_keys for each in properties}
    groups = properties[0].group_keys if unique and len(keys) == 1 else ()
    if inserts and in_order and unique and keys == {()}:
        return LevelChoice("R0", (), sort, "inserts only, in order, and no two start together")
    if inserts and all(facts.whole_runs for facts in inputs):
        reason = "final answers of windows; rows that start together are put in canonical order"
        return LevelChoice("R1", (), True, reason)
    if inserts and in_order and all(each.payload_start_key for each in properties):
        return LevelChoice("R2", (), sort, "inserts only, in order; payload and start are a key")
    if groups:
        return LevelChoice("R3", groups, False, "one row for each group and start, revised")
    if all(each.payload_start_key or each.unique_start for each in properties):
        return LevelChoice("R3", (), False, "payload and start are a key")
    return LevelChoice("R4", (), False, "nothing is known that would allow less")
