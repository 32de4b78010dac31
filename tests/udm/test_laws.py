"""The law of modules: whatever the module, the window, the clipping and the stamping, the final
table is the oracle's.

One table, `LAWS`, as for the other operators; the same laws are played over fragments, buckets and
state slices.
"""

from __future__ import annotations

from itertools import product
from random import Random

import pyarrow as pa
import pytest

from tests.operators.test_laws import A, Law, endless, finite, nulls, scoped, table, used
from tests.udm.modules import MINE
from thalweg.expr import col
from thalweg.plan.nodes import Node, Select, Source, Union, Where, WindowApply
from thalweg.plan.nodes.traversal import find
from thalweg.plan.properties import StreamProperties
from thalweg.shards.local_engine import DividedEngine
from thalweg.state import arrangement
from thalweg.testing import (
    CONSISTENCIES,
    assert_form_right,
    assert_physically_independent,
    logical_inputs,
    make_form,
)
from thalweg.testing.manner import PUNCTUATED, WILD, Manner
from thalweg.windows import CountWindow, HoppingWindow, SessionWindow, SnapshotWindow, Window

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
INSERTED = Source("i", SCHEMA, declared=StreamProperties(insert_only=True, firm_ends=True))
GROUPED = Source("g", SCHEMA, declared=StreamProperties(group_ctis=True, group_keys=("k",)))
WINDOWS: dict[str, Window] = {
    "snapshot": SnapshotWindow(),
    "tumbling": HoppingWindow(8, 8),
    "hopping": HoppingWindow(9, 3, 1),
    "gapped": HoppingWindow(3, 7),
    "session": SessionWindow(5),
    "count": CountWindow(2),
    "count of three": CountWindow(3),
    "count by end": CountWindow(2, "end"),
    "count of one by end": CountWindow(1, "end"),
}
ON_A_GRID = ("tumbling", "hopping", "gapped")


def apply(
    name: str, window: Window, node: Node = A, keys: tuple[str, ...] = (), **more: str
) -> WindowApply:
    module = MINE.find(name)
    chosen = {"clip": module.clip, "stamp": module.stamp} | more
    return WindowApply(
        node,
        window,
        module,
        (("v", col("v")),),
        keys=keys,
        clip=chosen["clip"],
        stamp=chosen["stamp"],
    )


def law(name: str, kind: str, *, keys: tuple[str, ...] = (), **more: str) -> Law:
    inputs = finite if kind in ON_A_GRID else nulls if keys else endless
    return Law(lambda: apply(name, WINDOWS[kind], A, keys, **more), inputs)


LAWS: dict[str, Law] = {}
for _kind in WINDOWS:
    LAWS |= {
        f"{_name} over {_kind}": law(f"t.{_name}", _kind)
        for _name in ("listing", "sums", "spans", "pairs")
    }
    LAWS |= {
        f"{_name} per group over {_kind}": law(f"t.{_name}", _kind, keys=("k",))
        for _name in ("total", "evens", "largest", "columns")
    }
for _kind, _clip in product(WINDOWS, ("left", "right", "full")):
    LAWS[f"spans clipped {_clip} over {_kind}"] = law("t.spans", _kind, clip=_clip)
for _kind, _clip in product(("tumbling", "snapshot", "count", "session"), ("none", "full")):
    LAWS[f"weighted, clip {_clip}, over {_kind}"] = law(
        "t.weighted", _kind, clip=_clip, keys=("k",)
    )
    LAWS[f"echo, clip {_clip}, over {_kind}"] = law("t.echo", _kind, clip=_clip)
for _kind in ("hopping", "snapshot", "count", "count by end"):
    LAWS |= {
        f"starts over {_kind}": law("t.starts", _kind),
        f"spread over {_kind}": law("t.spread", _kind, keys=("k",)),
        f"tables over {_kind}": law("t.table", _kind),
        f"operator in columns over {_kind}": law("t.wide", _kind, keys=("k",)),
        f"partial over {_kind}": law("t.partial", _kind, keys=("k",)),
        f"saved over {_kind}": law("t.saved", _kind, keys=("k",)),
        f"stamps kept over {_kind}": law("t.after", _kind, keys=("k",)),
        f"stamps aligned over {_kind}": law("t.after", _kind, stamp="align"),
        f"stamps clipped over {_kind}": law("t.after", _kind, stamp="clip"),
        f"stamps unrestricted over {_kind}": law("t.echo", _kind, stamp="unrestricted"),
    }
for _kind in ("tumbling", "hopping", "gapped", "snapshot"):
    for _clip in ("none", "right"):
        LAWS[f"time-bound over {_kind}, clip {_clip}"] = law("t.steps", _kind, clip=_clip)
    LAWS[f"time-bound per group over {_kind}"] = law("t.steps", _kind, keys=("k",))
