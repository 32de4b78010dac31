"""Durations as advice gives them: rounded, in few digits, and as a policy is written."""

from __future__ import annotations

from thalweg.model.clocks import UNITS

__all__ = ["brief_duration", "duration_text", "round_up"]


def round_up(ticks: int) -> int:
    """A rounder duration, at most a twentieth longer."""
    for _, unit in UNITS:
        if ticks >= 20 * unit:
            return -(-ticks // unit) * unit
    return ticks


def brief_duration(ticks: int) -> str:
    """A duration in three digits.

    >>> brief_duration(3_900_430_030), brief_duration(54_305_738), brief_duration(7)
    ('1.08 h', '54.3 s', '7 us')
    """
    for name, unit in UNITS:
        if ticks >= unit:
            return f"{ticks / unit:.3g} {name}"
    return f"{ticks} us"


def duration_text(ticks: int) -> str:
    """A duration in the largest unit that divides it.

    >>> duration_text(90_000_000), duration_text(120_000_000), duration_text(7)
    ('90 s', '2 min', '7 us')
    """
    for name, unit in UNITS:
        if ticks and ticks % unit == 0:
            return f"{ticks // unit} {name}"
    return f"{ticks} us"
