"""The identity of a query, as recorded in its checkpoint: it decides whether another start may go
on from the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from thalweg.errors import StateError
from thalweg.shards.state.signatures import carried_over_whole

__all__ = ["QueryIdentity"]


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """`where` in its methods is the checkpoint, for messages."""

    facts: Mapping[str, Any]
    """Facts that must be the same at every start: fragments, exchanges, sources, buckets."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """By module of the user: a digest of its code."""
    operators: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By fragment and operator: the signature that its state is compared by."""
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By fragment and operator: its description, as in `explain`."""

    def to_json(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in _PARTS}
        return {**self.facts, **{name: part for name, part in parts.items() if part}}

    @classmethod
    def of_json(cls, saved: Mapping[str, Any]) -> Self:
        facts = {name: value for name, value in saved.items() if name not in _PARTS}
        return cls(facts, *(saved.get(name, {}) for name in _PARTS))

    def with_facts(self, facts: Mapping[str, Any]) -> Self:
        """The same with more facts."""
        return replace(self, facts={**self.facts, **facts})

    def require_start_of(self, now: QueryIdentity, where: str) -> None:
        """Refuse a start of another query, of operators whose state would not fit, and of modules
        whose code has changed."""
        before, facts = _as_read(self.facts), _as_read(now.facts)
        if before != facts:
            raise StateError(
                f"{where}: the checkpoint belongs to another query. {_difference(before, facts)} "
                "Start the query that it belongs to, or give this one a new checkpoint."
            )
        for fragment in now.operators:
            self._require_fitting(now, fragment, where)
        changed = [
            name for name, digest in self.modules.items() if now.modules.get(name, digest) != digest
        ]
        if changed:
            raise StateError(
                f"{where}: the code of the module {changed[0]} has changed since the checkpoint "
                "was made, under the same version; old answers and new ones would be mixed. Go on "
                "with the code as it was, or give the module another version= and start with a new "
                "checkpoint."
            )

    def _require_fitting(self, now: QueryIdentity, fragment: str, where: str) -> None:
        """Refuse operators whose state would not fit, as a worker would, but before any is started,
        and with the operator's description where that has changed."""
        signatures = now.operators[fragment]
        before = self.operators.get(fragment, signatures)
        try:
            carried_over_whole(before, signatures)
        except StateError as reason:
            words, words_now = self.words.get(fragment, {}), now.words.get(fragment, {})
            changed = [
                name
                for name, text in words_now.items()
                if before.get(name) != signatures.get(name) and words.get(name, text) != text
            ]
            if not changed:
                raise StateError(f"{where}: {reason}") from None
            operator = changed[0]
            raise StateError(
                f"{where}: the checkpoint was made by another query: {operator} was "
                f"{words[operator]!r}, and is now {words_now[operator]!r}. What it has kept does "
                "not fit. Start the changed query with a new checkpoint, or go on with the query "
                "as it was."
            ) from None


_PARTS = ("modules", "operators", "words")


def _as_read(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts after a round trip through JSON."""
    read: dict[str, Any] = json.loads(json.dumps(dict(facts)))
    return read


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    key = next(key for key in sorted({*before, *now}) if before.get(key) != now.get(key))
    what = "inputs and their keys" if key == "fragments" else key
    was, is_ = _shown(key, before.get(key)), _shown(key, now.get(key))
    return f"Its {what}: {was}; of this query: {is_}."


def _shown(key: str, fact: Any) -> str:
    """A fact in words; what each fragment reads as `stream by keys`, fragment by fragment.

    >>> _shown("fragments", {"0": [["events", None, ["key"]]], "1": [["x0", 0, []]]})
    'events by key, then x0'
    """
    if key != "fragments" or fact is None:
        return str(fact)
    fragments = [
        " and ".join(name + (f" by {', '.join(keys)}" if keys else "") for name, _, keys in inputs)
        for inputs in fact.values()
    ]
    return ", then ".join(fragments)
