"""`thalweg demo`: disordered packets in; early answers, revisions and final answers out.

The first step is shown on the screen before large packages are imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from thalweg.cli.demo_screen import Picture, screen

__all__ = ["demo"]


@click.command
@click.option(
    "--packets",
    "count",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(min=10_000),
    help="How many packets.",
)
@click.option("--in-process", is_flag=True, help="Without Spark, in this process.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="On a terminal: keep what is on the screen at the end, as SVG.",
)
@click.option(
    "--transcript",
    type=click.Path(path_type=Path),
    help="On a terminal: keep everything that is written to it.",
)
def demo(count: int, *, in_process: bool, picture: Path | None, transcript: Path | None) -> None:
    """Count packets that come late and out of order, and show early, revised and final answers. On
    Spark, local[*]."""
    if not in_process and find_spec("pyspark") is None:
        raise click.ClickException(
            "the demo runs on Spark, which is not installed. Run thalweg demo --in-process, or "
            "install it with pip install 'thalweg[spark]'."
        )
    click_screen = screen(transcript, picture)
    try:
        click_screen.doing(f"Making {count:,} packets, a fifth of them up to a minute late")
        from thalweg.cli.demo_run import run_demo

        run_demo(count, click_screen, in_process=in_process)
    finally:
        if isinstance(click_screen, Picture):
            click_screen.stop()
