"""The owner of each checkpoint: the only query or host that runs with it.

The lock file keeps other processes away. In this process a checkpoint has one owner.
"""

from __future__ import annotations

import atexit
import contextlib
from pathlib import Path
from typing import Protocol

from thalweg.errors import StateError
from thalweg.io.locks import lock_file, unlock_file

__all__ = ["Owner", "lock_checkpoint", "own_checkpoint", "unlock_checkpoint"]


class Owner(Protocol):
    """A query or a host that runs with a checkpoint."""

    @property
    def is_open(self) -> bool:
        """Whether it still needs the checkpoint."""

    def stop(self) -> None: ...


_OWNERS: dict[str, Owner] = {}
"""By checkpoint: its owner in this process."""


def lock_checkpoint(checkpoint: Path, owner: Owner | None = None) -> None:
    """Refuse a checkpoint that another query runs with, in this process or another."""
    held = _OWNERS.get(str(checkpoint), owner)
    if held is not None and held is not owner and not held.is_open:
        unlock_checkpoint(checkpoint)
        held = owner
    if held is not owner or not _lock(checkpoint):
        raise StateError(
            f"{checkpoint.name}: another query is running with this checkpoint. Stop it first, or "
            "give this one a checkpoint of its own."
        )


def _lock(checkpoint: Path) -> bool:
    try:
        return lock_file(_lock_of(checkpoint))
    except OSError as reason:
        raise StateError(
            f"{checkpoint}: no checkpoint can be kept there: {reason.strerror or reason}. Give a "
            "folder that can be written."
        ) from reason


def own_checkpoint(checkpoint: Path, owner: Owner) -> None:
    """Register the owner of a locked checkpoint, to be stopped when this process ends."""
    _OWNERS[str(checkpoint)] = owner


def unlock_checkpoint(checkpoint: Path, owner: Owner | None = None) -> None:
    """Unlock a checkpoint; with an `owner`, only if that is still its owner."""
    if owner is not None and _OWNERS.get(str(checkpoint)) is not owner:
        return
    _OWNERS.pop(str(checkpoint), None)
    unlock_file(_lock_of(checkpoint))


def _lock_of(checkpoint: Path) -> Path:
    return checkpoint / "thalweg" / "lock"


@atexit.register
def _stop_all() -> None:
    """Stop all owners when the process ends, so that Spark does not go on calling it."""
    for owner in list(_OWNERS.values()):
        with contextlib.suppress(Exception):
            owner.stop()
