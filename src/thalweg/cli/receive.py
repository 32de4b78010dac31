"""`thalweg receive`: a process that holds an update queue on disk and takes rows over TCP."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import click

from thalweg.freshness.durable_queue import DurableQueue
from thalweg.freshness.receiver import Receiver
from thalweg.progress.conflation import SCHEDULE_NAMES
from thalweg.stream import source

__all__ = ["receive"]


@click.command
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--column",
    "columns",
    multiple=True,
    required=True,
    metavar="NAME:TYPE",
    help="A column of the rows, such as price:float64; may be repeated.",
)
@click.option("--key", "keys", multiple=True, metavar="NAME", help="A column of the update key.")
@click.option("--schedule", type=click.Choice(SCHEDULE_NAMES), default="gain", show_default=True)
@click.option("--capacity", type=int, default=256 * 2**20, show_default=True, help="Bytes.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=int, default=0, help="0: one that is free; it is printed.")
def receive(
    folder: Path,
    *,
    columns: tuple[str, ...],
    keys: tuple[str, ...],
    schedule: str,
    capacity: int,
    host: str,
    port: int,
) -> None:
    """Hold the newest row of each key in FOLDER, and hand out cuts of them."""
    pairs = [column.partition(":") for column in columns]
    schema = source("rows", {name: kind for name, _, kind in pairs}).schema
    queue = DurableQueue(folder, schema, keys, schedule=schedule, capacity=capacity)
    receiver = Receiver(queue, now=lambda: time.time_ns() // 1_000)

    async def serve() -> None:
        server = await receiver.start(host, port)
        address = server.sockets[0].getsockname()
        click.echo(f"listening on {address[0]}:{address[1]}")
        async with server:
            await server.serve_forever()

    try:
        asyncio.run(serve())
    finally:
        queue.close()
