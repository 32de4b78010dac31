"""The kinds of join: which rows of an answer each of them has.

| kind | pairs | left rows where they match | left rows alone | right rows alone |
| --- | --- | --- | --- | --- |
| inner | yes | | | |
| left | yes | | yes | |
| right | yes | | | yes |
| full | yes | | yes | yes |
| semi | | yes | | |
| anti | | | yes | |

Everything else about a kind follows from these four facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from thalweg.errors import require_choice

__all__ = ["ASOF_KINDS", "JOIN_KINDS", "JoinKind", "JoinName", "join_kind"]

JoinName = Literal["inner", "left", "right", "full", "semi", "anti"]
"""What `how=` takes."""


@dataclass(frozen=True, slots=True)
class JoinKind:
    """Which rows the answer of a join has."""

    pairs: bool
    """A row for each match, made of both sides."""
    left_matched: bool
    """Left rows as they are, where they have a match."""
    left_alone: bool
    """Left rows where they have no match."""
    right_alone: bool
    """Right rows where they have no match."""

    @property
    def only_pairs(self) -> bool:
        """Whether no row stands alone: what has been matched once stays matched."""
        return self.pairs and not (self.left_alone or self.right_alone)

    @property
    def only_left_rows(self) -> bool:
        """Whether the answer consists of left rows, whole or in pieces, with their own columns."""
        return not self.pairs

    @property
    def left_in_all(self) -> bool:
        """Whether every row of the answer has a left row in it."""
        return not self.right_alone

    @property
    def right_in_all(self) -> bool:
        """Whether every row of the answer has a right row in it."""
        return self.pairs and not self.left_alone

    @property
    def preserved(self) -> tuple[bool, bool]:
        """The sides whose rows are part of the answer by themselves."""
        return self.left_matched or self.left_alone, self.right_alone

    @property
    def stamps(self) -> tuple[str, ...]:
        """The times that an answer of a window join may start at: of those of its two rows."""
        if self.only_pairs:
            return "later", "earlier", "left", "right"
        sides = (("left", self.left_in_all), ("right", self.right_in_all))
        return "later", *(side for side, is_there in sides if is_there)


JOIN_KINDS: Mapping[str, JoinKind] = {
    "inner": JoinKind(pairs=True, left_matched=False, left_alone=False, right_alone=False),
    "left": JoinKind(pairs=True, left_matched=False, left_alone=True, right_alone=False),
    "right": JoinKind(pairs=True, left_matched=False, left_alone=False, right_alone=True),
    "full": JoinKind(pairs=True, left_matched=False, left_alone=True, right_alone=True),
    "semi": JoinKind(pairs=False, left_matched=True, left_alone=False, right_alone=False),
    "anti": JoinKind(pairs=False, left_matched=False, left_alone=True, right_alone=False),
}

ASOF_KINDS = tuple(name for name, kind in JOIN_KINDS.items() if kind.pairs and kind.left_in_all)
"""An as-of join answers every left row, with its match or alone."""


def join_kind(how: str, what: str, names: tuple[str, ...] = tuple(JOIN_KINDS)) -> JoinKind:
    """The kind of this name; `names` are those that are possible for `what`.

    >>> join_kind("left", "join").preserved, join_kind("full", "window_join").stamps
    ((True, False), ('later',))
    """
    require_choice(how, names, f"{what}: how")
    return JOIN_KINDS[how]
