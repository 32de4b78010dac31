"""Playing one vector: many physical forms, and the promises that must come out on the way.

Where the order of the input has no meaning, forms vary everything the fuzzer can vary. Where it has
(an ingress decides by arrival what is late), they keep each source's order and vary only batch
cuts, restarts and the interleaving of sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pyarrow as pa

from thalweg.errors import InputError, ThalwegError
from thalweg.model import INFINITY, NO_PROGRESS, Batch, Cti, Element, Progress, Row
from thalweg.plan.nodes import Node
from thalweg.testing._vector_data import FILLER, PARTITION, Vector
from thalweg.testing._vector_plan import order_matters, plan_of
from thalweg.testing.checks import output_problem
from thalweg.testing.forms import RESTART, Form, Restart, Step, logical_inputs, step
from thalweg.testing.fuzzer import CONSISTENCIES
from thalweg.testing.runners import EngineType
from thalweg.testing.variation import Manner, make_form

__all__ = ["failure_of"]

_PARSES_TEXT = re.compile(r"\b(int|float)\(")


def failure_of(vector: Vector, engine: EngineType, forms: int) -> str | None:
    """What is wrong with an engine's answer to a vector, or None when all forms agree with it."""
    query = plan_of(vector)
    if vector.expected_error is not None:
        return _refusal(vector, query, engine, forms)
    expected = _payload_of(vector.expected or [], query.schema)
    for number, form in enumerate(_forms(vector, query, forms)):
        consistency = CONSISTENCIES[number % len(CONSISTENCIES)]
        where = f"form {number}, consistency {consistency}"
        try:
            output = [batch for _, batch in _play(vector, query, form, engine, consistency)]
        except ThalwegError as reason:
            return f"{where}: {type(reason).__name__}: {reason}\n{form}"
        wrong = output_problem(output, query.schema, expected, consistency)
        if wrong:
            return f"{where}: {wrong}\n{form}"
    return _missing_promise(vector, query, engine)


def _payload_of(rows: list[Row], schema: pa.Schema) -> list[Row]:
    """Expected rows over the columns of the query: what the file leaves out is null."""
    filler = {FILLER: None} if FILLER in schema.names else {}
    return [(start, end, {**payload, **filler}) for start, end, payload in rows]


def _refusal(vector: Vector, query: Node, engine: EngineType, forms: int) -> str | None:
    for number, form in enumerate(_forms(vector, query, forms)):
        try:
            for _ in _play(vector, query, form, engine, CONSISTENCIES[number % len(CONSISTENCIES)]):
                pass
        except InputError:
            continue
        return f"form {number}: the input should have been refused ({vector.expected_error})"
    return None


def _missing_promise(vector: Vector, query: Node, engine: EngineType) -> str | None:
    """The first promise of the file that the output does not make before the end, in the original
    order, one element at a time; a stronger promise will do."""
    if not vector.expected_ctis or hasattr(
        engine, "settle"
    ):  # an engine that gathers its input has no output before the end
        return None
    form = _in_order(vector)
    for consistency in CONSISTENCIES:
        progress = NO_PROGRESS
        for ended, batch in _play(vector, query, form, engine, consistency):
            if not ended and not batch.progress.ended:
                progress = progress.merge(batch.progress)
        for time, scope in vector.expected_ctis:
            expected = _settled(vector, time, scope) if consistency == "final" else time
            if (progress.cti if scope is None else progress.of(scope)) < expected:
                whom = "" if scope is None else f" for {scope[0]!r}"
                return (
                    f"consistency {consistency}: the CTI {expected}{whom} was expected; the output "
                    f"only promised {progress}"
                )
    return None


def _settled(vector: Vector, time: int, scope: tuple[object] | None) -> int:
    """How far "final" must promise at a CTI: not beyond the start of a row that it holds because
    its end may still move."""
    rows = [
        row for row in vector.expected or [] if scope is None or row[2].get(PARTITION) == scope[0]
    ]
    return min([time, *(start for start, end, _ in rows if end >= time)])


def _play(
    vector: Vector, query: Node, form: Form, engine: EngineType, consistency: str
) -> Iterator[tuple[bool, Batch]]:
    """The output of a form; with each batch, whether the input had ended by then."""
    running = engine(query, consistency=consistency)
    for part in form.steps:
        if isinstance(part, Restart):
            running = engine.restore(query, running.snapshot(), consistency=consistency)
        else:
            yield from (
                (False, batch)
                for batch in running.push(part.source, part.batch(vector.schemas[part.source]))
            )
    if not _open_end(vector):
        yield from ((True, batch) for batch in running.finish())
    # an engine whose input just stops has no more to do; one that gathers input plays it now
    else:
        yield from ((True, batch) for batch in getattr(running, "settle", list)())
        yield True, Batch.empty(query.schema, Progress(INFINITY))


def _open_end(vector: Vector) -> bool:
    """Whether the end of the data is not the end of the stream."""
    op = vector.op
    while "in" in op and op["op"] != "ingress":
        op = op["in"]
    return op.get("end_of_stream") is False


def _forms(vector: Vector, query: Node, count: int) -> Iterator[Form]:
    fixed = order_matters(vector)
    logicals = {} if fixed else logical_inputs(query, dict(vector.inputs))
    # A made-up row may hold text that is not a number; the query is right to refuse it.
    made_up = 0 if _PARSES_TEXT.search(json.dumps(vector.op)) else None
    for number in range(count):
        random = Random(f"{vector.name}/{number}")
        if number == 0:
            yield _in_order(vector)
        elif fixed:
            yield _cut_anywhere(vector, random)
        else:
            manner = Manner.draw(random)
            yield make_form(
                logicals, manner if made_up is None else replace(manner, spurious=made_up), random
            )


def _in_order(vector: Vector) -> Form:
    """One element at a time, the sources taking turns."""
    queues = {name: list(elements) for name, elements in vector.inputs.items()}
    steps: list[Step] = []
    while any(queues.values()):
        steps += [step(name, queue.pop(0)) for name, queue in queues.items() if queue]
    return Form(steps)


def _cut_anywhere(vector: Vector, random: Random) -> Form:
    """Every source in its order. A CTI ends its batch, because a batch's CTIs hold after all of its
    elements."""
    cut, restart = random.choice([0, 0.1, 0.4, 1]), random.choice([0, 0.1, 0.5])
    queues: list[list[Step]] = []
    for name, elements in vector.inputs.items():
        queue: list[Step] = []
        held: list[Element] = []
        for element in elements:
            held.append(element)
            if isinstance(element, Cti) or random.random() < cut:
                queue.append(step(name, *held))
                held = []
        if held:
            queue.append(step(name, *held))
        queues.append(queue)
    steps: list[Step | Restart] = []
    while queues := [queue for queue in queues if queue]:
        steps.append(random.choice(queues).pop(0))
        if random.random() < restart:
            steps.append(RESTART)
    return Form(steps)
