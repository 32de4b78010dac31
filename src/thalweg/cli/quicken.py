"""`thalweg quicken`: an archive of the classes that Spark loads, so that it starts faster."""

from __future__ import annotations

import click

__all__ = ["quicken"]


@click.command
@click.option("--undo", is_flag=True, help="Remove the archive.")
def quicken(*, undo: bool) -> None:
    """Make Spark start faster from now on.

    Runs a small query and keeps the classes that Spark loaded for it in an archive, some 200 MB in
    the user's cache. Sessions of this Java and this PySpark use it. The first program that runs
    Spark does the same after its end; this does it now.
    """
    from thalweg.spark.processes.archive_building import remove_archive, write_archive
    from thalweg.spark.processes.class_archive import archive_file

    if undo:
        remove_archive(archive_file())
        click.echo("Spark starts without an archive of its classes.")
        return
    click.echo("Running a small query on Spark, to see which classes it loads ...")
    write_archive()
    file = archive_file()
    click.echo(f"{file} ({file.stat().st_size / 1e6:,.0f} MB): Spark starts faster from now on.")
