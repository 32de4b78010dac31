"""What every kernel of windows does with its groups, whatever loop it runs.

Groups are numbers in an index. Numbers of groups of which nothing is held are given to other groups
at the end of a batch, so that the index does not grow with the stream.
"""

from __future__ import annotations

from abc import abstractmethod

from thalweg.model.rows import Codes
from thalweg.operators.base import Operator
from thalweg.state.key_index import KeyIndex

__all__ = ["WindowOperator"]


class WindowOperator(Operator):
    @property
    @abstractmethod
    def index(self) -> KeyIndex:
        """The numbers of groups."""

    @abstractmethod
    def held_groups(self) -> Codes:
        """The numbers of groups of which something is held, in order."""

    @abstractmethod
    def renumber(self, moved: Codes) -> None:
        """Groups have new numbers, in the same order; -1: the group is forgotten."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything: the last CTI has come."""

    def reuse_numbers(self) -> None:
        """Give the numbers of groups of which nothing is held to other groups."""
        if self.index.is_untidy:
            self.renumber(self.index.keep(self.held_groups()))
