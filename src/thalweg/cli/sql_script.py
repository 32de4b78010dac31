"""Statements of `thalweg sql` that a file, a pipe or the shell may hold besides queries.

    CREATE [TEMPORARY] TABLE name WITH ('path' = 'orders', 'time' = 'ts', 'disorder' = '1 min')
    CREATE [TEMPORARY] VIEW name AS SELECT ...
    INSERT INTO name SELECT ...            into the files of a table that was created
    SHOW TABLES;  DESCRIBE name;  EXPLAIN SELECT ...;  SET name = value
    SELECT ... FROM 'orders.csv'           a file or folder by its name

Statements end with ';'. Tokens come from sqlglot; this module only parses their first words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not marked public

from thalweg.cli.sql_run import Job, Sink
from thalweg.cli.sql_sources import Place, parse_options
from thalweg.errors import PlanError, did_you_mean
from thalweg.model.type_names import shown_columns
from thalweg.sql.grammar import TABLE_FUNCTIONS, ThalwegSql
from thalweg.sql.relations import free_name

__all__ = ["Script", "Statement", "split", "with_files"]

LEAVE = ("quit", "exit")
_READS = (TokenType.FROM, TokenType.JOIN)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its first word in lower case, and its text."""

    word: str
    text: str


def _tokens(text: str) -> list[Token]:
    try:
        return list(ThalwegSql().tokenize(text))
    except TokenError:
        return []  # parsing the query reports which quote is open


def split(text: str) -> list[Statement]:
    """The statements of a text.

    >>> [(s.word, s.text) for s in split("SHOW TABLES; SELECT ';' AS a FROM s")]
    [('show', 'SHOW TABLES'), ('select', "SELECT ';' AS a FROM s")]
    """
    tokens = _tokens(text)
    if not tokens:
        return [Statement("select", text)] if text.strip() else []
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [
        Statement(words[0].text.lower(), text[words[0].start : words[-1].end + 1])
        for words in statements
        if words
    ]


def with_files(job: Job, text: str) -> tuple[Job, str]:
    """A query with the files that it names in FROM or JOIN as sources of its job.

    A file is called by its name without the ending, numbered where something else has this name.
    """
    tokens = _tokens(text)
    places = list(job.places)
    found = [at for at in range(len(tokens)) if _is_file(tokens, at)]
    others = {*(job.views or ()), *_names_in_with(tokens)}
    for path in dict.fromkeys(tokens[at].text for at in found):
        if all(place.path != path for place in places):
            names = others | {place.name for place in places}
            places.append(Place(free_name(_name_of(path), names), path))
    by_path = {place.path: place.name for place in places}
    for at in reversed(found):
        token = tokens[at]
        text = f"{text[: token.start]}{by_path[token.text]}{text[token.end + 1 :]}"
    return replace(job, places=places), text


def _is_file(tokens: list[Token], at: int) -> bool:
    """Whether a token is text where a query names a stream: FROM 'a', TUMBLE(TABLE 'a', ...)."""
    if tokens[at].token_type != TokenType.STRING or at == 0:
        return False
    before = tokens[at - 1]
    if before.token_type == TokenType.L_PAREN and at > 2:
        function, reads = tokens[at - 2], tokens[at - 3].token_type
        return function.text.upper() in TABLE_FUNCTIONS and reads in _READS
    return before.token_type in _READS or before.text.upper() == "TABLE"


def _names_in_with(tokens: list[Token]) -> set[str]:
    """The names before `AS (`, which WITH gives to queries."""
    return {
        name.text
        for name, alias, bracket in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if alias.token_type == TokenType.ALIAS and bracket.token_type == TokenType.L_PAREN
    }


def _name_of(path: str) -> str:
    stem = Path(path.rstrip("/*")).name.partition(".")[0]
    name = "".join(letter if letter.isalnum() else "_" for letter in stem) or "file"
    return name if name.isidentifier() else f"file_{name}"


