"""The clock that moves by hand."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from thalweg.testing import FakeClock


def test_it_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(datetime(1970, 1, 1, 0, 0, 1))
    assert (clock(), clock()) == (1_000_000, 1_000_000)
    assert clock.advance(timedelta(milliseconds=5)) == clock() == 1_005_000
    assert clock.advance(3) == clock() == 1_005_003


def test_it_does_not_go_back() -> None:
    clock = FakeClock(10)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="it is 10; asked for 9"):
        clock.advance_to(9)
    assert clock.advance_to(10) == 10
