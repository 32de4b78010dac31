"""The folder of a query with replicas, through which its processes exchange what they need.

replicas/NAME/     checkpoint and log of one replica
registry/          which logs the merge in front reads
front/             plans, snapshots and the log of the merge: front/out is the answer
requests/          requests of other commands to the supervisor, by number (`ha_requests`)
supervisor.json    which replicas there are, and their processes
status.json        how the merge is doing
"""

from __future__ import annotations

import json
import os
import runpy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from thalweg.cli.ha_requests import Request, request_of_json, request_to_json
from thalweg.errors import InputError, PlanError
from thalweg.io.whole_files import write_whole
from thalweg.merging import MergeRegistry
from thalweg.plan.merging import LevelChoice
from thalweg.plan.nodes import Merge
from thalweg.stream import Stream

__all__ = ["HaFolder", "QueryFile", "Replica", "Supervised"]


@dataclass(frozen=True)
class QueryFile:
    """A Python file with a stream `query` and, if it likes, `options`: arguments of `spark.start`
    such as `consistency`."""

    path: Path
    query: Stream
    options: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> QueryFile:
        names = runpy.run_path(str(path))
        query = names.get("query")
        if not isinstance(query, Stream):
            raise InputError(f"{path.name}: it defines no stream called query.")
        return cls(path, query, dict(names.get("options") or {}))

    @property
    def is_final(self) -> bool:
        return self.options.get("consistency") == "final"

    @property
    def level(self) -> LevelChoice:
        """How replicas of the query are merged. Levels below R3 need an order that logs of several
        buckets do not have."""
        found = Merge((self.query.node,)).choose(final=self.is_final)
        if found.level == "R4":
            return LevelChoice("R4", reason=found.reason)
        groups = Merge((self.query.node,)).choose(final=False).groups
        return LevelChoice("R3", groups, reason=found.reason)


@dataclass
class Replica:
    """One replica, as the supervisor records it."""

    name: str
    file: str
    candidate: bool = False
    pid: int | None = None
    restarts: int = 0
    feedback: bool = True
    """Whether it leaves out what the merge in front has settled; one whose whole history is to be
    compared does not."""


@dataclass
class Supervised:
    """What the supervisor writes down."""

    pid: int = 0
    front_pid: int | None = None
    front_restarts: int = 0
    requests: int = 0
    """How many requests were read."""
    replicas: list[Replica] = field(default_factory=list)


class HaFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def registry(self) -> MergeRegistry:
        return MergeRegistry(self.path / "registry")

    @property
    def front(self) -> Path:
        return self.path / "front"

    def replica(self, name: str) -> Path:
        return self.path / "replicas" / name

    @property
    def settled(self) -> Path:
        """The file with the promise of the merge in front."""
        return self.path / "status.json"

    def log(self, name: str) -> Path:
        return self.replica(name) / "log"

    # ------------------------------------------------------------------------------------------

    def supervised(self) -> Supervised:
        content = self._read("supervisor.json")
        if content is None:
            return Supervised()
        replicas = [Replica(**each) for each in content.pop("replicas")]
        return Supervised(**content, replicas=replicas)

    def write_supervised(self, supervised: Supervised) -> None:
        self._write("supervisor.json", asdict(supervised))

    def status(self) -> dict[str, Any] | None:
        """How the merge is doing; None: nothing is written yet."""
        return self._read("status.json")

    def write_status(self, content: dict[str, Any]) -> None:
        self._write("status.json", content)

    def require_running(self) -> Supervised:
        """The supervisor that is at work here."""
        supervised = self.supervised()
        try:
            os.kill(supervised.pid or -1, 0)
        except (OSError, OverflowError):
            raise PlanError(
                f"{self.path.name}: no query with replicas is running there; start it with "
                "thalweg ha."
            ) from None
        return supervised

    # ------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> None:
        """Ask something of the supervisor."""
        folder = self.path / "requests"
        folder.mkdir(parents=True, exist_ok=True)
        number = len(self._request_files())
        write_whole(folder / f"{number:012d}.json", request_to_json(request))

    def requests(self, first: int) -> list[Request]:
        """The requests from a number on."""
        return [request_of_json(path.read_bytes()) for path in self._request_files()[first:]]

    def _request_files(self) -> list[Path]:
        return sorted((self.path / "requests").glob("[0-9]*.json"))

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            content: dict[str, Any] = json.loads((self.path / name).read_bytes())
        except FileNotFoundError:
            return None
        return content

    def _write(self, name: str, content: dict[str, Any]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / name, json.dumps(content, default=str).encode())
