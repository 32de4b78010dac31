"""Progress as text, for snapshots; what JSON cannot write: `packed_values`."""

from __future__ import annotations

import json
from typing import Any

from thalweg.model.area_promises import NO_AREAS, AreaPromises, Shape
from thalweg.model.column_promises import ColumnPromises
from thalweg.model.packed_values import pack_values, unpack_values
from thalweg.model.progress import Progress
from thalweg.model.range_promises import Promised, RangePromises

__all__ = ["pack_areas", "progress_of_text", "progress_text", "unpack_areas"]


def progress_text(progress: Progress) -> str:
    """Progress as text.

    >>> progress_text(Progress(5, ("k",), {("a",): 9}))
    '[5, ["k"], [[["a"], 9]]]'
    """
    columns, scoped = list(progress.scope_columns), progress.scoped
    column_promises: list[Any] = []
    if progress.column_promises or progress.group_column_promises or progress.areas:
        column_promises = [_listed(progress.column_promises)]
    if progress.group_column_promises or progress.areas:
        column_promises.append(
            [
                [[pack_values([value]) for value in scope], _listed(group_column_promises)]
                for scope, group_column_promises in progress.group_column_promises.items()
            ]
        )
    if progress.areas:
        column_promises.append(pack_areas(progress.areas))
    try:
        return json.dumps(
            [
                progress.cti,
                columns,
                [[list(scope), time] for scope, time in scoped.items()],
                *column_promises,
            ]
        )
    except TypeError:
        values = [pack_values(column) for column in zip(*scoped, strict=True)]
        return json.dumps(
            [
                progress.cti,
                columns,
                {"values": values, "times": list(scoped.values())},
                *column_promises,
            ]
        )


def _listed(column_promises: ColumnPromises) -> list[Any]:
    return [[list(names), list(bounds)] for names, bounds in column_promises.items()]


def _unlisted(listed: list[Any]) -> ColumnPromises:
    return {tuple(names): tuple(bounds) for names, bounds in listed}


def progress_of_text(text: str) -> Progress:
    """The inverse of `progress_text`.

    >>> from datetime import date
    >>> progress_of_text(progress_text(Progress(5, ("day",), {(date(2020, 2, 1),): 9}))).scoped
    {(datetime.date(2020, 2, 1),): 9}
    """
    cti, columns, scoped, *more = json.loads(text)
    column_promises = _unlisted(more[0]) if more else {}
    of_groups = {
        tuple(unpack_values(value)[0] for value in scope): _unlisted(listed)
        for scope, listed in (more[1] if len(more) > 1 else [])
    }
    areas = unpack_areas(more[2]) if len(more) > 2 else NO_AREAS
    if not scoped:
        scope_columns = tuple(columns) if of_groups or areas else ()
        return Progress(cti, scope_columns, {}, column_promises, of_groups, areas)
    if isinstance(scoped, dict):
        scopes = zip(*map(unpack_values, scoped["values"]), strict=True)
        times = dict(zip(scopes, scoped["times"], strict=True))
    else:
        times = {tuple(unpack_values(scope)): time for scope, time in scoped}
    return Progress(cti, tuple(columns), times, column_promises, of_groups, areas)


def pack_areas(areas: AreaPromises) -> Any:
    """Area promises as something that JSON can write."""
    return [
        [
            *shape,
            [
                [[pack_values([value]) for value in values], _packed(each)]
                for values, each in entries.items()
            ],
        ]
        for shape, entries in areas.entries.items()
    ]


def _packed(promised: Promised) -> Any:
    if isinstance(promised, int):
        return promised
    return [pack_values(promised.cuts), [_packed(time) for time in promised.times]]


def unpack_areas(packed: Any) -> AreaPromises:
    """The inverse of `pack_areas`."""
    return AreaPromises(
        {
            Shape(tuple(values), tuple(ranges)): {
                tuple(unpack_values(value)[0] for value in scope): _unpacked(each)
                for scope, each in entries
            }
            for values, ranges, entries in packed
        }
    )


def _unpacked(packed: Any) -> Promised:
    if isinstance(packed, int):
        return packed
    cuts, times = packed
    return RangePromises(tuple(unpack_values(cuts)), tuple(map(_unpacked, times)))