LAWS |= {
    "filter above a module": Law(
        lambda: Where(apply("t.evens", WINDOWS["hopping"]), col("v") > 0), finite
    ),
    "filter on a key above a module": Law(
        lambda: Where(apply("t.total", WINDOWS["count"], keys=("k",)), col("k") > 0), nulls
    ),
    "module over a module": Law(
        lambda: apply(
            "t.sums",
            WINDOWS["tumbling"],
            Select(apply("t.total", WINDOWS["snapshot"]), (("v", col("total")),)),
        ),
        finite,
    ),
    "module over a union": Law(
        lambda: apply("t.listing", WINDOWS["snapshot"], Union(A, Where(A, col("v") > 1))), endless
    ),
    "scoped promises": Law(lambda: apply("t.total", WINDOWS["snapshot"], GROUPED, ("k",)), scoped),
    "scoped promises on a grid": Law(
        lambda: apply("t.sums", WINDOWS["hopping"], GROUPED, ("k",)), scoped
    ),
    "scoped promises, sessions in columns": Law(
        lambda: apply("t.partial", WINDOWS["session"], GROUPED, ("k",)), scoped
    ),
    "scoped promises, snapshots in columns": Law(
        lambda: apply("t.partial", WINDOWS["snapshot"], GROUPED, ("k",)), scoped
    ),
    "operator in columns over session": law("t.wide", "session", keys=("k",)),
    "partial over session": law("t.partial", "session", keys=("k",)),
    "scoped promises, count": Law(
        lambda: apply("t.sums", WINDOWS["count"], GROUPED, ("k",)), scoped
    ),
    "scoped promises, count in columns": Law(
        lambda: apply("t.partial", WINDOWS["count of three"], GROUPED, ("k",)), scoped
    ),
    "scoped promises, count by end in columns": Law(
        lambda: apply("t.partial", WINDOWS["count by end"], GROUPED, ("k",)), scoped
    ),
}
AT_ONCE = [
    name
    for name, entry in LAWS.items()
    if any(node.at_once for node in find(entry.build(), WindowApply))
]


@pytest.mark.parametrize(("number", "name"), list(enumerate(LAWS)), ids=list(LAWS))
def test_law(number: int, name: str) -> None:
    query = LAWS[name].build()
    for seed in range(2):
        inputs = LAWS[name].inputs(Random(f"{name}/{seed}"))
        level = CONSISTENCIES[(number + seed) % len(CONSISTENCIES)]
        assert_physically_independent(
            query, used(query, inputs), forms=2, seed=seed, consistency=level
        )


@pytest.mark.parametrize(("number", "name"), list(enumerate(LAWS))[::5], ids=list(LAWS)[::5])
def test_law_divided(number: int, name: str) -> None:
    query = LAWS[name].build()
    logicals = logical_inputs(query, used(query, LAWS[name].inputs(Random(f"{name}/divided"))))
    for manner in (PUNCTUATED, WILD):
        form = make_form(logicals, manner, Random(name))
        assert_form_right(
            query,
            form,
            consistency=CONSISTENCIES[number % len(CONSISTENCIES)],
            engine=DividedEngine,
        )


@pytest.mark.parametrize("name", AT_ONCE)
def test_windows_at_once_of_many_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if so many rows were held that those of a window are searched for."""
    monkeypatch.setattr(arrangement, "_TAIL", 2)
    query = LAWS[name].build()
    for seed in range(12):
        inputs = LAWS[name].inputs(Random(f"{name}/{seed}"))
        level = CONSISTENCIES[seed % len(CONSISTENCIES)]
        assert_physically_independent(
            query, used(query, inputs), forms=2, seed=seed, consistency=level
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_law_at_length(name: str) -> None:
    query = LAWS[name].build()
    for seed in range(100, 110):
        inputs = LAWS[name].inputs(Random(f"{name}/{seed}"))
        assert_physically_independent(query, used(query, inputs), forms=8, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_law_divided_at_length(name: str) -> None:
    query = LAWS[name].build()
    for seed in range(5):
        logicals = logical_inputs(query, used(query, LAWS[name].inputs(Random(f"{name}/{seed}"))))
        for consistency in CONSISTENCIES:
            assert_form_right(
                query,
                make_form(logicals, WILD, Random(f"{name}/{seed}")),
                consistency=consistency,
                engine=DividedEngine,
            )


INSERTS = Manner(disorder=8, promises=0.5, cut=0.5, restarts=0.2, delay=0.3)
"""In any order and any batches, but nothing is ever adjusted."""


@pytest.mark.parametrize(("name", "kind"), list(product(("partial", "saved"), ON_A_GRID)))
def test_panes(name: str, kind: str) -> None:
    """Of a stream that never takes a row back, windows are put together from panes."""
    query = apply(f"t.{name}", WINDOWS[kind], INSERTED, ("k",))
    assert query.in_panes
    for seed in range(12):
        logicals = logical_inputs(
            query, {"i": table(Random(f"{kind}/{seed}"), SCHEMA, size=14, null=0.1)}
        )
        form = make_form(logicals, INSERTS, Random(seed))
        assert_form_right(
            query,
            form,
            consistency=CONSISTENCIES[seed % 3],
            engine=DividedEngine if seed % 4 == 3 else None,
        )
