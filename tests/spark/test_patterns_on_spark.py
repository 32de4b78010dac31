"""Sequence patterns on real Spark: the four contexts as queries of one host, against the
definition.

Two steps, and three with a barrier; rows come late, are revised and are removed again, and the host
is closed and opened in the middle. `tests/patterns` plays each context by itself, in-process.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import thalweg as tw
from tests.patterns.definition import matches
from tests.patterns.test_sequence import STREAMS, events
from thalweg import spark as tws
from thalweg.io.feeds import batches_from
from thalweg.model import Row
from thalweg.plan.nodes import Source
from thalweg.plan.sequences import MODES, Mode
from thalweg.spark.sources.file_feed import Files
from thalweg.testing import Manner, Step, logical_inputs, make_form
from thalweg.testing.compare import sort_rows
from thalweg.testing.spark_engine import write_elements

VARIED = Manner(detours=0.5, spurious=2, disorder=8, promises=0.3, cut=0.1, delay=0.3)
WITHIN = 10
PATTERNS: dict[str, tuple[str, Mode, bool]] = {
    f"{mode} {names}": (names, mode, names == "abc") for names in ("ab", "abc") for mode in MODES
}
"""By name: the steps, the context, and whether no `d` may lie before the last step."""


def tables() -> dict[str, list[Row]]:
    random = Random(1)
    return {name: events(random, name, 16, 30) for name in STREAMS}


def defined(names: str, mode: Mode, barrier: bool) -> list[Row]:
    rows = tables()
    return matches(
        {step: rows[step] for step in names},
        mode,
        within=WITHIN,
        barriers={names[-1]: rows["d"]} if barrier else None,
    )


def pattern(streams: dict[str, tw.Stream], names: str, mode: Mode, barrier: bool) -> tw.Stream:
    return tw.sequence(
        {step: streams[step] for step in names},
        "k",
        mode=mode,
        within=WITHIN,
        not_between={names[-1]: streams["d"]} if barrier else None,
    )


def test_contexts_and_barriers_give_different_tables() -> None:
    """So that a pattern which left one of them out would be seen."""
    for names in ("ab", "abc"):
        contexts = [sorted(map(repr, defined(names, mode, barrier=False))) for mode in MODES]
        assert all(contexts) and all(contexts.count(table) == 1 for table in contexts)
    for mode in MODES:
        assert defined("abc", mode, barrier=True) != defined("abc", mode, barrier=False)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
def test_every_context_in_a_host_that_restarts(tmp_path: Path) -> None:
    every = pattern(STREAMS, "abc", "unrestricted", barrier=True).node
    steps = list(make_form(logical_inputs(every, tables()), VARIED, Random(5)).steps)
    for name in STREAMS:
        (tmp_path / name).mkdir()

    def open_host(*, finish: bool) -> tws.SparkHost:
        return tws.host(
            *fed(tmp_path, finish=finish).values(),
            checkpoint=str(tmp_path / "checkpoint"),
            stages=2,
            buckets=2,
        )

    host = open_host(finish=False)
    streams = fed(tmp_path, finish=False)
    host.add_all({name: pattern(streams, *asked) for name, asked in PATTERNS.items()}, partial=True)
    half = len(steps) // 2
    for begin, end, finish in ((0, half, False), (half, len(steps), True)):
        for number, step in enumerate(steps[begin:end], begin):
            assert isinstance(step, Step)
            schema = STREAMS[step.source].schema
            for part, batch in enumerate(batches_from(step.elements, schema, step.source)):
                write_elements(tmp_path / step.source / f"{number:03}-{part:03}.arrow", batch)
        if finish:
            host = open_host(finish=True)
        assert host.start("available now").wait(600)
        host.stop()
    revised = 0
    for name, asked in PATTERNS.items():
        assert sort_rows(host.table(name)) == sort_rows(defined(*asked)), name
        revised += host.status(name).adjusts
    assert revised, "answers were given, taken back and given anew"


def fed(folder: Path, *, finish: bool) -> dict[str, tw.Stream]:
    """The sources with files of elements, which have adjusts and promises."""
    found = {}
    for name, stream in STREAMS.items():
        assert isinstance(stream.node, Source)
        files = Files(str(folder / name), "elements", None, files_per_batch=4, finish=finish)
        found[name] = tw.Stream(replace(stream.node, feed=files))
    return found
