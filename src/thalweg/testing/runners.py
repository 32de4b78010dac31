"""Runners: what plays a form and returns the output batches. Any engine that can be driven this way
can be fuzzed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Protocol, TypeAlias

from thalweg.model import Batch
from thalweg.plan.nodes import Node, Source, walk
from thalweg.testing.forms import Form, Restart

__all__ = ["EngineLike", "EngineType", "Runner", "engine_runner"]

Runner: TypeAlias = Callable[[Node, Form, str], list[Batch]]
"""`runner(query, form, consistency)`: all output, the end of input being an infinite CTI on every
source."""


class EngineLike(Protocol):
    """A running query."""

    def push(self, source_name: str, batch: Batch) -> list[Batch]: ...

    def finish(self) -> list[Batch]: ...

    def snapshot(self) -> bytes: ...


class EngineType(Protocol):
    """What makes running queries, anew or from a snapshot."""

    def __call__(self, query: Node, *, consistency: str) -> EngineLike: ...

    def restore(self, query: Node, snapshot: bytes, *, consistency: str) -> EngineLike: ...


def engine_runner(engine: EngineType | None = None) -> Runner:
    """The runner that plays forms on an engine class; without one, on `thalweg.run.Engine`."""
    kind = engine if engine is not None else _default()
    # Who goes on after a restart builds the query anew: same meaning, other objects.
    copies: dict[Node, Node] = {}

    def run(query: Node, form: Form, consistency: str) -> list[Batch]:
        schemas = {node.name: node.schema for node in walk(query) if isinstance(node, Source)}
        running = kind(query, consistency=consistency)
        output: list[Batch] = []
        for part in form.steps:
            if isinstance(part, Restart):
                if query not in copies:
                    copies[query] = deepcopy(query)
                running = kind.restore(copies[query], running.snapshot(), consistency=consistency)
            else:
                output += running.push(part.source, part.batch(schemas[part.source]))
        return output + running.finish()

    return run


def _default() -> EngineType:
    from thalweg.run import Engine

    return Engine
