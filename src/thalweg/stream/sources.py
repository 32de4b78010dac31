"""Where a query begins: a source, its columns and what it promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.io.events import TimeColumns
from thalweg.model.clocks import Clock, clock_type
from thalweg.model.time import Duration
from thalweg.plan import nodes
from thalweg.plan.nodes import Ingress
from thalweg.plan.properties import StreamProperties
from thalweg.progress.policies import LateBy, Policy, Quarantine, RowPolicy, policies_of
from thalweg.stream.arguments import column_names, not_negative, require_column, schema_of
from thalweg.stream.streams import Stream
from thalweg.windows.kinds import positive_ticks

__all__ = [
    "source",
]


def source(
    name: str,
    columns: pa.Schema | Mapping[str, str | pa.DataType],
    *,
    time: str | None = None,
    end: str | None = None,
    late: str = "error",
    disorder: Duration | None = None,
    period: Duration | None = None,
    partition: str | None = None,
    low_watermark: tuple[Duration, Duration] | None = None,
    progress: Policy | Sequence[Policy] | None = None,
    quarantine: Quarantine | None = None,
    ordered: bool = False,
    insert_only: bool = False,
    unique_start: bool = False,
    payload_start_key: bool = False,
    constant_duration: Duration | None = None,
    firm_ends: bool = False,
    group_ctis: str | Sequence[str] = (),
    progressing: str | Sequence[str] | Mapping[str, Duration] = (),
    patterns: bool = False,
) -> Stream:
    """A stream from outside.

    `time` and `end` name the columns, among `columns`, that are the start and the end of a row:
    frames are then pushed as they are, and where the times are timestamps all that is shown of the
    stream shows timestamps. `late` and the six arguments after it say how events are admitted (see
    `Ingress`): `disorder=d` is `progress=late_by(d)`, and `progress` takes more policies, such as
    `late_by_rows`, `estimated` and `timer`. The rest declares facts that hold for every form in
    which this stream arrives. `group_ctis` names the columns for whose values promises may come
    separately; a partition is one of them by itself. `progressing` names further columns of whole
    numbers that progress as the start does, so that windows over them close: by punctuation, or, as
    a mapping, each by its own disorder. `patterns` says that punctuation of any form may come (see
    `thalweg.model.punctuation`); in-process it may without.

    >>> source("packets", {"src": "string", "len": "int64"}, disorder="1 min")
    <Stream source (src string, len int64)>
    """
    where = f"source {name!r}"
    if not isinstance(name, str):
        raise PlanError(f"{where}: the name of a source is text.")
    ingress = _ingress(where, disorder, period, partition, low_watermark, progress, quarantine)
    disorders = progressing.items() if isinstance(progressing, Mapping) else ()
    ingress = replace(
        ingress,
        late=late,
        patterns=patterns,
        columns=tuple(
            (column, not_negative(behind, f"{where}, progressing {column!r}"))
            for column, behind in disorders
        ),
    )
    groups = tuple(dict.fromkeys(([partition] if partition else []) + [*column_names(group_ctis)]))
    further = column_names(progressing if isinstance(progressing, str) else tuple(progressing))
    declared = StreamProperties(
        ordered=ordered,
        insert_only=insert_only,
        unique_start=unique_start,
        payload_start_key=payload_start_key,
        constant_duration=(
            None
            if constant_duration is None
            else positive_ticks(constant_duration, f"{where}, constant_duration")
        ),
        firm_ends=firm_ends or insert_only,
        group_ctis=bool(groups),
        group_keys=groups,
        progressing=further,
    )
    schema, times, clock = _timed(schema_of(columns, where), time, end, where)
    for column in (*groups, *further):
        require_column(column, schema, where)
    for column in further:
        if not pa.types.is_integer(schema.field(column).type):
            raise TypeMismatchError(
                f"{where}: progressing= takes columns of whole numbers; {column!r} is "
                f"{schema.field(column).type}."
            )
    return Stream(nodes.Source(name, schema, ingress, declared, times=times, clock=clock))


def _ingress(
    where: str,
    disorder: Duration | None,
    period: Duration | None,
    partition: str | None,
    low_watermark: tuple[Duration, Duration] | None,
    progress: Policy | Sequence[Policy] | None,
    quarantine: Quarantine | None,
) -> Ingress:
    """How the rows of a source are admitted and which promises follow from them; settings that do
    not go together are refused."""
    if quarantine is not None and not isinstance(quarantine, Quarantine):
        raise PlanError(
            f"{where}: quarantine= takes tw.quarantine(ahead, key=...); got {quarantine!r}."
        )
    policies = policies_of(progress, where)
    for policy in policies:
        if isinstance(policy, LateBy):
            if disorder is not None:
                raise PlanError(f"{where}: disorder= and late_by() say the same; give one of them.")
            disorder = policy.ticks
    observed = tuple(policy for policy in policies if not isinstance(policy, LateBy))
    follows_rows = any(isinstance(policy, RowPolicy) for policy in observed)
    if period is not None and disorder is None and not follows_rows:
        raise PlanError(
            f"{where}: period= rounds the promises that disorder= makes; give disorder= too (0 when"
            " events come in order)."
        )
    return Ingress(
        low_watermark=_low_watermark(where, low_watermark, partition),
        disorder=None if disorder is None else not_negative(disorder, f"{where}, disorder"),
        period=None if period is None else positive_ticks(period, f"{where}, period"),
        partition=partition,
        progress=observed,
        quarantine=quarantine,
    )


def _low_watermark(
    where: str, low_watermark: tuple[Duration, Duration] | None, partition: str | None
) -> tuple[int, int] | None:
    """The period and the lag, in ticks, of the common promise of partitions."""
    if low_watermark is None:
        return None
    if partition is None:
        raise PlanError(
            f"{where}: low_watermark= is the common promise of partitions; give partition= too, or "
            "use disorder=."
        )
    every, behind = low_watermark
    return (
        positive_ticks(every, f"{where}, low_watermark period"),
        not_negative(behind, f"{where}, low_watermark lag"),
    )


def _timed(
    schema: pa.Schema, time: str | None, end: str | None, where: str
) -> tuple[pa.Schema, TimeColumns | None, Clock]:
    """The payload of a source, its time columns and its clock."""
    if time is None:
        if end is not None:
            raise PlanError(f"{where}: end= names the end of rows; name their start too, time=.")
        return schema, None, None
    times = TimeColumns(time, end)
    for name in times.names:
        require_column(name, schema, f"{where}, time")
        type_ = schema.field(name).type
        if clock_type(type_) is None and not pa.types.is_integer(type_):
            raise TypeMismatchError(
                f"{where}: the time {name!r} is {type_}; a time is a timestamp, a whole number, or "
                "ISO 8601 text in a frame."
            )
    payload = pa.schema([field for field in schema if field.name not in times.names])
    return payload, times, clock_type(schema.field(time).type)
