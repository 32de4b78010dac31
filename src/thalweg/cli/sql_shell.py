"""The shell of `thalweg sql`: queries until the end, with history, completion, and answers that
change on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from rich.console import Console

from thalweg.cli.sql import Player
from thalweg.cli.sql_run import Job
from thalweg.cli.sql_script import split
from thalweg.cli.sql_sources import parse_source
from thalweg.errors import ThalwegError
from thalweg.model.printing import printable
from thalweg.model.type_names import shown_columns

__all__ = ["Shell", "Words", "prompt", "words_of"]

_HELP = """\
A statement ends with ';'. Ctrl-C stops the one that runs; quit, exit and Ctrl-D leave.
  CREATE TABLE name WITH ('path' = 'folder', 'time' = 'ts'), CREATE VIEW name AS SELECT ...,
  INSERT INTO name SELECT ..., SHOW TABLES, DESCRIBE name, EXPLAIN SELECT ...,
  SELECT ... FROM 'file.csv'
  \\d                 the streams and their columns
  \\source NAME=PLACE one more stream: \\source Main=packets time=ts disorder='1 min'
  \\set NAME=VALUE    a parameter, written :name
  \\explain QUERY     its plan
  \\q                 leave"""

_KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "UNION ALL", "JOIN", "LEFT JOIN", "ON", "AS",
    "AND", "OR", "NOT", "WITH", "DISTINCT", "RANGE", "SLIDE", "WA", "PA", "RATTR", "SATTR",
    "TUMBLING", "ALL", "rows", "row-num", "rank(", "minutes", "seconds", "INTERVAL", "TUMBLE(",
    "HOP(", "SESSION(", "SNAPSHOT(", "COUNT(", "TABLE", "DESCRIPTOR(", "PARTITION BY",
    "window_start", "window_end",
)  # fmt: skip


def words_of(job: Job) -> list[str]:
    """What may be typed: keywords, functions, streams and their columns."""
    from thalweg.aggregates import aggregate_names
    from thalweg.expr.functions import FUNCTIONS

    words = {
        *_KEYWORDS,
        *(f"{name}(" for name in (*aggregate_names(), *FUNCTIONS) if name.isidentifier()),
    }
    for place in job.places:
        words |= {place.name, place.time(), *(place.stream().schema.names)}
    return sorted(words, key=str.lower)


class Words(Completer):
    """Completes the word before the cursor, in the case in which it was begun."""

    def __init__(self, job: Callable[[], Job]) -> None:
        self._job = job
        self._known: tuple[Job | None, list[str]] = (None, [])

    def _words(self) -> list[str]:
        job = self._job()
        if self._known[0] is not job:
            self._known = (job, words_of(job))
        return self._known[1]

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        begun = document.get_word_before_cursor(WORD=False)
        if not begun:
            return
        for word in self._words():
            if word.lower().startswith(begun.lower()) and word.lower() != begun.lower():
                keyword = word in _KEYWORDS and word.isupper()
                yield Completion(
                    word.lower() if keyword and begun.islower() else word,
                    start_position=-len(begun),
                )


def prompt(job: Callable[[], Job], history: Path | None = None) -> Callable[[str], str]:
    """A line editor with history and completion."""
    file = history if history is not None else Path.home() / ".thalweg" / "sql_history"
    file.parent.mkdir(parents=True, exist_ok=True)
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(file)), completer=Words(job)
    )
    return session.prompt


class Shell:
    """Reads lines until one ends a query, and runs it."""

    def __init__(self, player: Player, out: Console) -> None:
        self.player, self.out = player, out

    @property
    def job(self) -> Job:
        return self.player.script.job

    @job.setter
    def job(self, job: Job) -> None:
        self.player.script.job = job

    def run(self, read: Callable[[str], str]) -> None:
        self.out.print("thalweg sql; \\help shows the commands.", highlight=False)
        entered = ""
        while True:
            try:
                line = read("   ... " if entered else "sql> ")
            except KeyboardInterrupt:
                entered = ""
                continue
            except EOFError:
                return
            if not entered and not line.strip():
                continue
            if not entered and line.strip().startswith("\\"):
                if self._command(line.strip()):
                    return
                continue
            if not entered and line.strip().rstrip(";").lower() in ("quit", "exit"):
                return
            entered = f"{entered}\n{line}" if entered else line
            if entered.rstrip().endswith(";"):
                for statement in split(entered):
                    self._try(partial(self.player.play, statement, self.out))
                entered = ""

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except ThalwegError as error:
            message = str(error).partition("\n  at ")[0]
            self.out.print(printable(message), style="red", markup=False, highlight=False)

    def _command(self, line: str) -> bool:
        """Whether the shell ends."""
        word, _, rest = line.partition(" ")
        if word in ("\\q", "\\quit", "\\exit"):
            return True
        actions: dict[str, Callable[[str], None]] = {
            "\\d": self._describe,
            "\\source": self._source,
            "\\set": self._set,
            "\\explain": self._explain,
        }
        action = actions.get(word)
        if action is None:
            self.out.print(_HELP, markup=False, highlight=False)
        else:
            self._try(lambda: action(rest.strip()))
        return False

    def _describe(self, _: str) -> None:
        for place in self.job.places:
            columns = shown_columns(place.stream().schema)
            self.out.print(
                f"{place.name} ({columns}), time {place.time()}", markup=False, highlight=False
            )
        if not self.job.places:
            self.out.print(
                "no streams; \\source NAME=FOLDER adds one.", markup=False, highlight=False
            )

    def _source(self, text: str) -> None:
        place = parse_source(text)
        place.time()
        self.job = replace(
            self.job,
            places=[*(other for other in self.job.places if other.name != place.name), place],
        )
        self._describe("")

    def _set(self, text: str) -> None:
        name, _, value = text.partition("=")
        parameters = dict(self.job.parameters or {})
        parameters[name.strip()] = int(value) if value.strip().isdigit() else value.strip()
        self.job = replace(self.job, parameters=parameters)

    def _explain(self, text: str) -> None:
        job, query = self.player.script.query(text)
        self.out.print(job.query(query).explain(), markup=False, highlight=False)
