"""Scenarios of a merge: replicas of one table that lag, fail, join and return, played element batch
by element batch and checked after every one.

What is checked: the output is sound and can be played, it is compatible with its inputs (C1 to C3,
or R4's form) at every prefix, by group it never shows two versions of one answer, and in the end
its table is the reference.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, get_args

from thalweg.merging import Merger
from thalweg.model import INFINITY, MIN_TIME, Batch, Cti, Element, Row, batches_of, elements_of
from thalweg.plan.merging import InsertPolicy, Level, MergePolicy, RevisePolicy
from thalweg.testing import (
    REPLICA_SCHEMA,
    PrefixPlayer,
    compatibility_problem,
    difference,
    make_reference,
    make_replica,
)

LEVELS: tuple[Level, ...] = ("R0", "R1", "R2", "R3", "R4")


@dataclass
class Scenario:
    """One run. Everything in it follows from the seed."""

    seed: int
    level: Level
    by_group: bool = False
    keep: bool = False
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(f"{self.seed}/{self.level}/{self.by_group}/{self.keep}")
        random = self.random
        self.rows = make_reference(
            self.level, random.randint(0, 14), random, by_group=self.by_group
        )
        self.policy = MergePolicy(
            insert=random.choice(get_args(InsertPolicy)),
            revise=random.choice(get_args(RevisePolicy)),
            missing="keep" if self.keep else "leader",
            lag=random.choice([0, 0, 0, 3]),
            share=random.choice([0.3, 0.5, 1.0]),
            settled=random.choice(["forget", "compare"]),
        )
        self.group_promises = random.random() < 0.5
        self.options: dict[str, Any] = {
            "level": self.level,
            "policy": self.policy,
            "groups": ("k",) if self.by_group else (),
            "broken": random.choice(["cut", "climb"]),
        }
        self.merger = Merger(REPLICA_SCHEMA, **self.options)
        self.players: dict[str, PrefixPlayer] = {}
        self.waiting: dict[str, list[list[Element]]] = {}
        self.output = PrefixPlayer()
        self.number = 0

    # ------------------------------------------------------------------------------------------

    def attach(self, since: int | None = None) -> None:
        name = f"input{self.number}"
        self.number += 1
        rows = self.rows
        if since is not None:  # rows that end before may be missing
            rows = [r for r in rows if r[1] >= since or self.random.random() < 0.3]
        elements = make_replica(
            self.level,
            rows,
            self.random,
            by_group=self.by_group,
            group_promises=self.group_promises,
        )
        self.trace.append(f"attach {name} since {since}")
        self.merger.attach(name, since)
        self.players[name] = PrefixPlayer(MIN_TIME if since is None else since)
        self.waiting[name] = self._cut(elements)

    def _cut(self, elements: list[Element]) -> list[list[Element]]:
        size = self.random.choice([1, 3, 8, 100])
        steps: list[list[Element]] = [[]]
        for element in elements:
            steps[-1].append(element)
            if isinstance(element, Cti) or len(steps[-1]) >= size:
                steps.append([])
        return [step for step in steps if step]

    def push(self, name: str) -> None:
        step = self.waiting[name].pop(0)
        self.trace.append(f"push {name} {step}")
        [batch] = batches_of(step, REPLICA_SCHEMA)
        self.players[name].play(step)
        self.check(self.merger.push(name, batch))

    def detach(self, name: str) -> None:
        self.trace.append(f"detach {name}")
        del self.waiting[name]
        self.check(self.merger.detach(name))

    def restart(self) -> None:
        self.trace.append("restart")
        state = self.merger.snapshot()
        self.merger = Merger(REPLICA_SCHEMA, **self.options)
        self.merger.restore(state)

    # ------------------------------------------------------------------------------------------

    def check(self, out: list[Batch]) -> None:
        elements = list(elements_of(out))
        self.trace.append(f"  -> {elements}")
        try:
            self.output.play(elements)
        except ValueError as reason:
            raise AssertionError(self.report(str(reason))) from reason
        prefixes = {name: player.prefix for name, player in self.players.items()}
        shown = self.output.prefix
        problem = compatibility_problem(prefixes, shown, multiset=self.level == "R4")
        if problem:
            raise AssertionError(self.report(problem))
        if self.by_group:
            twice = [
                key for key, n in Counter((p["k"], s) for s, _, p in shown.rows).items() if n > 1
            ]
            if twice:
                raise AssertionError(self.report(f"two versions of {twice[0]}"))
        if self.merger.status().alarm_count:
            raise AssertionError(self.report(str(self.merger.status().alarms[0])))

    def report(self, problem: str) -> str:
        return "\n".join([problem, repr(self), repr(self.policy), *self.trace])

    # ------------------------------------------------------------------------------------------

    def play(self) -> None:
        random = self.random
        for _ in range(random.randint(1, 4)):
            self.attach()
        while any(self.waiting.values()):
            name = random.choice([name for name, steps in self.waiting.items() if steps])
            self.push(name)
            chance = random.random()
            if chance < 0.04 and self.number < 6:
                self.attach(random.randint(0, 40))
            elif chance < 0.10:
                self.fail_some()
            elif chance < 0.15:
                self.restart()
        self.finish(self.rows)

    def fail_some(self) -> None:
        """Some inputs fail at once; one that may lead goes on, and sends all there is."""
        status = self.merger.status().inputs
        safe = [name for name in self.waiting if status[name].joined]
        if self.keep or not safe:
            return
        survivor = self.random.choice(safe)
        others = [name for name in self.waiting if name != survivor]
        for name in self.random.sample(others, self.random.randint(0, len(others))):
            self.detach(name)

    def finish(self, expected: list[Row]) -> None:
        shown = self.output.prefix
        if shown.last != INFINITY:
            raise AssertionError(self.report(f"the output has promised {shown.last} only"))
        wrong = difference(expected, list(shown.rows))
        if wrong:
            raise AssertionError(self.report(wrong))
        for name in list(self.waiting):  # what is kept for slower inputs goes with them
            self.merger.detach(name)
        rows = self.merger.status().state.rows
        if rows and self.level in ("R3", "R4"):
            raise AssertionError(self.report(f"{rows} rows are still held"))


@dataclass
class MissingRows(Scenario):
    """Inputs that lack rows, merged with `keep`: whatever an input could not take back is there."""

    keep: bool = True

    def play(self) -> None:
        random = self.random
        delivered: dict[str, list[Row]] = {}
        for _ in range(random.randint(1, 4)):
            everything = self.rows
            self.rows = [row for row in everything if random.random() < 0.7]
            self.attach()
            self.rows = everything
        while any(self.waiting.values()):
            name = random.choice([name for name, steps in self.waiting.items() if steps])
            self.push(name)
            if random.random() < 0.05 and len(self.waiting) > 1:
                prefix = self.players[name].prefix
                delivered[name] = [
                    row for row in prefix.rows if row[0] < prefix.last_of(frozenset(row[2].items()))
                ]
                self.detach(name)
            elif random.random() < 0.1:
                self.restart()
        self.compare(
            [list(self.players[name].prefix.rows) for name in self.waiting],
            list(delivered.values()),
        )

    def compare(self, whole: list[list[Row]], failed: list[list[Row]]) -> None:
        """Every payload and start that an input had is there as often as in the input that has it
        most often. Its ends are those of an input that did not fail, if there is one: an input that
        fails may not have known the last end."""
        shown = _ends(list(self.output.prefix.rows))
        of_whole, of_failed = [_ends(rows) for rows in whole], [_ends(rows) for rows in failed]
        keys = {key for ends in (*of_whole, *of_failed) for key in ends}
        if keys != shown.keys():
            raise AssertionError(self.report(f"differs in {keys ^ shown.keys()}"))
        for key in keys:
            candidates = [ends[key] for ends in of_whole if key in ends]
            most = max(len(ends[key]) for ends in (*of_whole, *of_failed) if key in ends)
            if len(shown[key]) != most:
                raise AssertionError(self.report(f"{key}: {shown[key]}, expected {most} rows"))
            exact = [ends for ends in candidates if len(ends) == most]
            if exact and shown[key] not in exact:
                raise AssertionError(self.report(f"{key}: {shown[key]}, expected {exact}"))
        if self.output.prefix.last != INFINITY:
            raise AssertionError(self.report("the output has not ended"))

    def check(self, out: list[Batch]) -> None:
        elements = list(elements_of(out))
        self.trace.append(f"  -> {elements}")
        try:
            self.output.play(elements)
        except ValueError as reason:
            raise AssertionError(self.report(str(reason))) from reason


def _ends(rows: list[Row]) -> dict[tuple[str, int, int], list[int]]:
    found: dict[tuple[str, int, int], list[int]] = {}
    for start, end, payload in sorted(rows, key=lambda row: row[:2]):
        found.setdefault((payload["k"], payload["v"], start), []).append(end)
    return found
