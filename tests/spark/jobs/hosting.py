"""A driver script: a host over files that keep arriving, whose queries come and go by commands.

A command is a file `commands/NAME.json`, {"add": query} or {"remove": query} or {"replace": query};
`acks/NAME` is there when the host has returned from it. Start the script again and it goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from tests.spark.jobs.streams import EVENTS, RATES, query
from thalweg import spark as ts
from thalweg.errors import ThalwegError
from thalweg.model.cht import Row
from thalweg.plan.nodes import Source, find
from thalweg.shards.host.query_registry import HostedQuery, QueryRegistry, queries_at
from thalweg.spark import SparkHost
from thalweg.stream import Stream

__all__ = [
    "acknowledged",
    "answers",
    "command",
    "expected",
    "hosted",
    "open_host",
    "perform",
    "source",
    "unacknowledged",
]

STAGES = 2


def open_host(folder: Path) -> SparkHost:
    """The host of a folder, with the sources of its queries."""
    sources = [source(folder, name) for name in ("events", "rates")]
    return ts.host(*sources, checkpoint=str(_checkpoint(folder)), stages=STAGES, buckets=2)


def _checkpoint(folder: Path) -> Path:
    return folder / "checkpoints" / "host"


def source(folder: Path, name: str) -> Stream:
    """One of the two sources, as the host has it."""
    return Stream(next(n for n in find(query(folder, "priced").node, Source) if n.name == name))


def command(folder: Path, number: int, move: dict[str, str]) -> Path:
    """Write a command; the file that acknowledges it."""
    file = folder / "commands" / f"{number:04}.json"
    file.parent.mkdir(exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(move))
    temporary.rename(file)
    return folder / "acks" / file.stem


def perform(host: SparkHost, folder: Path, command: dict[str, str]) -> None:
    """Do what a command says. One that was done before the script ended is not done again."""
    ((move, name),) = command.items()
    kind = name.split("-")[0]
    if move == "remove" and name in host.queries:
        host.remove(name)
    if move == "replace" and name in host.queries:
        host.replace(name, query(folder, kind), partial=True)
    if move == "add" and name not in host.queries:
        path = folder / "answers" / name
        host.add(name, query(folder, kind), to="parquet", path=str(path), partial=True)


def hosted(folder: Path) -> dict[str, HostedQuery]:
    """By name: the queries that the checkpoint says run."""
    registry = QueryRegistry(_checkpoint(folder) / "thalweg" / "queries")
    return {query.name: query for query in queries_at(registry.changes()).values()}


def acknowledged(folder: Path) -> set[str]:
    """The queries that commands which were acknowledged leave."""
    names: set[str] = set()
    for file in sorted((folder / "commands").glob("*.json")):
        if (folder / "acks" / file.stem).exists():
            ((move, name),) = json.loads(file.read_text()).items()
            names = names - {name} if move == "remove" else names | {name}
    return names


def unacknowledged(folder: Path) -> list[dict[str, str]]:
    """The commands that may have been done or not."""
    files = sorted((folder / "commands").glob("*.json"))
    left = [file for file in files if not (folder / "acks" / file.stem).exists()]
    return [json.loads(file.read_text()) for file in left]


def _first_files(folder: Path, version: int) -> dict[str, int]:
    """By source: the number of the first file that was read for a version, as the offsets say."""
    offsets = _checkpoint(folder) / "offsets"
    first: dict[str, int] = {}
    before = {"events": 0, "rates": 0}
    for batch in sorted(int(path.name) for path in offsets.iterdir() if path.name.isdigit()):
        lines = (offsets / str(batch)).read_text().splitlines()[2:]
        for name, line in zip(("events", "rates"), lines, strict=True):
            told = json.loads(line)
            if told["version"] >= version and name not in first:
                first[name] = before[name]
            before[name] = told["inner"]["n"]
    return first


def expected(folder: Path, name: str) -> list[Row]:
    """The final table of a query over the files that were read for its version and later ones."""
    first = _first_files(folder, hosted(folder)[name].version)
    read = {
        source: pa.concat_tables(
            [
                columns.empty_table(),
                *(
                    pq.read_table(path)
                    for path in sorted((folder / source).glob("*.parquet"))[first[source] :]
                ),
            ]
        )
        for source, columns in (("events", EVENTS), ("rates", RATES))
    }
    inputs = {"events": tw.events(read["events"], "ts")}
    if name.split("-", maxsplit=1)[0] != "windows":
        inputs["rates"] = tw.events(read["rates"], "since", "till")
    return list(tw.table(query(folder, name.split("-", maxsplit=1)[0]), inputs))


def answers(folder: Path, name: str) -> list[Row]:
    """The table that the change log of a query says. Its micro-batches are all there, and whole."""
    written = folder / "answers" / name
    numbers = sorted(int(path.name.removeprefix("batch=")) for path in written.glob("batch=*"))
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return tw.cht(
        (change for number in numbers for change in _changes(written / f"batch={number}")),
        query(folder, name.split("-", maxsplit=1)[0]).schema,
    )


def _changes(batch: Path) -> Iterator[tw.Element]:
    assert (batch / "_SUCCESS").exists(), f"{batch.name} is not whole"
    for part in sorted(batch.glob("part-*.parquet")):
        for row in pq.ParquetFile(part).read().to_pylist():
            kind, start, end, new_end = (
                row.pop(column) for column in ("_kind", "_start", "_end", "_new_end")
            )
            if kind == "insert":
                yield tw.insert(row, start, end)
            else:
                yield tw.adjust(row, start, end, new_end)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    spark = ts.session("local[2,4]")
    host = open_host(folder).start()
    (folder / "acks").mkdir(exist_ok=True)
    (folder / "running").touch()
    try:
        while not host.wait(0.2):
            for file in sorted((folder / "commands").glob("*.json")):
                ack = folder / "acks" / file.stem
                if not ack.exists():
                    perform(host, folder, json.loads(file.read_text()))
                    ack.touch()
    except ThalwegError as reason:
        sys.stderr.write(f"{type(reason).__name__}: {reason}\n")
        return 3
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
