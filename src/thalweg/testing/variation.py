"""Making physical forms of a logical input, at random but reproducibly.

A form is made in five moves, each more or less wild (`Manner`):

1. chains: rows take detours over other ends; spurious rows are added that vanish again
2. arrival: the chains are interleaved, anywhere between ordered by time and shuffled
3. promises: CTIs are put where they are legal. The CTIs of the input are kept, delayed or thinned;
   others are added. Scoped CTIs are added only where the input itself has some.
4. cuts: the sequence is cut into batches, from one element at a time to a single batch
5. the batches of all sources are interleaved, and restarts are put between them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa

from thalweg.model import INFINITY, Adjust, Element, Insert
from thalweg.testing.chains import Chain
from thalweg.testing.forms import RESTART, Form, Logical, Restart, Step, illegality, step
from thalweg.testing.manner import PLAIN, PUNCTUATED, WILD, Manner
from thalweg.testing.promises import with_promises

__all__ = ["Manner", "forms_of", "make_form"]

Data = Insert | Adjust


_FIRST = (PLAIN, PUNCTUATED, WILD)


def forms_of(
    logicals: Mapping[str, Logical], count: int, seed: int = 0, *, insert_only: bool = False
) -> Iterator[Form]:
    """`count` forms of the same input: a plain one, an ordered one full of CTIs, a wild one, then
    ever new ones. With `insert_only` no row is adjusted."""
    for number in range(count):
        random = Random(f"{seed}/{number}")
        manner = _FIRST[number] if number < len(_FIRST) else Manner.draw(random)
        if insert_only:
            manner = replace(manner, detours=0.0, spurious=0)
        yield make_form(logicals, manner, random)


def make_form(logicals: Mapping[str, Logical], manner: Manner, random: Random) -> Form:
    """One form. It is checked before it is handed out: a form that is not legal is a mistake in
    this module."""
    starts = [chain.start for logical in logicals.values() for chain in logical.chains]
    origin = min(starts, default=0)
    queues = [
        _cut(name, _sequence(logical, origin, manner, random), manner, random)
        for name, logical in logicals.items()
    ]
    form = Form(tuple(_interleave(queues, manner, random)))
    wrong = illegality(form, logicals)
    if wrong:
        raise RuntimeError(f"this form is not legal: {wrong}\n{form}")
    return form


def _sequence(logical: Logical, origin: int, manner: Manner, random: Random) -> list[Element]:
    chains = [
        _detour(chain, random) if random.random() < manner.detours else chain
        for chain in logical.chains
    ]
    chains += [_spurious(logical, origin, random) for _ in range(manner.spurious)]
    return with_promises(_arrival(chains, manner, random), logical.promises, manner, random)


# ------------------------------------------------------------------------------------------------
# chains


def _detour(chain: Chain, random: Random) -> Chain:
    """The chain by way of other ends, or straight to its last end."""
    ends: list[int] = []
    for _ in range(random.randint(0, 3)):
        end = _some_end(chain.start, chain.ends[-1], random)
        if not ends or ends[-1] != end:
            ends.append(end)
    while ends and ends[-1] == chain.ends[-1]:
        ends.pop()
    if not ends and chain.row is None:
        return chain  # a row that vanishes has to have had another end before
    return chain.through(ends)


def _some_end(start: int, last: int, random: Random) -> int:
    near = last if start < last < INFINITY else start + 5
    return random.choice(
        [
            INFINITY,
            near,
            near + random.randint(1, 6),
            random.randint(start + 1, max(start + 1, near)),
        ]
    )


def _spurious(logical: Logical, origin: int, random: Random) -> Chain:
    """A row that will turn out never to have existed; often it resembles a real one. Without real
    ones it lies near the `origin`, where the rows of the other inputs begin: rows of two inputs
    that lie an age apart would make windows without number where they meet."""
    payload = {
        field.name: _some_value(field.name, field.type, logical, random) for field in logical.schema
    }
    start = origin + random.randint(0, 10)
    if logical.chains:
        model = random.choice(logical.chains)
        payload = dict(model.payload) if random.random() < 0.6 else payload
        start = model.start + random.choice([0, 0, 0, -1, 1, random.randint(-4, 8)])
    ends = [
        _some_end(start, start + random.randint(1, 8), random) for _ in range(random.randint(1, 2))
    ]
    return Chain(payload, start, (*dict.fromkeys(ends), start))


def _some_value(name: str, kind: pa.DataType, logical: Logical, random: Random) -> Any:
    values = [chain.payload.get(name) for chain in logical.chains]
    if values and random.random() < 0.8:
        return random.choice(values)
    if pa.types.is_integer(kind):
        return random.randint(0, 3)
    if pa.types.is_floating(kind):
        return random.randint(0, 12) / 4
    if pa.types.is_boolean(kind):
        return random.random() < 0.5
    return random.choice(["a", "b"]) if pa.types.is_string(kind) else None


# ------------------------------------------------------------------------------------------------
# arrival


def _arrival(chains: list[Chain], manner: Manner, random: Random) -> list[Data]:
    """The elements of all chains, each chain in its own order, by time as far as the disorder lets
    them."""
    placed = []
    for chain in chains:
        place, tie = float("-inf"), 0.0
        for turn, element in enumerate(chain.elements()):
            shuffled = manner.disorder == float("inf")
            position = (
                random.random() if shuffled else element.sync + random.uniform(0, manner.disorder)
            )
            if position > place:
                place, tie = position, random.random()
            placed.append((place, tie, turn, element))
    placed.sort(key=lambda item: item[:3])
    return [element for *_, element in placed]


# ----------------------------------------------------------------------------------------------
# cuts and interleaving


def _cut(source: str, elements: list[Element], manner: Manner, random: Random) -> list[Step]:
    batches: list[list[Element]] = [[]]
    for element in elements:
        if batches[-1] and random.random() < manner.cut:
            batches.append([])
        batches[-1].append(element)
    return [step(source, *batch) for batch in batches if batch]


def _interleave(
    queues: list[list[Step]], manner: Manner, random: Random
) -> Iterator[Step | Restart]:
    waiting = [list(queue) for queue in queues if queue]
    while waiting:
        queue = waiting[0] if manner.in_turn else random.choice(waiting)
        yield queue.pop(0)
        waiting = [queue for queue in waiting if queue]
        if random.random() < manner.restarts:
            yield RESTART
