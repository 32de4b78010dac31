"""Experiments of the literature, one module a figure, repeated by `thalweg repro <figure>`.

`point` makes a measured point and `draw_series` the usual picture: one line for each series over x. An experiment with
another kind of picture draws it itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from thalweg.cli.bench import Value
from thalweg.cli.repro import Line

__all__ = ["Line", "draw_series", "point"]


def point(figure: str, series: str, x: Value, metric: str, value: float, unit: str, **params: Value) -> Line:
    """
    >>> point("6-10", "WID", 20, "run time", 1.5, "s").to_json()
    '{"bench": "repro", "metric": "run time", "value": 1.5, "unit": "s", "params": {"figure": "6-10", "series": "WID", "x": 20}}'
    """
    return Line("repro", metric, value, unit, {"figure": figure, "series": series, "x": x, **params})


def draw_series(lines: Iterable[Line], path: Path, *, title: str, x: str, log_x: bool = False, log_y: bool = False) -> None:
    """One panel for each metric, in it one line for each series. Points with a text for x stand side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    metrics: dict[str, dict[str, list[Line]]] = {}
    for line in lines:
        metrics.setdefault(f"{line.metric} ({line.unit})", {}).setdefault(str(line.params["series"]), []).append(line)
    figure, panels = plt.subplots(1, len(metrics), figsize=(6.4 * len(metrics), 4.8), squeeze=False)
    try:
        for panel, (metric, series) in zip(panels[0], metrics.items(), strict=True):
            for name, points in series.items():
                panel.plot([one.params["x"] for one in points], [one.value for one in points], marker="o", markersize=4, label=name)
            panel.set(xlabel=x, ylabel=metric, xscale="log" if log_x else panel.get_xscale(), yscale="log" if log_y else "linear")
            if not log_y:
                panel.set_ylim(bottom=0)
            panel.legend()
        figure.suptitle(title)
        figure.tight_layout()
        figure.savefig(path, dpi=120)
    finally:
        plt.close(figure)
