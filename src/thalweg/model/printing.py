"""Text from outside on its way to a terminal: what would steer the terminal is written out."""

from __future__ import annotations

import re

__all__ = ["printable"]

_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Control characters (line ends and tabs aside) and marks that turn the direction of writing,
    as escapes.

    >>> printable("red \\x1b[31m\\ttab")
    'red \\\\x1b[31m\\ttab'
    """
    return _STEERING.sub(lambda found: _escape(found[0]), text.replace("\r\n", "\n"))


def _escape(mark: str) -> str:
    code = ord(mark)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
