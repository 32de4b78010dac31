"""The settings of a receiver, which its folder keeps, and the address at which it listens.

`settings.json` says what the queue holds and how it is scheduled, so that a receiver that ended is
started again with its folder alone. `address.json` says where the one that runs now listens.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from thalweg.errors import ReceiverError, StateError
from thalweg.freshness.durable_queue import DurableQueue
from thalweg.freshness.schedules import schedule_for
from thalweg.io.whole_files import write_whole

__all__ = ["Address", "ReceiverSettings"]

_SETTINGS, _ADDRESS = "settings.json", "address.json"


@dataclass(frozen=True)
class ReceiverSettings:
    """A queue, in words. `time` is the column that says when a row was made, `disorder` how much
    earlier than the newest row a row may be, `freshness` how old an answer may be, in ticks."""

    schema: pa.Schema
    key: tuple[str, ...] = ()
    schedule: str = "gain"
    time: str | None = None
    disorder: int | None = None
    freshness: int | None = None
    capacity: int = 256 * 2**20
    adaptive: bool = False
    """Whether all rows are handed out as long as they can be within `freshness`."""

    def open_queue(self, folder: Path) -> DurableQueue:
        return DurableQueue(
            folder,
            self.schema,
            self.key,
            schedule=schedule_for(self.schedule, self.freshness),
            time=self.time,
            disorder=self.disorder,
            capacity=self.capacity,
            target=self.freshness if self.adaptive else None,
        )

    def require_same(self, other: ReceiverSettings, folder: Path, *, running: bool) -> None:
        """Refuse settings that differ from those of the folder. Schedule, target and capacity may
        change while no receiver runs; the columns of rows and their meaning may not."""
        fixed = ("schema", "key", "time", "disorder")
        names = (*fixed, "schedule", "freshness", "capacity", "adaptive") if running else fixed
        found = [
            f"{name} is {_show(getattr(self, name))} here and {_show(getattr(other, name))} there"
            for name in names
            if getattr(self, name) != getattr(other, name)
        ]
        if found:
            raise StateError(
                f"{folder.name}: the receiver of this folder was told otherwise: "
                f"{'; '.join(found)}. Say the same, or use another folder."
            )

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        settings = {
            name: getattr(self, name)
            for name in (
                "key",
                "schedule",
                "time",
                "disorder",
                "freshness",
                "capacity",
                "adaptive",
            )
        }
        _write(folder / _SETTINGS, {"columns": _show(self.schema), **settings, "schema": schema})

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The settings that a folder keeps; None for a folder that has had no receiver."""
        settings = _read(folder / _SETTINGS)
        if settings is None:
            return None
        try:
            serialized = pa.py_buffer(base64.b64decode(settings["schema"]))
            return cls(
                pa.ipc.read_schema(serialized),
                tuple(settings["key"]),
                settings["schedule"],
                settings["time"],
                settings["disorder"],
                settings["freshness"],
                settings["capacity"],
                settings.get("adaptive", False),
            )
        except (KeyError, TypeError, ValueError, pa.ArrowException) as reason:
            raise StateError(
                f"{folder.name}/{_SETTINGS} is damaged: {reason}. Restore it, or use another "
                "folder."
            ) from reason


@dataclass(frozen=True, slots=True)
class Address:
    """Where the receiver of a folder listens."""

    host: str
    port: int
    pid: int
    queue: str
    """The identity of its queue."""
    http_port: int | None = None

    def write(self, folder: Path) -> None:
        _write(folder / _ADDRESS, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Self:
        address = _read(folder / _ADDRESS)
        if address is None:
            raise ReceiverError(f"{folder}: no receiver has run here; start `thalweg receive`.")
        try:
            return cls(**address)
        except TypeError as reason:
            raise StateError(f"{folder.name}/{_ADDRESS} is damaged: {reason}.") from reason


def _write(path: Path, value: dict[str, Any]) -> None:
    write_whole(path, json.dumps(value, indent=1))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as reason:
        raise StateError(f"{path.name} is damaged: {reason}.") from reason
    return value


def _show(value: object) -> str:
    if isinstance(value, pa.Schema):
        return ", ".join(f"{field.name} {field.type}" for field in value)
    return repr(value)
