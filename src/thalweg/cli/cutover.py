"""`thalweg cutover`: replace a query that runs under `thalweg ha` by another one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from thalweg.cli.ha_folder import HaFolder, QueryFile
from thalweg.cli.ha_requests import Join, Start, Stop, Switch
from thalweg.errors import PlanError
from thalweg.model.printing import printable
from thalweg.model.time import MIN_TIME

__all__ = ["cutover"]

T = TypeVar("T")
_LOOK_S = 0.02
_LEVEL_S = 5.0
"""How long NEW may take to be level with the answer; after that one CTI behind will do."""


@click.command
@click.argument("old", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the running `thalweg ha`; OLD.ha by default.",
)
@click.option("-n", "--replicas", default=1, show_default=True, help="How many replicas of NEW.")
@click.option("--back", is_flag=True, help="Go back: NEW runs now, and OLD replaces it.")
@click.option(
    "--equivalent",
    is_flag=True,
    help="OLD and NEW must give the same answers: refused where rows that are final differ.",
)
@click.option(
    "--patience", default=600.0, show_default=True, help="Seconds to wait for NEW to catch up."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def cutover(
    old: Path,
    new: Path,
    *,
    folder: Path | None,
    replicas: int,
    back: bool,
    equivalent: bool,
    patience: float,
    as_json: bool,
) -> None:
    """Start NEW beside OLD, wait until it has come as far, show where their histories differ,
    switch, and stop OLD.

    By default the answers may differ: the table is then OLD's rows that start before t
    and NEW's from t on, where t is what OLD has promised. With --equivalent the two are merged.
    """
    place = HaFolder(folder or old.with_suffix(".ha"))
    if back:
        old, new = new, old
    _require_alike(QueryFile.load(old), QueryFile.load(new))
    replacement = _Replacement.start(place, old, new, replicas, patience)
    result = replacement.merge(old, new) if equivalent else replacement.switch()
    result |= {"stopped": replacement.leaving, "started": replacement.started}
    click.echo(json.dumps(result, default=str) if as_json else printable(_report(result)))


@dataclass
class _Replacement:
    """A cutover in progress: the replicas of OLD (`leaving`), those of NEW (`started`), the last
    two CTIs of the answer, and since when NEW has been one behind."""

    folder: HaFolder
    wait: _Waiting
    leaving: list[str]
    started: list[str]
    ctis: list[int]
    behind_since: float | None = None

    @classmethod
    def start(
        cls, folder: HaFolder, old: Path, new: Path, count: int, patience: float
    ) -> _Replacement:
        """Start replicas of NEW as candidates, whose history is compared with the answer."""
        replicas = folder.require_running().replicas
        leaving = [replica.name for replica in replicas if replica.file == str(old.absolute())]
        if not leaving:
            running = ", ".join(sorted({Path(replica.file).name for replica in replicas}))
            raise PlanError(f"cutover: {old.name} is not what runs there; {running} is.")
        if any(replica.candidate for replica in replicas):
            raise PlanError("cutover: another cutover is on its way there.")
        wait = _Waiting(folder, patience)
        cti = (folder.status() or {"cti": MIN_TIME})["cti"]
        names = {replica.name for replica in replicas}
        # Feedback would leave rows out of the history that is compared.
        folder.ask(Start(str(new.absolute()), count, candidate=True, feedback=False))
        started = wait.until(
            lambda: [r.name for r in folder.supervised().replicas if r.name not in names]
        )
        return cls(folder, wait, leaving, started, [cti])

    def merge(self, old: Path, new: Path) -> dict[str, Any]:
        """Merge NEW with OLD, then stop OLD. Refused where rows that are final in both differ."""
        candidate = self.wait.until(lambda: self._caught_up(joined=False))["candidate"]
        if candidate["final_differences"]:
            self.folder.ask(Stop(self.started))
            raise PlanError(
                f"cutover: {old.name} and {new.name} differ in {candidate['final_differences']} "
                f"rows that are final in both, such as {candidate['first_final_differences'][0]}; "
                "they are not equivalent. NEW was stopped."
            )
        self.folder.ask(Join(self.started))
        self.wait.until(lambda: self._caught_up(joined=True))
        self.folder.ask(Stop(self.leaving))
        self.wait.until(
            lambda: not set(self.leaving) & set((self.folder.status() or {}).get("inputs", {}))
        )
        return {"case": "equivalent", "differences": 0, "first_differences": []}

    def switch(self) -> dict[str, Any]:
        """Answer from NEW instead of OLD, from OLD's CTI on."""
        before = self.wait.until(lambda: self._caught_up(joined=False))
        self.folder.ask(Switch())
        after = self.wait.until(lambda: _switched(self.folder.status(), before["switches"]))
        return {
            "case": "different",
            "switched_at": after["switched_at"],
            "differences": before["candidate"]["differences"],
            "first_differences": before["candidate"]["first_differences"],
        }

    def _caught_up(self, *, joined: bool) -> dict[str, Any] | None:
        """The status of the merge if NEW is level with the answer, so that a switch delays no
        answer, or has been one CTI behind for a while; otherwise None. NEW's CTIs are those of a
        candidate, or, once it has joined, those of an input of the merge."""
        status = self.folder.status() or {}
        if status.get("cti", MIN_TIME) > self.ctis[-1]:
            self.ctis = [self.ctis[-1], status["cti"]]
        inputs = (status if joined else status.get("candidate", {})).get("inputs", {})
        slowest = min(
            inputs[name]["cti"] if name in inputs else MIN_TIME - 1 for name in self.started
        )
        now = time.monotonic()
        if slowest < self.ctis[0]:
            self.behind_since = None
        elif self.behind_since is None:
            self.behind_since = now
        is_level = slowest >= self.ctis[-1]
        waited = self.behind_since is not None and now - self.behind_since >= _LEVEL_S
        return status if is_level or waited else None


def _switched(status: dict[str, Any] | None, before: int) -> dict[str, Any] | None:
    return status if status is not None and status["switches"] > before else None


def _require_alike(old: QueryFile, new: QueryFile) -> None:
    old_schema, new_schema = old.query.node.schema, new.query.node.schema
    if old_schema.names != new_schema.names or old_schema.types != new_schema.types:
        raise PlanError(
            f"cutover: {new.path.name} has the columns {new_schema.names} of {new_schema.types}, "
            f"{old.path.name} has {old_schema.names} of {old_schema.types}; whoever reads the "
            "answers expects those."
        )


class _Waiting:
    """Polls the folder until a time limit."""

    def __init__(self, folder: HaFolder, patience: float) -> None:
        self._folder, self._deadline = folder, time.monotonic() + patience

    def until(self, read: Callable[[], T | None]) -> T:
        """Call `read` until its value is true, and return that value."""
        while True:
            value = read()
            if value:
                return value
            self._folder.require_running()
            if time.monotonic() > self._deadline:
                raise PlanError(
                    "cutover: NEW has not caught up within --patience; OLD goes on, and NEW beside "
                    "it."
                )
            time.sleep(_LOOK_S)


def _report(result: dict[str, Any]) -> str:
    lines = [f"{result['differences']} rows that are final in both differ"]
    lines += [f"  {row}" for row in result["first_differences"]]
    if result["case"] == "different":
        lines.append(f"switched at {result['switched_at']}: earlier rows stay as they are")
    lines.append(f"stopped {', '.join(result['stopped'])}; running {', '.join(result['started'])}")
    return "\n".join(lines)
