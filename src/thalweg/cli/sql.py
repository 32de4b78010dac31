"""`thalweg sql`: a query over files, on Spark or in this process; without a query, a shell."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from datetime import time as dt_time
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

import thalweg as tw
from thalweg.cli.sql_run import Job, Look, parse_sink
from thalweg.cli.sql_script import Script, Statement, split
from thalweg.cli.sql_sources import parse_source
from thalweg.cli.sql_table import show, sort_key

__all__ = ["Player", "console", "play", "sql"]


def console() -> Console:
    """Standard output; 200 columns wide where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def play(job: Job, query: tw.Stream, out: Console, *, most: int) -> None:
    """Run a query with its answers on the screen, changing as they change. Ctrl-C stops it."""
    looks = job.run(query)
    columns = query.schema.names
    seen: deque[Look] = deque(maxlen=1)
    try:
        if out.is_terminal and job.sink.format == "show":
            with Live(console=out, refresh_per_second=8, transient=True) as live:
                for look in looks:
                    seen.append(look)
                    live.update(show(look, columns, most=most))
        else:
            seen.extend(looks)
    except KeyboardInterrupt:
        looks.close()
        out.print("stopped")
    if seen and job.sink.format == "show":
        out.print(show(seen[0], columns, most=most))


def _lines(looks: Iterator[Look]) -> Iterator[str]:
    for look in deque(looks, maxlen=1):
        for start, end, payload in sorted(look.rows(), key=sort_key):
            yield json.dumps({"_start": start, "_end": end, **payload}, default=_json)


def _json(value: object) -> str:
    """The text of a value that JSON has no type for: ISO 8601 for times, else `str`."""
    return value.isoformat() if isinstance(value, (date, dt_time)) else str(value)


@click.command
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("-e", "--execute", "text", help="The query itself, instead of a file.")
@click.option(
    "-s",
    "--source",
    "sources",
    multiple=True,
    metavar="NAME=PLACE",
    help="A stream by name: \"Main=packets time=ts disorder='1 min'\"; may be repeated.",
)
@click.option(
    "--sink",
    "sink",
    default="show",
    show_default=True,
    help="Where answers go: show, noop, parquet:PATH, csv:PATH or json:PATH.",
)
@click.option(
    "--output",
    type=click.Choice(["changelog", "final", "upserts"]),
    default="changelog",
    show_default=True,
    help="What files get: every change, final rows alone, or the newest row of each group.",
)
@click.option(
    "--consistency",
    type=click.Choice(["speculative", "eager", "final"]),
    default="speculative",
    show_default=True,
    help="When answers leave: early and revised (speculative, eager), or when they are final.",
)
@click.option("--checkpoint", help="A folder from which a stopped query goes on.")
@click.option(
    "-p",
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value for :NAME; may be repeated.",
)
@click.option("--in-process", is_flag=True, help="In this process, without Spark.")
@click.option("--spark", "on_spark", is_flag=True, help="On Spark, also where files are small.")
@click.option("--follow", is_flag=True, help="Go on with new files until Ctrl-C.")
@click.option("--explain", "explained", is_flag=True, help="Show the plan and do not run it.")
@click.option("--json", "as_json", is_flag=True, help="The final table as JSON, one row a line.")
@click.option(
    "--rows",
    "most",
    default=20,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many answers to show.",
)
def sql(
    file: Path | None,
    text: str | None,
    sources: tuple[str, ...],
    sink: str,
    output: str,
    consistency: str,
    checkpoint: str | None,
    params: tuple[str, ...],
    *,
    in_process: bool,
    on_spark: bool,
    follow: bool,
    explained: bool,
    as_json: bool,
    most: int,
) -> None:
    """Run queries in SQL over files: in this process where they are small, else on Spark, local[*].

    Statements come from FILE, -e or standard input, and end with ';'; without any, a shell.

    \b
    thalweg sql -e "SELECT * FROM 'orders.csv'"
    thalweg sql -s "orders=orders.csv time=ts" -e \\
        "SELECT item, count(*) FROM TUMBLE(orders, ts, '1 hour') GROUP BY item"
    """
    if in_process and on_spark:
        raise click.UsageError("give --in-process or --spark, not both.")
    if file is not None and text is not None:
        raise click.UsageError("give a FILE or -e, not both.")
    places = [parse_source(source) for source in sources]
    job = Job(
        places,
        in_process=in_process,
        follow=follow,
        consistency=consistency,
        output=output,
        sink=parse_sink(sink),
        checkpoint=checkpoint,
        parameters=_parameters(params),
    )
    script = _script(file) if text is None else text
    player = Player(
        Script(job),
        in_process=in_process,
        on_spark=on_spark,
        most=most,
        as_json=as_json,
        explained=explained,
    )
    if script is None:
        from thalweg.cli.sql_shell import Shell, prompt

        shell = Shell(player, console())
        shell.run(prompt(lambda: shell.job))
        return
    for statement in split(script):
        if not player.play(statement, console()):
            return


@dataclass
class Player:
    """Runs statements one after the other, each on the engine that was requested or chosen by
    `Job.choose`."""

    script: Script
    in_process: bool = False
    on_spark: bool = False
    most: int = 20
    as_json: bool = False
    explained: bool = False

    def play(self, statement: Statement, out: Console) -> bool:
        """Run a statement; False if it ends the script."""
        script, text = self.script, statement.text
        rest = text.partition(" ")[2].strip()
        match statement.word:
            case "quit" | "exit":
                return False
            case "create":
                out.print(script.create(text), markup=False, highlight=False)
            case "show":
                for line in script.describe():
                    out.print(line, markup=False, highlight=False)
            case "describe" | "desc":
                for line in script.describe(rest.removeprefix("TABLE ").strip()):
                    out.print(line, markup=False, highlight=False)
            case "set":
                script.set(text)
            case "explain":
                self._query(*script.query(rest), out, explained=True)
            case "insert":
                self._query(*script.insert(text), out)
            case _:
                self._query(*script.query(text), out, explained=self.explained)
        return True

    def _query(self, job: Job, text: str, out: Console, *, explained: bool = False) -> None:
        job, why = job.choose(in_process=self.in_process, on_spark=self.on_spark)
        query = job.query(text)
        if explained:
            click.echo(_explained(job, query))
            return
        if why:
            click.echo(why, err=True)
        if self.as_json:
            for line in _lines(job.run(query)):
                click.echo(line)
        else:
            play(job, query, out, most=self.most)


def _script(file: Path | None) -> str | None:
    """The statements of a file, or of standard input where that is no terminal."""
    try:
        if file is not None:
            return file.read_text(encoding="utf-8-sig")
        return None if sys.stdin.isatty() else sys.stdin.read()
    except UnicodeDecodeError as reason:
        place = "standard input" if file is None else str(file)
        raise click.ClickException(
            f"{place} is no text in UTF-8 (byte {reason.start}); statements in SQL are."
        ) from reason


def _explained(job: Job, query: tw.Stream) -> str:
    plan = query.explain(consistency=job.consistency)
    if job.in_process:
        return plan
    from thalweg import spark

    return f"{plan}\n\non Spark\n{spark.explain(query)}"


def _parameters(params: tuple[str, ...]) -> dict[str, object]:
    parameters: dict[str, object] = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--param {text!r}: write NAME=VALUE.")
        parameters[name] = int(value) if value.lstrip("-").isdigit() else value
    return parameters
