"""`thalweg ha`: a query as several replicas with a merge in front."""

from __future__ import annotations

import time
from pathlib import Path

import click

from thalweg.cli.ha_folder import HaFolder, QueryFile
from thalweg.cli.ha_supervisor import Supervisor
from thalweg.cli.ha_task import Engine
from thalweg.errors import PlanError
from thalweg.io.locks import lock_file

__all__ = ["ha"]

_LOOK_S = 0.05


@click.command
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-n", "--replicas", default=3, show_default=True, help="How many replicas.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where logs and checkpoints lie; FILE.ha by default.",
)
@click.option(
    "--in-process", is_flag=True, help="Replicas are Python processes, not Spark applications."
)
@click.option("--finish", is_flag=True, help="End when the input that is there now is merged.")
@click.option("--every", default=2.0, show_default=True, help="Seconds between two status tables.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line instead of tables.")
def ha(
    file: Path,
    *,
    replicas: int,
    folder: Path | None,
    in_process: bool,
    finish: bool,
    every: float,
    as_json: bool,
) -> None:
    """Run the query in FILE as several replicas, each a process of its own, and merge them.

    FILE is Python and defines a stream `query`. The answer is the element log FOLDER/front/out. A
    process that ends is started again; as long as one replica lives, answers go on.
    """
    QueryFile.load(file)  # refuses a wrong file before anything is started
    place = HaFolder(folder or file.with_suffix(".ha"))
    if not lock_file(place.path / "lock"):
        raise PlanError(f"{place.path.name}: another thalweg ha is running there.")
    engine: Engine = "in-process" if in_process else "spark"
    supervisor = Supervisor(place, file, engine, finish=finish)
    supervisor.begin(replicas)
    try:
        while supervisor.look_after():
            if supervisor.is_time(every):
                click.echo(supervisor.shown(as_json=as_json))
            time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        pass
    finally:
        supervisor.end()
    click.echo(supervisor.shown(as_json=as_json))
