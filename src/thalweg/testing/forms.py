"""Physical forms: many ways in which one logical input can arrive.

A `Form` is a script: batches of elements pushed into named sources, in order, with restarts (stop,
snapshot, restore) between them. It prints itself as the Python that rebuilds it. A form is legal
for a logical input when every source's elements keep the promises they make (`first_violation`) and
leave the table of the input (`cht`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model import Batch, Cti, Element, Row, batches_of, cht, first_violation
from thalweg.plan.nodes import Node, Source, walk
from thalweg.testing.chains import Chain, chains_of
from thalweg.testing.compare import difference
from thalweg.testing.text import show_element

__all__ = [
    "RESTART",
    "Form",
    "Inputs",
    "Logical",
    "Restart",
    "Step",
    "illegality",
    "logical_inputs",
    "step",
]

Inputs = Mapping[str, Sequence[Row | Element]]
"""Per source, either the rows of its table or one sequence of elements that describes it."""


@dataclass(frozen=True)
class Restart:
    """The runner stops here, and another goes on from its snapshot."""

    def __repr__(self) -> str:
        return "RESTART"


RESTART = Restart()


@dataclass(frozen=True)
class Step:
    """One batch for one source. Its CTIs hold after all of its elements."""

    source: str
    elements: tuple[Element, ...]

    def batch(self, schema: pa.Schema) -> Batch:
        return Batch.concat(list(batches_of(self.elements, schema)), schema)

    def __repr__(self) -> str:
        return ", ".join([f"step({self.source!r}", *map(show_element, self.elements)]) + ")"


def step(source: str, *elements: Element) -> Step:
    """A batch of elements; CTIs are put last, where they take effect.

    >>> from thalweg.model import cti, insert
    >>> step("readings", cti(3), insert({"v": 1}, 4, 6))
    step('readings', insert({'v': 1}, 4, 6), cti(3))
    """
    data = [element for element in elements if not isinstance(element, Cti)]
    return Step(source, (*data, *(element for element in elements if isinstance(element, Cti))))


@dataclass(frozen=True)
class Form:
    """
    >>> from thalweg.model import insert
    >>> Form([step("a", insert({"v": 1}, 2, 3)), RESTART])
    Form([
        step('a', insert({'v': 1}, 2, 3)),
        RESTART,
    ])
    """

    steps: Sequence[Step | Restart]

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(part.source for part in self.steps if isinstance(part, Step)))

    def elements(self, source: str) -> list[Element]:
        """Everything one source receives, in order."""
        return [
            element
            for part in self.steps
            if isinstance(part, Step) and part.source == source
            for element in part.elements
        ]

    def __len__(self) -> int:
        """How many elements there are in all."""
        return sum(len(part.elements) for part in self.steps if isinstance(part, Step))

    def __repr__(self) -> str:
        return "\n".join(["Form([", *(f"    {part!r}," for part in self.steps), "])"])


@dataclass(frozen=True)
class Logical:
    """The input of one source, independent of its physical form."""

    schema: pa.Schema
    chains: tuple[Chain, ...]
    promises: tuple[Cti, ...] = ()

    @property
    def rows(self) -> list[Row]:
        return [chain.row for chain in self.chains if chain.row is not None]


def logical_inputs(query: Node, inputs: Inputs) -> dict[str, Logical]:
    """The inputs of a query, source by source; a source without input is empty. Refuses sequences
    that are not legal."""
    schemas = {node.name: node.schema for node in walk(query) if isinstance(node, Source)}
    strange = sorted(set(inputs) - set(schemas))
    if strange:
        raise ValueError(f"there is input for {strange[0]!r}; the query reads {sorted(schemas)}")
    return {name: _logical(name, schema, inputs.get(name, ())) for name, schema in schemas.items()}


def _logical(name: str, schema: pa.Schema, items: Sequence[Row | Element]) -> Logical:
    rows = [item for item in items if isinstance(item, tuple)]
    elements = [item for item in items if not isinstance(item, tuple)]
    if rows and elements:
        raise ValueError(f"the input of {name!r} mixes rows and elements; give one or the other")
    broken = first_violation(elements)
    if broken:
        raise ValueError(f"the input of {name!r} breaks its own promise: {broken}")
    raw_chains = [
        Chain(payload, start, (end,)) for start, end, payload in rows if end > start
    ] or chains_of(elements)
    nothing = dict.fromkeys(schema.names)
    chains = [replace(chain, payload={**nothing, **chain.payload}) for chain in raw_chains]
    return Logical(
        schema, tuple(chains), tuple(element for element in elements if isinstance(element, Cti))
    )


def illegality(form: Form, logicals: Mapping[str, Logical]) -> str | None:
    """Why a form is not a legal form of these inputs, or None when it is."""
    for name in form.sources:
        if name not in logicals:
            return f"no query reads the source {name!r}"
    for name, logical in logicals.items():
        elements = form.elements(name)
        broken = first_violation(elements)
        if broken:
            return f"source {name!r}: {broken}"
        try:
            table = cht(elements, logical.schema)
        except UnknownRowError as reason:
            return f"source {name!r}: {reason}"
        wrong = difference(logical.rows, table)
        if wrong:
            return f"source {name!r} says something else: {wrong}"
    return None
