"""Whole plans in order and out of order, over links that are apart: how much each holds at most.

Out of order (OOP) a plan is one query: unions pass tuples on, windows sum them up, joins take them
as they come. In order (IOP) every union is an order-preserving Merge in front of the same query,
or, with slack, a union that is sorted afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import thalweg as tw
from benchmarks.baselines.ordering import Merge, SlackSort
from benchmarks.repro import Line, point
from benchmarks.repro.streams import SECOND
from benchmarks.repro.traffic import Link, Peak, arrivals, engine_size, sources
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import StateSize

__all__ = ["Plan", "compare"]

Build = Callable[[list[tw.Stream]], tw.Stream]


@dataclass(frozen=True)
class Plan:
    """A query over unions of links: `unions` names the links of each, `build` makes the query from
    the united streams."""

    unions: Mapping[str, list[Link]]
    build: Build
    length_s: int

    @property
    def links(self) -> list[Link]:
        return [link for links in self.unions.values() for link in links]


@dataclass(frozen=True)
class Held:
    """The most that the whole plan held, and the part of it that its unions did."""

    plan: Peak
    unions: Peak
    results: int


def out_of_order(plan: Plan) -> Held:
    inputs = dict(
        zip(
            (link.name for link in plan.links),
            sources(*(link.name for link in plan.links)),
            strict=True,
        )
    )
    united = [
        inputs[links[0].name].union(*(inputs[link.name] for link in links[1:]))
        for links in plan.unions.values()
    ]
    engine = tw.Engine(plan.build(united), consistency="final")
    return _run(plan, engine.push, lambda: engine_size(engine), StateSize)


def in_order(plan: Plan) -> Held:
    engine = tw.Engine(plan.build(sources(*plan.unions)), consistency="final")
    merges = {name: Merge(len(links)) for name, links in plan.unions.items()}
    places = {
        link.name: (name, port)
        for name, links in plan.unions.items()
        for port, link in enumerate(links)
    }

    def push(name: str, batch: Batch) -> list[Batch]:
        union, port = places[name]
        return _pushed(engine, union, merges[union].process(port, batch))

    def merged() -> StateSize:
        return sum((merge.state_size() for merge in merges.values()), StateSize())

    return _run(plan, push, lambda: engine_size(engine) + merged(), merged)


def in_order_by_slack(plan: Plan) -> Held:
    """The slack is the largest skew, which a system would have to guess."""
    engine = tw.Engine(plan.build(sources(*plan.unions)), consistency="final")
    slack = max(link.skew for link in plan.links) + SECOND
    sorts = {name: SlackSort(slack) for name in plan.unions}
    places = {link.name: name for name, links in plan.unions.items() for link in links}

    def push(name: str, batch: Batch) -> list[Batch]:
        union = places[name]
        return _pushed(engine, union, sorts[union].process(batch))

    def sorted_() -> StateSize:
        return sum((sort.state_size() for sort in sorts.values()), StateSize())

    return _run(plan, push, lambda: engine_size(engine) + sorted_(), sorted_)


def _pushed(engine: tw.Engine, source: str, batch: Batch) -> list[Batch]:
    return engine.push(
        source, batch if batch.progress.cti > MIN_TIME else batch.with_progress(Progress())
    )


def _run(
    plan: Plan,
    push: Callable[[str, Batch], list[Batch]],
    plan_size: Callable[[], StateSize],
    union_size: Callable[[], StateSize],
) -> Held:
    held = Held(Peak(plan_size), Peak(union_size), 0)
    results = 0
    for name, batch in arrivals(plan.links, length=plan.length_s * SECOND, step=SECOND // 2):
        results += sum(map(len, push(name, batch)))
        held.plan.look()
        held.unions.look()
    return Held(held.plan, held.unions, results)


SERIES: dict[str, Callable[[Plan], Held]] = {
    "OOP": out_of_order,
    "IOP": in_order,
    "IOP with slack": in_order_by_slack,
}


def compare(figure: str, plan: Plan, x: int, *names: str, variant: str = "") -> Iterator[Line]:
    """The memory of each kind of plan, and of what stands in front of its query to keep order."""
    for kind in names:
        held = SERIES[kind](plan)
        name = f"{kind}, {variant}" if variant else kind
        shown = {"rows": held.plan.rows, "results": held.results}
        yield point(
            figure, name, x, "memory of the plan", held.plan.bytes, "B", level="system", **shown
        )
        yield point(figure, name, x, "memory of its unions", held.unions.bytes, "B", level="engine")
