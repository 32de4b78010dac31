"""Record connections: a server and its clients on the loopback interface, logged as a sensor logs.

`examples/data/connections.parquet` was made by this. Clients of eight addresses connect, send and
wait; each connection is written down when it ends, with its start, so that the log is in order of
ends and out of order by starts. Run it again for a recording of your own:

    python -m examples.record_connections connections.parquet
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

SECONDS = 40
CLIENTS = 8
SERVICES = ("http", "ssh", "dns")
SCHEMA = pa.schema(
    [
        ("start", pa.timestamp("us", "UTC")),
        ("end", pa.timestamp("us", "UTC")),
        ("src", pa.string()),
        ("service", pa.string()),
        ("bytes", pa.int64()),
    ]
)


async def record(seconds: float) -> pa.Table:
    """What the server logged in so many seconds."""
    log: list[tuple[datetime, datetime, str, str, int]] = []

    def serve(
        service: str,
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            start = datetime.now(UTC)
            received = 0
            while data := await reader.read(65_536):
                received += len(data)
            source = writer.get_extra_info("peername")[0]
            log.append((start, datetime.now(UTC), source, service, received))
            writer.close()

        return connection

    servers = [await asyncio.start_server(serve(name), "127.0.0.1", 0) for name in SERVICES]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    until = asyncio.get_running_loop().time() + seconds
    await asyncio.gather(*(_client(number, ports, until) for number in range(CLIENTS)))
    for server in servers:
        server.close()
    columns = [
        pa.array(values, field.type)
        for values, field in zip(zip(*log, strict=True), SCHEMA, strict=True)
    ]
    return pa.table(columns, schema=SCHEMA)


async def _client(number: int, ports: list[int], until: float) -> None:
    """Connections of one address, more of them the lower its number; most are short, a few stay
    open for many seconds."""
    loop = asyncio.get_running_loop()
    chance = random.Random(number)
    busy = []
    while loop.time() < until:
        lasts = min(chance.lognormvariate(-2, 1.8), until - loop.time())
        busy.append(asyncio.create_task(_connect(number, chance.choice(ports), lasts, chance)))
        await asyncio.sleep(chance.expovariate(16 / (number + 1)))
    await asyncio.gather(*busy)


async def _connect(number: int, port: int, lasts: float, chance: random.Random) -> None:
    source = (f"127.0.0.{number + 2}", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=source)
    for _ in range(3):
        writer.write(bytes(chance.randrange(40, 4_000)))
        await asyncio.sleep(max(lasts, 0) / 3)
    writer.close()
    await writer.wait_closed()


if __name__ == "__main__":
    pq.write_table(asyncio.run(record(SECONDS)), sys.argv[1])
