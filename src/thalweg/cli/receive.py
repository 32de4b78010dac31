"""`thalweg receive`: a process that holds an update queue on disk and takes rows from senders."""

from __future__ import annotations

from pathlib import Path

import click

from thalweg.errors import InputError
from thalweg.freshness.receiver_process import run_receiver, stop_receiver
from thalweg.freshness.receiver_settings import Address, ReceiverSettings
from thalweg.model.time import duration_us
from thalweg.progress.conflation import SCHEDULE_NAMES
from thalweg.stream import source

__all__ = ["receive"]


@click.command
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME:TYPE",
    help=(
        "A column of the rows, such as price:float64; may be repeated. A folder that has had a "
        "receiver knows its own."
    ),
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="NAME",
    help="A column of the update key; may be repeated.",
)
@click.option("--time", metavar="NAME", help="The column with the time at which a row was made.")
@click.option(
    "--disorder", metavar="DURATION", help="How much older than the newest row a row may be."
)
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULE_NAMES),
    default="gain",
    show_default=True,
    help="Which of the waiting keys is handed out next.",
)
@click.option("--freshness", metavar="DURATION", help="How old answers may be, such as '2 s'.")
@click.option(
    "--adaptive",
    is_flag=True,
    help="Hand out every row while answers stay within --freshness; beyond that, the newest alone.",
)
@click.option(
    "--capacity",
    type=int,
    default=256 * 2**20,
    show_default=True,
    help="How many bytes of rows are held at most.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=int,
    default=0,
    help="The port; 0: any free one. It is printed.",
)
@click.option("--http", "http_port", type=int, help="Also listen for HTTP, on this port.")
@click.option(
    "--inbox",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also take files (.arrow, .jsonl) that are put into this folder.",
)
@click.option("--stop", is_flag=True, help="End the receiver of the folder; its rows stay.")
def receive(
    folder: Path,
    *,
    columns: tuple[str, ...],
    keys: tuple[str, ...],
    time: str | None,
    disorder: str | None,
    schedule: str,
    freshness: str | None,
    adaptive: bool,
    capacity: int,
    host: str,
    port: int,
    http_port: int | None,
    inbox: Path | None,
    stop: bool,
) -> None:
    """Take rows over TCP, HTTP or a folder, and hold the newest of each key in FOLDER until a query
    on Spark has worked on it."""
    if stop:
        click.echo("ended" if stop_receiver(folder) else "no receiver runs here")
        return
    saved_settings = ReceiverSettings.read(folder)
    settings = saved_settings
    if columns:
        pairs = [column.partition(":") for column in columns]
        settings = ReceiverSettings(
            source("rows", {name: kind for name, _, kind in pairs}).schema,
            keys,
            schedule,
            time,
            None if disorder is None else duration_us(disorder, what="disorder"),
            None if freshness is None else duration_us(freshness, what="freshness"),
            capacity,
            adaptive,
        )
        if saved_settings is not None:
            settings.require_same(saved_settings, folder, running=False)
    if adaptive and freshness is None:
        raise InputError(
            "--adaptive needs --freshness: all rows are handed out while that is kept."
        )
    if settings is None:
        raise InputError(f"{folder}: say what is received: --column NAME:TYPE, and --key NAME.")

    def listening(address: Address) -> None:
        click.echo(f"listening on {address.host}:{address.port}")
        if address.http_port is not None:
            click.echo(f"http://{address.host}:{address.http_port}/rows")

    run_receiver(
        folder,
        settings,
        host=host,
        port=port,
        http_port=http_port,
        inbox=inbox,
        listening=listening,
    )
