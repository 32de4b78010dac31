"""The table of `thalweg ha`: how far each replica is, and who leads by how much."""

from __future__ import annotations

from typing import Any

from thalweg.cli.ha_folder import Replica
from thalweg.model.time import INFINITY, MIN_TIME

__all__ = ["standing_table"]


def standing_table(status: dict[str, Any], processes: dict[str, Replica]) -> str:
    """Who leads by how much, as `thalweg ha` shows it."""
    inputs = {**status["inputs"], **status.get("candidate", {}).get("inputs", {})}
    rows = [
        ("replica", "process", "restarts", "promised", "ahead of the others", "led", "elements")
    ]
    for name, each in inputs.items():
        others = [other["cti"] for key, other in inputs.items() if key != name]
        replica = processes.get(name)
        rows.append(
            (
                f"{name} leads" if name == status["leader"] else name,
                "-" if replica is None else str(replica.pid),
                "-" if replica is None else str(replica.restarts),
                _time(each["cti"]),
                _lead(each["cti"], max(others, default=MIN_TIME)),
                str(each["led"]),
                f"{each['elements']:,}",
            )
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(
        [*(line.rstrip() for line in lines), f"final up to {_time(status['cti'])}", ""]
    )


def _time(time_: int) -> str:
    return "nothing yet" if time_ <= MIN_TIME else "the end" if time_ >= INFINITY else f"{time_:,}"


def _lead(own: int, others: int) -> str:
    if MIN_TIME in (own, others) or INFINITY in (own, others):
        return "-" if own in (others, MIN_TIME) else "all"
    return f"{own - others:+,}"
