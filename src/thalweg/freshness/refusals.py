"""Refusals of a receiver: the reasons under which they are counted, and the error that answers a
sender."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Refusal", "RefusalError", "require_size"]


class Refusal(StrEnum):
    """The reasons under which refusals are counted."""

    CONNECTION_LOST = "connection lost"
    DISK = "disk"
    FRAME_TOO_LARGE = "frame too large"
    HALF_A_FRAME = "half a frame"
    MALFORMED_COMMAND = "malformed command"
    MALFORMED_ROWS = "malformed rows"
    NO_SUCH_PAGE = "no such page"
    ROWS_WITHOUT_ROOM = "rows without room"
    TOO_MANY_CONNECTIONS = "too many connections"
    UNKNOWN_CUT = "unknown cut"
    UNKNOWN_KIND = "unknown kind"
    WRONG_HOST = "wrong host"
    WRONG_MEDIA_TYPE = "wrong media type"
    WRONG_SCHEMA = "wrong schema"


class RefusalError(Exception):
    """The answer to a sender whose frame is refused; `closes` if nothing more can be read after
    it."""

    def __init__(self, reason: Refusal, text: str, *, closes: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        self.closes = closes


def require_size(what: str, size: int, most: int, *, closes: bool = False) -> None:
    """Refuse a frame, body or file of more than `most` bytes."""
    if size > most:
        text = f"a {what} of {size} bytes; at most {most} are taken."
        raise RefusalError(Refusal.FRAME_TOO_LARGE, text, closes=closes)
