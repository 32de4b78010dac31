"""Where chains of rows begin."""

from __future__ import annotations

from thalweg.model.rows import Codes

__all__ = ["chain_roots"]


def chain_roots(before: Codes) -> Codes:
    """The first row of each row's chain; `before` is the row that it continues, or itself. The
    distance that is looked back doubles with each turn.

    >>> import numpy as np
    >>> chain_roots(np.array([0, 0, 1, 3])).tolist()
    [0, 0, 0, 3]
    """
    while True:
        further = before[before]
        if (further == before).all():
            return before
        before = further
