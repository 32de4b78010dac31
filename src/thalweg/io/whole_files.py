"""Files that exist whole or not at all, and digests of what JSON files say."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

__all__ = ["json_digest", "sync_folder", "write_whole"]


def write_whole(path: Path, data: bytes | str, *, durable: bool = True) -> None:
    """Write a file under another name, then rename it. A reader sees all of it, or what was there
    before. `durable`: it is on the disk when this returns, whatever happens to the machine."""
    draft = path.with_name(f"_{path.name}.{os.getpid()}.tmp")
    with draft.open("wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
        if durable:
            file.flush()
            os.fsync(file.fileno())
    draft.replace(path)


def sync_folder(folder: Path) -> None:
    """Make created, renamed and deleted files of a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def json_digest(value: Any) -> str:
    """A digest of something that JSON can write, whatever the order of its fields.

    >>> json_digest({"a": 1, "b": 2}) == json_digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
