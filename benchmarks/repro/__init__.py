"""Experiments of the literature, one module a figure, repeated by `thalweg repro <figure>`.

`point` makes a measured point and `draw_series` the usual picture: one line for each series over x.
An experiment with another kind of picture draws it itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from thalweg.cli.bench import Value
from thalweg.cli.repro import Line

__all__ = ["Line", "draw_series", "point"]


def point(
    figure: str, series: str, x: Value, metric: str, value: float, unit: str, **params: Value
) -> Line:
    """
    >>> point("6-10", "WID", 20, "run time", 1.5, "s").to_json()
    '{"bench": "repro", "metric": "run time", "value": 1.5, "unit": "s", "params": {"figure":
    "6-10", "series": "WID", "x": 20}}'
    """
    return Line(
        "repro", metric, value, unit, {"figure": figure, "series": series, "x": x, **params}
    )


def draw_series(
    lines: Iterable[Line],
    path: Path,
    *,
    title: str,
    x: str,
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """One panel for each metric, in it one line for each series. Points with a text for x stand
    side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    metrics: dict[str, dict[str, list[Line]]] = {}
    for line in lines:
        metrics.setdefault(f"{line.metric} ({line.unit})", {}).setdefault(
            str(line.params["series"]), []
        ).append(line)
    styles = _styles(list(dict.fromkeys(name for series in metrics.values() for name in series)))
    figure, panels = plt.subplots(
        1, len(metrics), figsize=(6.4 * len(metrics), 5.2), squeeze=False, layout="constrained"
    )
    try:
        for panel, (metric, series) in zip(panels[0], metrics.items(), strict=True):
            for name, points in series.items():
                panel.plot(
                    [one.params["x"] for one in points],
                    [one.value for one in points],
                    marker="o",
                    markersize=4,
                    **styles[name],
                )
            panel.set(xlabel=x, ylabel=metric)
            if log_x:
                panel.set_xscale("log")
            if log_y:
                panel.set_yscale("log")
            else:
                panel.set_ylim(bottom=0)
        known = {handle.get_label(): handle for panel in panels[0] for handle in panel.get_lines()}
        figure.legend(
            handles=list(known.values()),
            loc="outside lower center",
            ncols=min(len(known), 2 * len(metrics) + 2),
        )
        figure.suptitle(title)
        figure.savefig(path, dpi=120)
    finally:
        plt.close(figure)


def _styles(names: list[str]) -> dict[str, dict[str, str]]:
    """A colour for what stands before the comma of a name, a kind of line for what stands after
    it."""
    colours = list(dict.fromkeys(name.partition(",")[0] for name in names))
    kinds = list(dict.fromkeys(name.partition(",")[2] for name in names))
    lines = ("-", "--", ":", "-.")
    return {
        name: {
            "label": name,
            "color": f"C{colours.index(name.partition(',')[0])}",
            "linestyle": lines[kinds.index(name.partition(",")[2]) % len(lines)],
        }
        for name in names
    }
