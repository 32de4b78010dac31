"""The base of window kernels: numbers of groups, which are reused.

Groups are numbered in an index. At the end of a batch the numbers of groups of which nothing is
held may be reused, so that the index does not grow with the stream.
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
        """The numbers of groups of which something is held, ascending."""

    @abstractmethod
    def renumber(self, moved: Codes) -> None:
        """Change the numbers of groups to `moved[old]`, in the same order; -1: the group is
        forgotten."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything: the last CTI has come."""

    def reuse_numbers(self) -> None:
        """Reuse the numbers of groups of which nothing is held."""
        if self.index.is_untidy:
            self.renumber(self.index.keep(self.held_groups()))
