"""Streams of a query on the command line: `--source "Main=packets time=ts disorder='1 min'
late=drop"`.

The place is a folder of files, one file, a glob, or the word `generator`. What follows are
arguments of `from_files` or `from_generator`; without `time=` the column `ts` is the time, or the
only column of time stamps.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

import thalweg as tw
from thalweg.errors import InputError, PlanError, UnknownColumnError, did_you_mean
from thalweg.io.discovery import Discovered, discover, require_time
from thalweg.model.clocks import clock_type
from thalweg.plan.nodes import Source

__all__ = ["Place", "parse_options", "parse_source"]

GENERATOR = "generator"
_ADMISSION = ("disorder", "late", "period", "partition")
_FILES = ("time", "end", "duration", "format", "files_per_batch", *_ADMISSION)
_NUMBERS = (
    "files_per_batch",
    "rate",
    "keys",
    "partitions",
    "seed",
    "ticks",
    "ticks_per_batch",
    "lull_every",
    "lull_ticks",
)
_FRACTIONS = ("skew", "late_share")
_GENERATOR = ("late", "latest", *_NUMBERS[1:], *_FRACTIONS)
_ENDLESS = (
    "a generator needs ticks= here, a tenth of a second each; without Spark a stream has to end."
)


@dataclass(frozen=True)
class Place:
    """Where the rows of a stream are, and how they are admitted."""

    name: str
    path: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_generator(self) -> bool:
        return self.path == GENERATOR

    @cached_property
    def found(self) -> Discovered:
        """The files that are there, and how they are read."""
        try:
            return discover(
                self.path,
                format=self.options.get("format"),
                times=(self.options.get("time", "ts"), self.options.get("end")),
            )
        except InputError as reason:
            raise InputError(f"source {self.name}: {reason}") from reason

    def schema(self) -> pa.Schema:
        return self.found.schema

    def size(self) -> int | None:
        """Total bytes of its files; None for a generator or a remote path."""
        if self.is_generator or "://" in self.path:
            return None
        return sum(found.size for found in self.found.files)

    def time(self) -> str:
        """The column with the time."""
        if self.is_generator:
            return "ts"
        schema = self.schema()
        chosen = self.options.get("time")
        if chosen is not None and chosen not in schema.names:
            raise UnknownColumnError(chosen, schema.names, f"source {self.name}, time")
        stamps = [entry.name for entry in schema if pa.types.is_timestamp(entry.type)]
        found = chosen or (
            "ts" if "ts" in schema.names else stamps[0] if len(stamps) == 1 else None
        )
        if found is None:
            raise PlanError(
                f"source {self.name}: which column is the time? Say time=, one of "
                f"{', '.join(schema.names)}."
            )
        require_time(schema, found, f"source {self.name}")
        return str(found)

    # --------------------------------------------------------------------------------------------
    # for each engine

    def spark_stream(self, *, follow: bool) -> tw.Stream:
        from thalweg import spark

        if self.is_generator:
            return spark.from_generator(name=self.name, **self.options)
        # Files that are all there need no promise before their end: rows may come in any order.
        ordered = {"disorder": 0} if follow else {}
        options = {**ordered, **self.options, "time": self.time()}
        return spark.from_files(self.path, name=self.name, finish=not follow, **options)

    def stream(self) -> tw.Stream:
        """The stream for the in-process engine, which is fed by `tables`."""
        if self.is_generator:
            return tw.source(
                self.name,
                {"partition": "int64", "key": "int64", "value": "int64"},
                late="drop",
                insert_only=True,
            )
        times = (self.time(), self.options.get("end"))
        payload = pa.schema([entry for entry in self.schema() if entry.name not in times])
        admission = {key: value for key, value in self.options.items() if key in _ADMISSION}
        plain = "end" not in self.options and "duration" not in self.options
        node = tw.source(
            self.name,
            payload,
            insert_only=True,
            constant_duration=1 if plain else None,
            **admission,
        ).node
        assert isinstance(node, Source)
        return tw.Stream(replace(node, clock=clock_type(self.schema().field(self.time()).type)))

    def tables(self, rows: int) -> Iterator[pa.Table]:
        """The rows as events, in tables of at most `rows` rows."""
        if self.is_generator:
            yield from self._generated_tables()
            return
        for table in self.found.read():
            events = tw.events(
                table,
                self.time(),
                self.options.get("end"),
                duration=self.options.get("duration", 1),
            )
            for at in range(0, events.num_rows, rows):
                yield events.slice(at, rows)

    def _generated_tables(self) -> Iterator[pa.Table]:
        from thalweg.spark.sources.generator_feed import from_generator

        node = from_generator(name=self.name, **self.options).node
        feed = getattr(node, "feed")  # noqa: B009 - a plan does not look into feeds
        if feed.ticks is None:
            raise PlanError(f"source {self.name}: {_ENDLESS}")
        for tick in range(feed.ticks):
            for partition in range(feed.events.partitions):
                batch = feed.events.tick(partition, tick)
                columns = {"_start": batch.start, "_end": batch.end}
                yield pa.table(
                    {
                        **columns,
                        **{name: batch.payload.column(name) for name in batch.payload.schema.names},
                    }
                )


def parse_source(text: str) -> Place:
    """
    >>> parse_source("Main=packets time=ts disorder='1 min'")
    Place(name='Main', path='packets', options={'time': 'ts', 'disorder': '1 min'})
    """
    try:
        first, *rest = shlex.split(text) or [""]
    except ValueError as reason:
        raise PlanError(f"--source {text!r}: {reason}.") from None
    name, equals, path = first.partition("=")
    if not equals or not name or not path:
        raise PlanError(
            f'--source {text!r}: write NAME=FOLDER, and options behind it: "Main=packets time=ts'
            " disorder='1 min'\"."
        )
    return Place(name, path, parse_options(name, path, dict(_pair(name, part) for part in rest)))


def _pair(name: str, part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals:
        raise PlanError(f"--source {name}: unknown option {key!r}; write {key}=VALUE.")
    return key, value


def parse_options(name: str, path: str, values: Mapping[str, str]) -> dict[str, Any]:
    """The options of a source, checked and converted from text."""
    names = _GENERATOR if path == GENERATOR else _FILES
    for key in values:
        if key not in names:
            raise PlanError(
                f"--source {name}: unknown option {key!r}{did_you_mean(key, names)} Options: "
                f"{', '.join(names)}."
            )
    return {key: _value(name, key, value) for key, value in values.items()}


def _value(name: str, key: str, value: str) -> Any:
    if key not in (*_NUMBERS, *_FRACTIONS):
        return (
            int(value)
            if key in ("disorder", "duration", "period", "latest") and value.lstrip("-").isdigit()
            else value
        )
    try:
        return int(value) if key in _NUMBERS else float(value)
    except ValueError:
        raise PlanError(f"--source {name}: {key} is a number; got {value!r}.") from None
