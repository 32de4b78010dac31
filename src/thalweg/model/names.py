"""Names of columns that the system adds to users' rows: names that no user can have.

An internal name begins with a unit separator, a character that is refused in the names of users'
columns. So a user's column may be called `n`, `c0`, `_of0` or anything else.
"""

from __future__ import annotations

__all__ = ["INTERNAL", "internal", "is_internal"]

INTERNAL = "\x1f"


def internal(name: str) -> str:
    """
    >>> internal("rows")
    '\\x1frows'
    """
    return INTERNAL + name


def is_internal(name: str) -> bool:
    return name.startswith(INTERNAL)
