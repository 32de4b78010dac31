"""`thalweg advise`: how disordered a recorded stream is, what slack buys and costs, and which
policy fits."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from thalweg.errors import InputError, UnknownColumnError
from thalweg.io.events import events
from thalweg.model.clocks import brief_duration
from thalweg.model.time import Times, duration_us
from thalweg.run.advice import Advice
from thalweg.run.advice import advise as measure

__all__ = ["advice_of", "advise", "draw", "read_source", "report"]

_READERS: dict[str, Callable[[Path], pa.Table]] = {
    ".parquet": pq.read_table,
    ".csv": pyarrow.csv.read_csv,
    ".json": pyarrow.json.read_json,
    ".jsonl": pyarrow.json.read_json,
}

UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000}


def read_source(source: Path) -> pa.Table:
    """A file, or all files of a folder in the order of their names."""
    files = (
        sorted(file for file in source.iterdir() if file.suffix in _READERS)
        if source.is_dir()
        else [source]
    )
    if not files or any(file.suffix not in _READERS or not file.exists() for file in files):
        raise InputError(f"{source}: there is no {', '.join(_READERS)} file to read.")
    try:
        return pa.concat_tables(
            [_READERS[file.suffix](file) for file in files], promote_options="default"
        )
    except (pa.ArrowException, OSError) as reason:
        raise InputError(f"{source.name} cannot be read: {reason}.") from reason


def advice_of(
    table: pa.Table,
    time: str,
    *,
    arrival: str | None,
    key: str | None,
    target: float,
    window: int | None,
    slacks: Sequence[int] = (),
    unit: str = "us",
) -> Advice:
    """Measure the rows of a table, in the order of `arrival` or as they stand."""
    for name in (time, arrival, key):
        if name is not None and name not in table.schema.names:
            raise UnknownColumnError(name, table.schema.names, "advise")
    for name in (time, *([arrival] if arrival is not None else [])):
        table = table.filter(table.column(name).is_valid())
    if arrival is not None:
        order = np.argsort(_ticks(table, arrival), kind="stable")
        table = table.take(pa.array(order))
    keys = None if key is None else table.column(key).combine_chunks()
    return measure(
        _ticks(table, time) * UNITS[unit], target=target, window=window, keys=keys, slacks=slacks
    )


def _ticks(table: pa.Table, name: str) -> Times:
    column = table.column(name)
    if pa.types.is_timestamp(column.type):
        table = table.set_column(
            table.schema.names.index(name),
            name,
            column.cast(pa.timestamp("us", column.type.tz), safe=False),
        )
    ticks: Times = events(table.select([name]), name).column("_start").to_numpy()
    return ticks


def report(advice: Advice) -> str:
    """The advice as text."""
    disorder = (
        f"{advice.disordered:.2%} came after a newer one, overtaken by up to {advice.overtaken:,} "
        "rows"
    )
    lines = [
        f"{advice.rows:,} rows over {brief_duration(advice.span)}; {disorder}",
        "",
        (
            f"{'slack':>14}  {'on time':>9}  {'late rows':>11}  {'latency':>14}  {'at worst':>14} "
            f" {'rows held':>11}  {'at most':>11}"
        ),
    ]
    lines += [
        f"{brief_duration(point.slack):>14}  {point.completeness:>9.4%}  {point.late:>11,} "
        f" {brief_duration(point.latency):>14}  {brief_duration(point.latency_worst):>14} "
        f" {point.state:>11,.0f}  {point.state_most:>11,}"
        for point in advice.curve
    ]
    return "\n".join(
        [
            *lines,
            "",
            f"proposed: progress={advice.policy}",
            *(f"  {reason}" for reason in advice.reasons),
        ]
    )


def draw(advice: Advice, path: Path, title: str) -> None:
    """The curve as a picture: slack against completeness, latency and state."""
    try:
        import matplotlib as mpl
    except ImportError as reason:
        raise InputError("a picture needs matplotlib: pip install 'thalweg[plot]'.") from reason
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    seconds = [point.slack / 1e6 for point in advice.curve]
    panels: list[tuple[str, list[float]]] = [
        ("rows on time (%)", [100 * point.completeness for point in advice.curve]),
        ("latency of final answers (s)", [point.latency / 1e6 for point in advice.curve]),
        ("rows held", [point.state for point in advice.curve]),
    ]
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6))
    for axis, (name, values) in zip(np.ravel(axes), panels, strict=True):
        axis.plot(seconds, values, marker="o")
        axis.axvline(advice.slack / 1e6, linestyle="--", color="grey")
        axis.set_xscale(
            "symlog", linthresh=max(min([s for s in seconds if s > 0], default=1.0), 1e-6)
        )
        axis.set_xlabel("slack (s)")
        axis.set_title(name)
    figure.suptitle(f"{title}: {advice.policy}")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def _lines(advice: Advice) -> list[dict[str, Any]]:
    """One object for each point of the curve, and one for the proposal."""
    fields = advice.to_json()
    curve = fields.pop("curve")
    return [*({"advice": "point", **point} for point in curve), {"advice": "policy", **fields}]


@click.command("advise")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--time", required=True, metavar="COLUMN", help="The column with the time of each row."
)
@click.option(
    "--unit",
    type=click.Choice(list(UNITS)),
    default="us",
    show_default=True,
    help="The unit of times that are whole numbers.",
)
@click.option(
    "--arrival",
    metavar="COLUMN",
    help="The column that gives the order of arrival; without it, the order of the rows.",
)
@click.option(
    "--key",
    metavar="COLUMN",
    help="The column that says where a row comes from, to find clocks that are far ahead.",
)
@click.option(
    "--complete",
    "target",
    default=0.999,
    show_default=True,
    help="The share of rows that should be on time, from 0 to 1.",
)
@click.option(
    "--window",
    metavar="DURATION",
    help=(
        "The length of the windows whose latency is measured; by default a hundredth of the whole."
    ),
)
@click.option(
    "--slack",
    "slacks",
    multiple=True,
    metavar="DURATION",
    help="One more slack (how late rows may be) to measure; may be repeated.",
)
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the curve.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def advise(
    source: Path,
    time: str,
    *,
    unit: str,
    arrival: str | None,
    key: str | None,
    target: float,
    window: str | None,
    slacks: tuple[str, ...],
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure how far the rows of SOURCE, a file or a folder, are out of order, and propose a
    policy for a source of such rows."""
    length = None if window is None else duration_us(window, what="--window")
    others = [duration_us(slack, what="--slack") for slack in slacks]
    advice = advice_of(
        read_source(source),
        time,
        arrival=arrival,
        key=key,
        target=target,
        window=length,
        slacks=others,
        unit=unit,
    )
    if plot is not None:
        draw(advice, plot, source.stem)
    if as_json:
        for line in _lines(advice):
            click.echo(json.dumps(line))
    else:
        click.echo(report(advice))
