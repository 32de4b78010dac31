"""Making a failing form small.

Every move leaves a legal form with less in it: fewer rows, fewer detours, fewer CTIs, restarts and
batches. Moves are tried, larger ones first, and kept while the form still fails, until none of them
helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from thalweg.model import Adjust, Cti, Element, Insert, first_violation
from thalweg.testing.chains import positions_of_chains
from thalweg.testing.forms import Form, Restart, Step, step

__all__ = ["shrink"]

_MOST_RUNS = 3000


def shrink(form: Form, fails: Callable[[Form], bool], *, drop_rows: bool = True) -> Form:
    """The smallest form found that still fails. Without `drop_rows` the tables of the sources stay
    as they are."""
    runs = 0
    rows = [_fewer_rows, _shorter_chains] if drop_rows else [_fewer_spurious]
    moves = [_fewer_restarts, *rows, _fewer_promises, _fewer_detours, _fewer_batches, _fewer_turns]
    improved = True
    while improved:
        improved = False
        for move in moves:
            candidates = move(form)
            while (smaller := next(candidates, None)) is not None:
                if runs >= _MOST_RUNS:
                    return form
                runs += 1
                if _sound(smaller) and fails(smaller):
                    form, improved = smaller, True
                    candidates = move(form)
    return form


def _sound(form: Form) -> bool:
    """Whether every source keeps its promises and adjusts only rows that are there."""
    try:
        _chains(form)
    except ValueError:
        return False
    return all(first_violation(form.elements(source)) is None for source in form.sources)


def _parts(size: int) -> Iterator[tuple[int, int]]:
    """Ranges to try to do without: all, halves, quarters, ... down to single items."""
    length = size
    while length:
        yield from ((at, min(at + length, size)) for at in range(0, size, length))
        length //= 2


def _without(form: Form, removed: set[tuple[int, int]]) -> Form:
    """A form without some elements, each given as (step, place in it); steps that become empty go
    too."""
    steps: list[Step | Restart] = []
    for number, part in enumerate(form.steps):
        if isinstance(part, Restart):
            steps.append(part)
            continue
        kept = [
            element for place, element in enumerate(part.elements) if (number, place) not in removed
        ]
        if kept:
            steps.append(step(part.source, *kept))
    return Form(tuple(steps))


def _places(form: Form, source: str) -> list[tuple[int, int]]:
    """Where each element of a source is, in the order of `form.elements(source)`."""
    steps = [
        (number, part)
        for number, part in enumerate(form.steps)
        if isinstance(part, Step) and part.source == source
    ]
    return [(number, place) for number, part in steps for place in range(len(part.elements))]


def _fewer_restarts(form: Form) -> Iterator[Form]:
    restarts = [number for number, part in enumerate(form.steps) if isinstance(part, Restart)]
    for begin, end in _parts(len(restarts)):
        removed = set(restarts[begin:end])
        yield Form(tuple(part for number, part in enumerate(form.steps) if number not in removed))


def _fewer_promises(form: Form) -> Iterator[Form]:
    steps = [(number, part) for number, part in enumerate(form.steps) if isinstance(part, Step)]
    ctis = [
        (number, at)
        for number, part in steps
        for at, element in enumerate(part.elements)
        if isinstance(element, Cti)
    ]
    for begin, end in _parts(len(ctis)):
        yield _without(form, set(ctis[begin:end]))


def _chains(form: Form) -> list[tuple[str, list[int]]]:
    return [
        (source, positions)
        for source in form.sources
        for positions in positions_of_chains(form.elements(source))
    ]


def _fewer_rows(form: Form, *, only_spurious: bool = False) -> Iterator[Form]:
    chains = []
    for source, positions in _chains(form):
        last = form.elements(source)[positions[-1]]
        if not only_spurious or (isinstance(last, Adjust) and last.new_end == last.start):
            places = _places(form, source)
            chains.append([places[at] for at in positions])
    for begin, end in _parts(len(chains)):
        yield _without(form, {place for chain in chains[begin:end] for place in chain})


def _fewer_spurious(form: Form) -> Iterator[Form]:
    return _fewer_rows(form, only_spurious=True)


def _shorter_chains(form: Form) -> Iterator[Form]:
    """Chains without their last adjust: their row ends elsewhere."""
    for source, positions in _chains(form):
        if len(positions) > 1:
            yield _without(form, {_places(form, source)[positions[-1]]})


def _fewer_detours(form: Form) -> Iterator[Form]:
    """Each chain straight to its end, or with one end left out. The joined element stands where
    either part stood."""
    for source, positions in _chains(form):
        elements = form.elements(source)
        yield from _straightened(form, source, positions)
        for first, second in pairwise(positions):
            joined = _joined(elements[first], elements[second])
            for keep, drop in ((first, second), (second, first)):
                yield _replaced(form, source, keep, joined, {drop})


def _straightened(form: Form, source: str, positions: list[int]) -> Iterator[Form]:
    elements = form.elements(source)
    last = elements[positions[-1]]
    if isinstance(last, Adjust) and len(positions) > 2 and last.new_end > last.start:
        yield _replaced(
            form,
            source,
            positions[0],
            Insert(last.payload, last.start, last.new_end),
            set(positions[1:]),
        )


def _joined(first: Element, second: Element) -> Element | None:
    """One element in place of two that follow each other in a chain; None when nothing is left of
    them."""
    assert isinstance(second, Adjust) and not isinstance(first, Cti)
    if isinstance(first, Insert):
        return (
            Insert(second.payload, second.start, second.new_end)
            if second.new_end > second.start
            else None
        )
    return (
        Adjust(second.payload, second.start, first.end, second.new_end)
        if first.end != second.new_end
        else None
    )


def _replaced(form: Form, source: str, keep: int, element: Element | None, drop: set[int]) -> Form:
    places = _places(form, source)
    number, place = places[keep]
    removed = {places[at] for at in drop}
    if element is None:
        return _without(form, removed | {places[keep]})
    part = form.steps[number]
    assert isinstance(part, Step)
    changed = Step(source, (*part.elements[:place], element, *part.elements[place + 1 :]))
    return _without(Form((*form.steps[:number], changed, *form.steps[number + 1 :])), removed)


def _fewer_batches(form: Form) -> Iterator[Form]:
    """Neighbouring batches of one source as one."""
    for length in (len(form.steps), 8, 4, 2):
        for at in range(len(form.steps) - 1):
            merged = _merge(form.steps[at : at + length])
            if len(merged) < len(form.steps[at : at + length]):
                yield Form((*form.steps[:at], *merged, *form.steps[at + length :]))


def _merge(parts: Sequence[Step | Restart]) -> list[Step | Restart]:
    merged: list[Step | Restart] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, Step) and isinstance(last, Step) and last.source == part.source:
            merged[-1] = step(part.source, *last.elements, *part.elements)
        else:
            merged.append(part)
    return merged


def _fewer_turns(form: Form) -> Iterator[Form]:
    """Batches of one source moved next to each other, so that they can be merged."""
    for at in range(len(form.steps) - 2):
        first, middle, last = form.steps[at : at + 3]
        if (
            isinstance(first, Step)
            and isinstance(last, Step)
            and isinstance(middle, Step)
            and first.source == last.source != middle.source
        ):
            for order in (
                (step(first.source, *first.elements, *last.elements), middle),
                (middle, step(first.source, *first.elements, *last.elements)),
            ):
                yield Form((*form.steps[:at], *order, *form.steps[at + 3 :]))
