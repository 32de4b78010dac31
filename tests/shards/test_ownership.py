"""One owner for a checkpoint in a process, and in all processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from thalweg.errors import StateError
from thalweg.shards.checkpoint.ownership import lock_checkpoint, own_checkpoint, unlock_checkpoint


@dataclass(eq=False)
class Owner:
    is_open: bool = True

    def stop(self) -> None:
        self.is_open = False


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    owner = Owner()
    lock_checkpoint(tmp_path, owner)
    own_checkpoint(tmp_path, owner)
    return owner


def test_a_host_or_a_query_that_is_open_keeps_others_of_its_process_away(
    tmp_path: Path, owner: Owner
) -> None:
    for other in (None, Owner()):
        with pytest.raises(StateError, match="another query is running with this checkpoint"):
            lock_checkpoint(tmp_path, other)
    lock_checkpoint(tmp_path, owner)
    unlock_checkpoint(tmp_path, owner)


def test_one_that_has_ended_lets_others_run(tmp_path: Path, owner: Owner) -> None:
    owner.is_open = False
    later = Owner()
    lock_checkpoint(tmp_path, later)
    own_checkpoint(tmp_path, later)
    unlock_checkpoint(tmp_path, owner)  # it has no checkpoint any more
    with pytest.raises(StateError, match="another query is running"):
        lock_checkpoint(tmp_path)
    unlock_checkpoint(tmp_path, later)
    lock_checkpoint(tmp_path)
    unlock_checkpoint(tmp_path)
