"""Random plans over hostile rows, for the law that no plan, form or engine changes an answer.

A plan has up to four operators over one or two sources, forks among them; every operator leaves the
same four columns, so that any may follow any other (`growths`, `module_growths`). The columns have
names that kernels use inside, and values at the edges: NaN, infinities, -0.0, denormals, 1e300, the
ends of int64, null, ties.

>>> from random import Random
>>> trial = random_trial(Random(7))
>>> trial.query.schema.types == list(KINDS)
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.model import INFINITY, Row
from thalweg.plan.nodes import Node, Source
from thalweg.plan.properties import StreamProperties
from thalweg.stream import Stream
from thalweg.testing.growths import GROWTHS, Growth, Site
from thalweg.testing.module_growths import MODULE_GROWTHS
from thalweg.testing.oracle import oracle

__all__ = [
    "INNER_NAMES",
    "KINDS",
    "Trial",
    "hostile_rows",
    "hostile_value",
    "random_trial",
    "trial_of_seed",
]

KINDS = (pa.int64(), pa.float64(), pa.string(), pa.int64())
"""The columns of every stream: a key, a number, a text, a small whole number."""

INNER_NAMES = (
    *("_key0", "_since", "_mark", "_order", "_matches", "_group", "_begin", "_of0", "_by0"),
    *("_weight", "_row0", "c0", "s0", "n", "start", "end", "group", "window", "wid", "rows", "v"),
    *("k", "_where0", "value", "position", "place", "_window", "_count", "_cell", "strategy"),
)
"""Names that a kernel might use for a column of its own; a user may use them too."""

_NUMBERS = (
    *(0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1e300, -1e300),
    *(2.0**53, 0.5, 3.0),
)
_WHOLE = (0, 1, 2, 3, -1, 2**63 - 1, -(2**63), 2**53 + 1)
_ORIGINS = (0, 0, 0, 0, 0, 2**60, -(2**60))
"""Where the times of a trial begin."""
_INSERT_ONLY = 0.3
"""How many trials have sources whose rows are never adjusted: other kernels run then."""
_TEXTS = ("", "a", "b", "NaN", "\N{LATIN SMALL LETTER SHARP S}", "a\x00b")


@dataclass(frozen=True)
class Trial:
    """A query and the tables of its sources."""

    query: Node
    tables: dict[str, list[Row]]
    text: str
    insert_only: bool = False
    """Whether its sources are declared so."""


def hostile_value(kind: pa.DataType, random: Random, *, null: float = 0.1) -> Any:
    """A value at an edge of its type, or null."""
    if random.random() < null:
        return None
    if pa.types.is_floating(kind):
        return random.choice(_NUMBERS)
    return random.choice(_TEXTS) if pa.types.is_string(kind) else random.choice(_WHOLE)


def hostile_rows(
    names: Sequence[str], random: Random, *, endless: bool, origin: int = 0
) -> list[Row]:
    """A small table with many ties; some rows are there twice, some never end."""
    rows: list[Row] = []
    for _ in range(random.randint(0, 7)):
        payload = {
            name: hostile_value(kind, random)
            for name, kind in zip(names[:3], KINDS[:3], strict=True)
        }
        payload[names[0]] = random.choice([payload[names[0]], 1, 2])
        payload[names[3]] = random.choice([None, 0, 1, 2, 3])
        start = origin + random.choice([random.randint(0, 30), 10, 20])
        lasts = random.choice([1, 5, 10, random.randint(1, 12)])
        end = INFINITY if endless and random.random() < 0.2 else start + lasts
        rows += [(start, end, payload)] * random.choice([1, 1, 1, 2])
    return rows


def trial_of_seed(seed: int) -> Trial:
    """The trial of a number. Every fourth may have modules and patterns too; the others never have,
    so that a number stays the trial that it was."""
    growths = {**GROWTHS, **MODULE_GROWTHS} if seed % 4 == 3 else GROWTHS
    return random_trial(Random(seed), growths=growths)


def random_trial(
    random: Random,
    *,
    operators: int = 4,
    names: Sequence[str] = INNER_NAMES,
    growths: Mapping[str, Growth] = GROWTHS,
) -> Trial:
    """A plan that can be built and has an answer, and tables for it; columns are called by four of
    the names."""
    names = random.sample(names, 4)
    schema = pa.schema(list(zip(names, KINDS, strict=True)))
    facts = StreamProperties(insert_only=True, firm_ends=True)
    declared = facts if random.random() < _INSERT_ONLY else StreamProperties()
    sources = [
        Stream(Source(name, schema, declared=declared)) for name in random.choice(["s", "st"])
    ]
    origin = random.choice(_ORIGINS)
    while True:
        stream, operator_names = _grow(sources, random, random.randint(1, operators), growths)
        tables = {
            name: hostile_rows(names, random, endless=random.random() < 0.3, origin=origin)
            for name in ("s", "t")
        }
        used = {node.name for node in _sources(stream.node)}
        tables = {name: rows for name, rows in tables.items() if name in used}
        try:
            oracle(stream.node, tables)
        except (ValueError, OverflowError):
            continue  # endlessly many windows, or a number that no column holds
        return Trial(stream.node, tables, " > ".join(operator_names), declared.insert_only)


def _sources(node: Node) -> list[Source]:
    if isinstance(node, Source):
        return [node]
    return [found for child in node.inputs for found in _sources(child)]


def _grow(
    sources: Sequence[Stream], random: Random, operators: int, growths: Mapping[str, Growth]
) -> tuple[Stream, list[str]]:
    operator_names: list[str] = []
    stream, streams = random.choice(sources), list(sources)
    while len(operator_names) < operators:
        name = random.choice(list(growths))
        try:
            grown = growths[name](Site(stream, streams, random))
        except PlanError:
            continue  # this operator is not allowed here
        if grown.schema.types != list(KINDS):
            raise AssertionError(f"{name} leaves {grown.schema}")
        streams.append(stream)
        stream = grown
        operator_names.append(name)
    return stream, operator_names
