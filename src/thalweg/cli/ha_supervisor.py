"""The supervisor of `thalweg ha`: its processes, and the requests of other commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from thalweg.cli.ha_folder import HaFolder, Replica, Supervised
from thalweg.cli.ha_requests import Join, Request, Start, Stop, Switch
from thalweg.cli.ha_table import standing_table
from thalweg.cli.ha_task import Engine, FrontTask, ReplicaTask, task_arguments
from thalweg.cli.priority import end_session, lower_priority, restore_priority
from thalweg.errors import PlanError
from thalweg.model.time import MIN_TIME

__all__ = ["Supervisor"]

_FRONT = "front"
_STANDBY = "standby"
_STARTED_S = 60.0
"""How long a process that starts runs at low priority, at most."""
_GIVEN_UP = 5
"""How often in a row a process may end with an error of its own before it is not started again."""


class Supervisor:
    """Starts the processes of a query with replicas, restarts those that end, and answers
    requests."""

    def __init__(self, folder: HaFolder, file: Path, engine: Engine, *, finish: bool) -> None:
        self._folder, self._file, self._engine, self._finish = folder, file, engine, finish
        self._supervised: Supervised = folder.supervised()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._failures: dict[str, int] = {}
        self._starting: dict[str, tuple[tuple[int, int], float]] = {}
        """Replicas at low priority while they start: what each has sent, and since when."""
        self._noted = ""
        """The processes as they were written down last."""
        self._shown_at = time.monotonic()
        signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))

    # ------------------------------------------------------------------------------------------
    # processes

    def begin(self, replicas: int) -> None:
        self._supervised.pid = os.getpid()
        if not self._supervised.replicas:
            self._add(self._file, replicas, candidate=False)
        for replica in self._supervised.replicas:
            self._start(replica)
        self._start_standby()
        self._promote_standby()
        self._note()

    def _add(
        self, file: Path, count: int, *, candidate: bool, feedback: bool = True
    ) -> list[Replica]:
        names_in_use = {replica.name for replica in self._supervised.replicas} | {
            entry.name for entry in self._folder.registry.entries()
        }
        names = (f"{file.stem}-{n}" for n in range(len(names_in_use) + count))
        free = [name for name in names if name not in names_in_use][:count]
        path = str(file.absolute())
        made = [Replica(name, path, candidate, feedback=feedback) for name in free]
        for replica in made:
            self._folder.registry.attach(
                replica.name, self._folder.log(replica.name), candidate=candidate
            )
        self._supervised.replicas += made
        self._note()  # a supervisor that is killed here finds them again
        return made

    def _start(self, replica: Replica) -> None:
        task = ReplicaTask(
            str(self._folder.path),
            replica.file,
            replica.name,
            self._engine,
            finish=self._finish,
            feedback=replica.feedback,
        )
        child = self._spawn(replica.name, task)
        replica.pid = child.pid
        status = self._folder.status() or {}
        if status.get("begun"):
            lower_priority(child.pid)
            self._starting[replica.name] = _sent(status, replica.name), time.monotonic()

    def _restore_priorities(self) -> None:
        """Give replicas back their priority once they have sent output, or have had the time to."""
        status = self._folder.status() or {}
        for name, (sent, since) in list(self._starting.items()):
            if _sent(status, name) > sent or time.monotonic() - since > _STARTED_S:
                del self._starting[name]
                if name in self._children:
                    restore_priority(self._children[name].pid)

    def _start_standby(self) -> None:
        """Start a merge that loads everything and waits until the front merge has ended."""
        self._spawn(_STANDBY, FrontTask(str(self._folder.path), str(self._file)))

    def _promote_standby(self) -> None:
        """Make the standby the front merge, and start another standby."""
        self._children[_FRONT] = self._children.pop(_STANDBY)
        self._supervised.front_pid = self._children[_FRONT].pid
        self._start_standby()

    def _spawn(self, name: str, task: FrontTask | ReplicaTask) -> subprocess.Popen[bytes]:
        place = self._place(name)
        place.mkdir(parents=True, exist_ok=True)
        with (place / "errors.txt").open("ab") as errors:
            child = subprocess.Popen(
                [sys.executable, "-m", "thalweg.cli.ha_worker", *task_arguments(task)],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        self._children[name] = child
        return child

    def look_after(self) -> bool:
        """Restart what has ended, carry out requests; False when the merge has ended."""
        front = self._children[_FRONT].poll()
        if front == 0:
            return False
        if front is not None:
            self._failed(_FRONT, front)
            self._supervised.front_restarts += 1
            self._promote_standby()
        standby = self._children[_STANDBY].poll()
        if standby is not None and self._failed(_FRONT, standby):
            self._start_standby()
        for replica in self._supervised.replicas:
            code = self._children[replica.name].poll()
            if code is None or code == 0:
                continue
            end_session(self._children[replica.name].pid)
            if self._failed(replica.name, code):
                replica.restarts += 1
                self._start(replica)
        if self._starting:
            self._restore_priorities()
        for request in self._folder.requests(self._supervised.requests):
            self._supervised.requests += 1
            self._answer(request)
        self._note()
        return True

    def _failed(self, name: str, code: int) -> bool:
        """Whether a process that ended is started again: always after a kill, a few times after an
        error of its own."""
        self._failures[name] = 0 if code < 0 else self._failures.get(name, 0) + 1
        if self._failures[name] < _GIVEN_UP:
            return True
        if name == _FRONT or len(self._supervised.replicas) == 1:
            lines = (self._place(name) / "errors.txt").read_text(encoding="utf-8").splitlines()
            raise PlanError(f"{name} ended {_GIVEN_UP} times with an error: {lines[-1:]}.")
        return False

    def _answer(self, request: Request) -> None:
        match request:
            case Start(file, replicas):
                made = self._add(
                    Path(file),
                    replicas,
                    candidate=request.candidate,
                    feedback=request.feedback,
                )
                for replica in made:
                    self._start(replica)
            case Join(names):
                for replica in self._named(names):
                    replica.candidate = False
                    self._folder.registry.detach(replica.name)
                    self._folder.registry.attach(replica.name, self._folder.log(replica.name))
            case Switch():
                self._folder.registry.switch()
                self._stop([r for r in self._supervised.replicas if not r.candidate])
                for replica in self._supervised.replicas:
                    replica.candidate = False
            case Stop(names):
                for name in names:
                    self._folder.registry.detach(name)
                self._stop(self._named(names))

    def _named(self, names: list[str]) -> list[Replica]:
        return [replica for replica in self._supervised.replicas if replica.name in names]

    def _place(self, name: str) -> Path:
        """The folder of a process."""
        is_front = name in (_FRONT, _STANDBY)
        return self._folder.front if is_front else self._folder.replica(name)

    def _stop(self, replicas: list[Replica]) -> None:
        self._supervised.replicas = [r for r in self._supervised.replicas if r not in replicas]
        self._note()
        for replica in replicas:
            _end(self._children.pop(replica.name))

    def end(self) -> None:
        """Stop all processes; what is written stays."""
        last = [_STANDBY, _FRONT]
        for name in [*(name for name in self._children if name not in last), *last]:
            _end(self._children[name])
        self._supervised.pid = 0
        self._note()

    def _note(self) -> None:
        """Write the processes down, unless nothing has changed: writing waits for the disk."""
        now = repr(self._supervised)
        if now != self._noted:
            self._folder.write_supervised(self._supervised)
            self._noted = now

    # ------------------------------------------------------------------------------------------
    # showing

    def is_time(self, every: float) -> bool:
        if time.monotonic() - self._shown_at < every:
            return False
        self._shown_at = time.monotonic()
        return True

    def shown(self, *, as_json: bool) -> str:
        status = self._folder.status() or {"inputs": {}, "leader": None, "cti": MIN_TIME}
        processes = {replica.name: replica for replica in self._supervised.replicas}
        if as_json:
            own = {
                replica.name: {"pid": replica.pid, "restarts": replica.restarts}
                for replica in processes.values()
            }
            front = {"pid": self._supervised.front_pid, "restarts": self._supervised.front_restarts}
            return json.dumps({**status, "replicas": own, "front": front})
        return standing_table(status, processes)


def _sent(status: dict[str, Any], name: str) -> tuple[int, int]:
    """How many elements of a replica the merge has taken, and its last promise."""
    inputs = {**status.get("inputs", {}), **status.get("candidate", {}).get("inputs", {})}
    return (inputs[name]["elements"], inputs[name]["cti"]) if name in inputs else (0, MIN_TIME)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process that was started here."""
    child.terminate()
    try:
        child.wait(20)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
