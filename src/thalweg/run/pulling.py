"""Running a query over inputs that are there: its output as it comes, all its changes, or its final
table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from thalweg.errors import PlanError
from thalweg.io.feeds import Feed
from thalweg.io.frames import is_frame
from thalweg.model.answers import Answers, Changelog
from thalweg.model.batch import Batch
from thalweg.model.time import Duration
from thalweg.plan.nodes import Node, Source, walk
from thalweg.progress.source_clock import wall_clock
from thalweg.run.engine import Engine, Query

__all__ = ["changes", "feeds_of", "run", "table"]


def run(
    query: Query,
    inputs: Mapping[str, Feed] | None = None,
    *,
    consistency: str = "speculative",
    hold: Duration | None = None,
    batch_size: int | None = None,
    finish: bool = True,
    now: Callable[[], int] = wall_clock,
) -> Iterator[Batch]:
    """Pull a query: its output batches as they come. Sources take turns, one batch each; at the end
    they all finish.

    Elements are gathered up to `batch_size`. A timer that is due does not wait for that: the batch
    leaves half-full, and the promise after it.
    """
    yield from _pulled(
        Engine(query, consistency=consistency, hold=hold, now=now),
        inputs,
        batch_size=batch_size,
        finish=finish,
    )


def feeds_of(engine: Engine, inputs: Mapping[str, Feed] | None) -> dict[str, Feed]:
    """The input of every source: what is given, else the frame that the source was made from."""
    if inputs is not None and not isinstance(inputs, Mapping):
        one = min(engine.sources)
        raise PlanError(
            f"inputs are given by source, {{{one!r}: [...]}}; got {type(inputs).__name__}."
        )
    found = {**_frames(engine.query, inputs or {}), **(inputs or {})}
    missing = set(engine.sources) - set(found)
    if missing:
        name, others = min(missing), sorted(set(found) - set(engine.sources))
        given = f" There is one for {others[0]!r}, which is no source here." if others else ""
        raise PlanError(
            f"no input for the source {name!r}.{given} Inputs are given by source: "
            f"{{{name!r}: [...]}}."
        )
    return found


def _frames(query: Node, inputs: Mapping[str, Feed]) -> dict[str, Feed]:
    """The frames that sources were made from, where no other input is given for them."""
    frames: dict[str, Feed] = {}
    for node in walk(query):
        if not isinstance(node, Source) or node.name in inputs or not is_frame(node.feed):
            continue
        other = frames.setdefault(node.name, node.feed)
        if other is not node.feed and other != node.feed:
            raise PlanError(
                f"two sources of this query are called {node.name!r}, and have different rows; "
                "give each a name of its own: from_frame(..., name=)."
            )
    return frames


def _pulled(
    engine: Engine,
    inputs: Mapping[str, Feed] | None = None,
    *,
    batch_size: int | None = None,
    finish: bool = True,
) -> Iterator[Batch]:
    due = engine.is_due if engine.has_clocks else None
    feeds = {
        name: engine.batches(name, feed, size=batch_size, due=due)
        for name, feed in feeds_of(engine, inputs).items()
    }
    while feeds:
        for name in list(feeds):
            batch = next(feeds[name], None)
            if batch is None:
                del feeds[name]
            else:
                yield from engine.push(name, batch)
    if finish:
        yield from engine.finish()


def changes(
    query: Query,
    inputs: Mapping[str, Feed] | None = None,
    *,
    consistency: str = "speculative",
    hold: Duration | None = None,
) -> Changelog:
    """All output elements, the final CTI left out when the inputs end; a sequence of elements that
    is also a table: `.to_arrow()`, `.to_pandas()`, `.to_polars()`, `.batches()`.

    A source that was made from a frame needs no input.
    """
    engine = Engine(query, consistency=consistency, hold=hold)
    batches = list(_pulled(engine, inputs))
    return Changelog(batches, engine.schema, engine.clock)


def table(
    query: Query,
    inputs: Mapping[str, Feed] | None = None,
    *,
    consistency: str = "speculative",
    hold: Duration | None = None,
) -> Answers:
    """The final table: a sequence of rows (start, end, payload) that is also `.to_arrow()`,
    `.to_pandas()`, `.to_polars()` and `.batches()`.

    A source that was made from a frame needs no input.
    """
    engine = Engine(query, consistency=consistency, hold=hold)
    batches = list(_pulled(engine, inputs))
    return Answers.of_batches(batches, engine.schema, engine.clock)
