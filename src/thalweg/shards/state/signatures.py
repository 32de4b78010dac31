"""Names of slices and signatures of operators, which decide what state a changed query may take
over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.errors import StateError

__all__ = [
    "carried_over",
    "carried_over_whole",
    "is_stateless",
    "operator_and_slice",
    "signature_of",
    "slice_name",
]


def slice_name(operator: str, part: str) -> str:
    """The name under which a slice of an operator is stored."""
    return f"{operator}|{part}"


def operator_and_slice(name: str) -> tuple[str, str]:
    """The inverse of `slice_name`; no operator for a slice of the worker itself.

    >>> operator_and_slice(slice_name("join-1", "left")), operator_and_slice("progress")
    (('join-1', 'left'), ('', 'progress'))
    """
    operator, bar, part = name.partition("|")
    return (operator, part) if bar else ("", name)


_STATELESS = "stateless "


def signature_of(text: str, *, keeps_state: bool) -> str:
    """The signature of an operator, which also tells whether the operator keeps state.

    >>> is_stateless(signature_of("where v > 1", keeps_state=False))
    True
    """
    return text if keeps_state else f"{_STATELESS}{text}"


def is_stateless(signature: str) -> bool:
    return signature.startswith(_STATELESS)


def carried_over_whole(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """As `carried_over`, given that every operator that keeps state has some."""
    stateful = [name for name, signature in before.items() if not is_stateless(signature)]
    return carried_over(before, now, {slice_name(name, ""): None for name in stateful})


def carried_over(
    before: Mapping[str, str], now: Mapping[str, str], slices: Mapping[str, Any]
) -> set[str]:
    """The operators of an older plan that the new plan lacks; refuses a new plan that cannot use
    this state.

    An operator keeps its state when its id and its signature are the same. An operator without
    state may be added, removed or changed.

    >>> carried_over({"where-1": "a"}, {"where-1": "b"}, {})
    set()
    >>> try:
    ...     carried_over({"top_k-1": "by a"}, {"top_k-1": "by b"}, {"top_k-1|rows": None})
    ... except StateError as reason:
    ...     print(str(reason)[:70])
    the operator top_k-1 was 'by a' and is now 'by b': its state does not
    """
    if before == now:
        return set()
    stateful = {operator for operator, _ in map(operator_and_slice, slices) if operator}
    for operator, signature in now.items():
        was = before.get(operator)
        if was == signature or (was is not None and operator not in stateful):
            continue
        if was is None and is_stateless(signature):
            continue
        if was is None:
            raise StateError(
                f"the operator {operator} is new in this query and has not seen what came before; "
                "its answers would be wrong. Start the changed query with a new checkpoint."
            )
        raise StateError(
            f"the operator {operator} was {was!r} and is now {signature!r}: its state does not fit."
            " Start the changed query with a new checkpoint."
        )
    return set(before) - set(now)
