"""`thalweg cutover`: replace a query that runs under `thalweg ha` by another one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from thalweg.cli.ha_folder import HaFolder, QueryFile
from thalweg.errors import PlanError
from thalweg.model.printing import printable
from thalweg.model.time import MIN_TIME

__all__ = ["cutover"]

T = TypeVar("T")
_LOOK_S = 0.1


@click.command
@click.argument("old", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Of the thalweg ha that runs; OLD.ha by default.",
)
@click.option("-n", "--replicas", default=1, show_default=True, help="How many replicas of NEW.")
@click.option("--back", is_flag=True, help="Go back: OLD replaces NEW.")
@click.option(
    "--equivalent",
    is_flag=True,
    help="Both mean the same table; refused where their histories differ.",
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
    """Start NEW beside OLD, wait until it has come as far, show where their histories differ, switch,
    and stop OLD.

    Unless told otherwise the answers may differ: the table is then OLD's rows that start before t
    and NEW's from t on, where t is what OLD has promised. With --equivalent the two are merged.
    """
    place = HaFolder(folder or old.with_suffix(".ha"))
    if back:
        old, new = new, old
    _require_alike(QueryFile.load(old), QueryFile.load(new))
    known = place.require_running()
    leaving = [r.name for r in known.replicas if r.file == str(old.absolute())]
    if not leaving:
        running = ", ".join(sorted({Path(r.file).name for r in known.replicas}))
        raise PlanError(f"cutover: {old.name} is not what runs there; {running} is.")
    if any(replica.candidate for replica in known.replicas):
        raise PlanError("cutover: another cutover is on its way there.")
    wait = _Waiting(place, patience)
    promised = [(place.status() or {"cti": MIN_TIME})["cti"]]
    names = {replica.name for replica in known.replicas}
    request = {"start": str(new.absolute()), "n": replicas, "candidate": True}
    place.ask({**request, "feedback": False})  # its history is compared
    coming = wait.until(
        lambda: [r.name for r in place.supervised().replicas if r.name not in names]
    )

    def caught_up(*, joined: bool) -> dict[str, Any] | None:
        """How the merge is doing, once NEW is at most one promise behind the answer, so that a
        switch makes nobody wait. As a candidate NEW is only compared with what was shown, joined it
        is an input like the others."""
        status = place.status() or {}
        if status.get("cti", MIN_TIME) > promised[-1]:
            promised[:] = [promised[-1], status["cti"]]
        inputs = (status if joined else status.get("candidate", {})).get("inputs", {})
        there = [name for name in coming if name in inputs and inputs[name]["cti"] >= promised[0]]
        return status if len(there) == len(coming) else None

    status = wait.until(lambda: caught_up(joined=False))
    if equivalent:
        count, first = (status["candidate"][f"{n}final_differences"] for n in ("", "first_"))
        if count:
            place.ask({"stop": coming})
            raise PlanError(
                f"cutover: {old.name} and {new.name} differ in {count} rows that are final in both, "
                f"such as {first[0]}; they are not equivalent. NEW was stopped."
            )
        place.ask({"join": coming})
        wait.until(lambda: caught_up(joined=True))
        place.ask({"stop": leaving})
        wait.until(lambda: not set(leaving) & set((place.status() or {}).get("inputs", {})))
        result: dict[str, Any] = {"case": "equivalent", "differences": 0, "first_differences": []}
    else:
        count, first = status["candidate"]["differences"], status["candidate"]["first_differences"]
        place.ask({"switch": True})
        done = wait.until(lambda: _switched(place.status(), status["switches"]))
        result = {"case": "different", "switched_at": done["switched_at"]}
        result |= {"differences": count, "first_differences": first}
    result |= {"stopped": leaving, "started": coming}
    click.echo(json.dumps(result, default=str) if as_json else printable(_told(result)))


def _switched(status: dict[str, Any] | None, before: int) -> dict[str, Any] | None:
    return status if status is not None and status["switches"] > before else None


def _require_alike(old: QueryFile, new: QueryFile) -> None:
    old_schema, new_schema = old.query.node.schema, new.query.node.schema
    if old_schema.names != new_schema.names or old_schema.types != new_schema.types:
        raise PlanError(
            f"cutover: {new.path.name} has the columns {new_schema.names} of {new_schema.types}, {old.path.name} has "
            f"{old_schema.names} of {old_schema.types}; whoever reads the answers expects those."
        )


class _Waiting:
    def __init__(self, folder: HaFolder, patience: float) -> None:
        self._folder, self._last = folder, time.monotonic() + patience

    def until(self, found: Callable[[], T | None]) -> T:
        """Look until something is there."""
        while True:
            value = found()
            if value:
                return value
            self._folder.require_running()
            if time.monotonic() > self._last:
                raise PlanError("cutover: patience is at an end; OLD goes on, and NEW beside it.")
            time.sleep(_LOOK_S)


def _told(result: dict[str, Any]) -> str:
    lines = [f"{result['differences']} rows that are final in both differ"]
    lines += [f"  {row}" for row in result["first_differences"]]
    if result["case"] == "different":
        lines.append(f"switched at {result['switched_at']}: earlier rows stay as they are")
    lines.append(f"stopped {', '.join(result['stopped'])}; running {', '.join(result['started'])}")
    return "\n".join(lines)
