"""Growths of random plans with users' modules and patterns: `apply`, `detect`, `sequence`.

Modules are of the shipped library, one for each way of running one: states in columns (average),
incremental with time (time_weighted_average), whole windows as values (mode), as NumPy (median), as
Arrow (top_k), and operators that stamp their output (followed_by, interpolate).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thalweg.expr import Expr, col, lit
from thalweg.patterns import event, no_event, one_of, optional, repeated, sequence, then
from thalweg.plan.applying import ModuleUse
from thalweg.plan.automata import Pattern
from thalweg.plan.sequences import Mode
from thalweg.stream import Stream
from thalweg.stream.windowed import WindowedStream
from thalweg.testing.growths import Growth, Site
from thalweg.udm.module import CLIPS

__all__ = ["MODULE_GROWTHS"]

Windows = Callable[[Site], WindowedStream]

_WINDOWS: dict[str, Windows] = {
    "snapshot": lambda site: site.by_key().snapshot(),
    "tumbling": lambda site: site.by_key().tumbling(site.small),
    "hopping": lambda site: site.by_key().hopping(site.small, site.small),
    "session": lambda site: site.by_key().session(site.small),
    "count_by_start": lambda site: site.by_key().count_by_start(site.random.randint(1, 3)),
    "count_by_end": lambda site: site.by_key().count_by_end(site.random.randint(1, 3)),
}


def _filled(site: Site, stream: Stream, columns: Mapping[str, Expr]) -> Stream:
    """The four columns: the key of the stream, `columns`, and constants for the rest."""
    constants = (lit(0.5), lit("a"), lit(1))
    rest = dict(zip(site.names[1:], constants, strict=True))
    return stream.select(**{site.names[0]: col(site.names[0]), **rest, **columns})


def _aggregate(site: Site) -> tuple[str, ModuleUse]:
    """A module that gives one value for a window, and the column it is for."""
    _, number, text, small = site.names
    uses = [
        (number, ModuleUse("average", (number,))),
        (number, ModuleUse("average", (small,))),
        # The median of infinities of both signs warns; the small column has none.
        (number, ModuleUse("median", (small,))),
        (number, ModuleUse("time_weighted_average", (number,))),
        (text, ModuleUse("mode", (text,))),
        (small, ModuleUse("mode", (small,))),
    ]
    return site.random.choice(uses)


def _apply(windows: Windows) -> Growth:
    def grow(site: Site) -> Stream:
        name, use = _aggregate(site)
        clip = site.random.choice([None, *CLIPS])
        applied = windows(site).apply(use.module, *use.columns, clip=clip, name=name)
        return _filled(site, applied, {name: col(name)})

    return grow


def _beside(site: Site) -> Stream:
    """A module beside aggregates that are built in: each by itself, and joined."""
    windows = site.random.choice([_WINDOWS[name] for name in ("snapshot", "hopping", "session")])
    name, use = _aggregate(site)
    return windows(site).aggregate({**site.calls(), name: use}).select(*site.names)


def _top_k(site: Site) -> Stream:
    windows = site.random.choice(list(_WINDOWS.values()))
    params = {"k": site.random.randint(1, 2), "by": site.names[3]}
    return windows(site).apply("top_k", *site.names[1:], params=params).select(*site.names)


def _followed_by(site: Site) -> Stream:
    """Its output is bound to time, so it may be final before its window is."""
    windows = site.random.choice(list(_WINDOWS.values()))
    params = {"first": "a", "second": site.random.choice("ab"), "within": site.small}
    found = windows(site).apply("followed_by", site.names[2], params=params)
    return _filled(site, found, {site.names[3]: col("second_at") - col("first_at")})


def _interpolate(site: Site) -> Stream:
    """Over windows of bounded length: a sample may last for ever."""
    windows = site.random.choice([_WINDOWS[name] for name in ("tumbling", "hopping")])
    lines = windows(site).apply("interpolate", site.names[1], params={"every": site.small})
    return _filled(site, lines, {site.names[1]: col("value")})


_REGISTERS: Mapping[str, str | tuple[str, int]] = {
    "top": "double",
    "word": "string",
    "seen": ("int64", 0),
}


def _patterns(site: Site) -> list[Pattern]:
    key, number, text, small = site.columns
    seen = {"seen": col("seen") + 1}
    begin = event(small.is_not_null(), keep={"top": number, "word": text})
    rise = event(number > col("top"), keep={"top": number, **seen})
    some = event(text == "a", keep={"word": text})
    return [
        then(begin, repeated(rise)),
        then(some, repeated(event(small < 2, keep=seen), least=0), event(number == number)),
        then(begin, optional(some), one_of(rise, then(event(key > 0), some))),
        repeated(one_of(some, event(small >= 1, keep={**seen, "top": number}))),
        begin,
    ]


def _set_patterns(site: Site) -> list[Pattern]:
    """Registers count, for a set of events has no value of its own."""
    _, number, text, small = site.columns
    seen = {"seen": col("seen") + 1}
    begin = event(small >= 1, keep=seen)
    return [
        then(begin, repeated(no_event(text == "a"), least=0), event(number > 0, keep=seen)),
        repeated(event(small.is_not_null(), keep=seen)),
        then(begin, optional(no_event(number == number)), event(text == "a")),
    ]


def _detect(site: Site) -> Stream:
    sets, overlap = site.random.random() < 0.3, site.random.random() < 0.5
    matches = site.by_key().detect(
        site.random.choice(_set_patterns(site) if sets else _patterns(site)),
        within=2 * site.small,
        registers=_REGISTERS,
        overlap=overlap,
        simultaneous="set" if sets else "sequence",
    )
    return _filled(site, matches, dict(zip(site.names[1:], map(col, _REGISTERS), strict=True)))


def _sequence(mode: Mode) -> Growth:
    def grow(site: Site) -> Stream:
        key, number, text, small = site.names
        steps = {"a": site.stream, "b": site.other}
        # A third step, or something that must not lie between: seldom, for they are long plans.
        more = site.random.choice(["", "", "", "", "", "", "step", "barrier"])
        if more == "step":
            steps["c"] = site.other
        last = list(steps)[-1]
        barrier = {last: site.other} if more == "barrier" else None
        exact = site.random.random() < 0.5
        unbounded = mode == "recent" and site.random.random() < 0.3
        matches = sequence(
            steps,
            key,
            mode=mode,
            within=None if unbounded else 2 * site.small,
            exact=exact,
            not_between=barrier,
            select={
                key: col(f"a.{key}"),
                number: col(f"{last}.{number}"),
                text: col(f"a.{text}"),
                small: col(f"{last}.{small}"),
            },
        )
        if site.random.random() < 0.5:
            return matches.select(*site.names)
        took = col(f"{last}_time") - col("a_time")
        return matches.select(**{key: col(key), number: col(number), text: col(text), small: took})

    return grow


MODULE_GROWTHS: dict[str, Growth] = {
    **{f"apply on {name}": _apply(windows) for name, windows in _WINDOWS.items()},
    "module beside": _beside,
    "apply top_k": _top_k,
    "apply followed_by": _followed_by,
    "apply interpolate": _interpolate,
    "detect": _detect,
    "sequence, recent": _sequence("recent"),
    "sequence, chronicle": _sequence("chronicle"),
}
"""Modules and patterns, by name."""
