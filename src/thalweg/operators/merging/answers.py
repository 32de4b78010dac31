"""Versions of answers: rows of one group and start, of which an output shows at most one.

A revised count is another payload. By payload alone, two replicas that are revised at different
times would show two rows for one window until a CTI settles it. Here every row has the number of
the answer (group and start) it is a version of, and every answer the version that is shown."""

from __future__ import annotations

import numpy as np

from thalweg.model.digests import Digests
from thalweg.model.rows import Bools, Codes
from thalweg.model.sorting import distinct
from thalweg.operators.merging.chains import distinct_digests
from thalweg.operators.merging.digest_table import DigestTable, grown

__all__ = ["Answers"]


class Answers:
    """Slots of rows, by answer."""

    def __init__(self) -> None:
        self._table = DigestTable()
        self._answer: Codes = np.full(self._table.capacity, -1)
        """By slot of a row: its answer."""
        self._versions: Codes = np.zeros(self._table.capacity, np.int64)
        self._shown: Codes = np.full(self._table.capacity, -1)

    @property
    def nbytes(self) -> int:
        columns = (self._answer, self._versions, self._shown)
        return self._table.nbytes + sum(column.nbytes for column in columns)

    def add(self, slots: Codes, digests: Digests) -> None:
        """Rows that are new, with the digest of their group and start."""
        answers = self._table.find(digests)
        fresh = np.flatnonzero(answers < 0)
        if len(fresh):
            first, codes = distinct_digests(digests.take(fresh))
            answers[fresh] = self._table.add(digests.take(fresh[first]))[codes]
            self._versions = grown(self._versions, self._table.capacity)
            self._shown = grown(self._shown, self._table.capacity, -1)
        size = len(self._answer)
        while size <= int(slots.max()):
            size *= 2
        self._answer = grown(self._answer, size, -1)
        self._answer[slots] = answers
        np.add.at(self._versions, answers, 1)

    def remove(self, slots: Codes) -> None:
        """Rows that are dropped; an answer without versions is dropped with them."""
        if not len(slots):
            return
        self.take_back(slots)
        answers = self._answer[slots]
        np.subtract.at(self._versions, answers, 1)
        self._table.remove(distinct(answers[self._versions[answers] == 0]))
        self._answer[slots] = -1

    def show(self, slots: Codes) -> None:
        """These versions are now shown."""
        self._shown[self._answer[slots]] = slots

    def take_back(self, slots: Codes) -> None:
        """These versions are not shown any more."""
        answers = self._answer[slots]
        self._shown[answers[self._shown[answers] == slots]] = -1

    def shown(self, slots: Codes) -> Codes:
        """For each row the version of its answer that is shown; -1 for none."""
        return self._shown[self._answer[slots]]

    def newest(self, slots: Codes, among: Bools) -> Bools:
        """Which rows are the last of their answer, among some of them."""
        which = np.flatnonzero(among)
        answers = self._answer[slots[which]]
        _, last = np.unique(answers[::-1], return_index=True)
        newest = np.zeros(len(slots), np.bool_)
        newest[which[len(which) - 1 - last]] = True
        return newest