@dataclass
class Script:
    """What the statements so far have declared: sources, views, and the sinks of tables."""

    job: Job
    views: dict[str, str] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)

    def query(self, text: str) -> tuple[Job, str]:
        """The job of a query, with its files and views, and its text for that job."""
        return with_files(replace(self.job, views=dict(self.views)), text)

    def describe(self, name: str = "") -> list[str]:
        """The streams and views, or one of them with its columns."""
        lines = [_described(place) for place in self.job.places if name in ("", place.name)]
        lines += [
            f"{view} (view): {' '.join(text.split())}"
            for view, text in self.views.items()
            if name in ("", view)
        ]
        if name and not lines:
            names = [*(place.name for place in self.job.places), *self.views]
            raise PlanError(f"DESCRIBE: unknown stream {name!r}{did_you_mean(name, names)}")
        return lines or [
            "no streams; CREATE TABLE name WITH ('path' = 'folder', 'time' = 'ts') adds one."
        ]

    def create(self, text: str) -> str:
        """CREATE TABLE or VIEW; returns a line that describes it."""
        tokens = [
            token for token in _tokens(text)[1:] if token.text.upper() not in ("TEMPORARY", "TEMP")
        ]
        if len(tokens) < 2 or tokens[0].text.upper() not in ("TABLE", "VIEW"):
            _refuse("CREATE", "CREATE TABLE name WITH (...) or CREATE VIEW name AS SELECT ...")
        name = tokens[1].text
        if tokens[0].text.upper() == "VIEW":
            if len(tokens) < 4 or tokens[2].token_type != TokenType.ALIAS:
                _refuse("CREATE VIEW", "CREATE VIEW name AS SELECT ...")
            query = text[tokens[3].start :]
            job, query = with_files(replace(self.job, views={**self.views, name: query}), query)
            views = {**self.views, name: query}
            # a mistake in the view is reported now
            replace(job, views=views, in_process=True).query(f'SELECT * FROM "{name}"')
            self.views, self.job = views, replace(self.job, places=job.places)
            return f"view {name}"
        return self._table(name, tokens[2:])

    def _table(self, name: str, tokens: list[Token]) -> str:
        options = _options(tokens)
        path = options.pop("path", None)
        if path is None:
            _refuse("CREATE TABLE", f"CREATE TABLE {name} WITH ('path' = 'folder', 'time' = 'ts')")
        if options.pop("mode", "") == "sink" or not Path(path).exists():
            self.sinks[name] = Sink(options.get("format", "parquet"), path)
            return f"table {name}, to be written to {path}"
        place = Place(name, path, parse_options(name, path, options))
        place.time()
        kept = [other for other in self.job.places if other.name != name]
        self.job = replace(self.job, places=[*kept, place])
        return _described(place)

    def insert(self, text: str) -> tuple[Job, str]:
        """INSERT INTO table SELECT ...: the job that writes there, and its query."""
        tokens = _tokens(text)
        if len(tokens) < 4 or tokens[1].text.upper() != "INTO":
            _refuse("INSERT", "INSERT INTO table SELECT ...")
        name = tokens[2].text
        if name not in self.sinks:
            hint = did_you_mean(name, self.sinks)
            raise PlanError(
                f"INSERT INTO {name}: nobody created that table to write to{hint} "
                f"CREATE TABLE {name} WITH ('path' = 'answers', 'format' = 'parquet') first."
            )
        job, query = self.query(text[tokens[3].start :])
        return replace(job, sink=self.sinks[name], output="final"), query

    def set(self, text: str) -> None:
        """SET name = value."""
        name, _, value = text.partition(" ")[2].partition("=")
        if not name.strip().isidentifier() or not value.strip():
            _refuse("SET", "SET name = value")
        literal = value.strip().strip("'")
        parameters: Mapping[str, object] = self.job.parameters or {}
        self.job = replace(
            self.job,
            parameters={**parameters, name.strip(): int(literal) if literal.isdigit() else literal},
        )


def _options(tokens: list[Token]) -> dict[str, str]:
    """WITH ('key' = 'value', ...); columns in front of it are those of the files."""
    at = next((n for n, token in enumerate(tokens) if token.token_type == TokenType.WITH), None)
    if at is None:
        return {}
    words = [
        token.text
        for token in tokens[at + 1 :]
        if token.token_type
        in (
            TokenType.STRING,
            TokenType.VAR,
            TokenType.NUMBER,
            TokenType.IDENTIFIER,
        )
    ]
    return dict(zip(words[::2], words[1::2], strict=False))


def _described(place: Place) -> str:
    columns = shown_columns(place.stream().schema)
    return f"{place.name} ({columns}), time {place.time()}"


def _refuse(what: str, form: str) -> NoReturn:
    raise PlanError(f"{what}: write {form}.")
