"""The text of a query: tokens are checked, the tree is made, and every mistake is shown at its
place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not marked public

from thalweg.errors import PlanError, SqlError
from thalweg.expr._syntax import Source, check_token, open_quote
from thalweg.sql.grammar import STATEMENT_TOKENS, ThalwegSql
from thalweg.sql.syntax import Place, WindowClause

__all__ = ["TOO_DEEP", "SqlText"]

_WORD = re.compile(r"\w+")
_CLOSING = re.compile(r"[\s*]*\)")
"""Tokens whose place sqlglot's tree does not record: a star, and the end of a call."""


TOO_DEEP = "the query is too deep; name parts of it in WITH, and write long chains of OR as IN."


@dataclass(frozen=True, slots=True)
class SqlText(Source):
    """A query as it was written."""

    def refuse(self, reason: str, start: int, end: int | None = None) -> NoReturn:
        """An error that shows the line, with carets under the place."""
        begin = self.text.rfind("\n", 0, start) + 1
        line = self.text[begin:].split("\n", 1)[0].replace("\t", " ")
        row, column = self.text.count("\n", 0, start) + 1, start - begin + 1
        last = self._word_end(start) if end is None else end
        wide = max(1, min(last + 1 - start, len(line) - column + 1))
        raise SqlError(
            f"SQL, line {row}, column {column}: {reason}\n  {line}\n "
            f" {' ' * (column - 1)}{'^' * wide}",
            row,
            column,
        )

    def _word_end(self, start: int) -> int:
        found = _WORD.match(self.text, start)
        return found.end() - 1 if found else start

    def refuse_token(self, token: Token, reason: str) -> NoReturn:
        self.refuse(reason, token.start, token.end)

    def refuse_place(self, place: Place, reason: str) -> NoReturn:
        self.refuse(reason, place.start, place.end)

    def refuse_node(self, node: exp.Expr, reason: str) -> NoReturn:
        place = self.place(node)
        self.refuse(reason, place.start, place.end)

    def place(self, node: exp.Expr) -> Place:
        """From the first to the last token of a part of the tree."""
        starts, ends = [], []
        for part in node.walk():
            clause = part.args.get("clause") or part.args.get("window")
            if "start" in part.meta:
                starts.append(part.meta["start"])
                ends.append(part.meta["end"])
            elif isinstance(clause, WindowClause):
                starts.append(clause.place.start)
                ends.append(clause.place.end)
        start, end = min(starts, default=0), max(ends, default=0)
        while self.text.count("(", start, end + 1) > self.text.count(")", start, end + 1):
            closing = _CLOSING.match(self.text, end + 1)
            if closing is None:
                break
            end = closing.end() - 1
        return Place(start, end)

    def written(self, node: exp.Expr) -> str:
        """A part of the tree as it was written."""
        place = self.place(node)
        return " ".join(self.text[place.start : place.end + 1].split())

    def at(self, where: exp.Expr | Place) -> _At:
        """A context in which an error of the plan is shown at a place of the query."""
        return _At(self, where)

    def tree(self) -> exp.Expr:
        """The syntax tree of the text, which must be one query."""
        dialect = ThalwegSql()
        try:
            tokens = dialect.tokenize(self.text)
        except TokenError:
            self.refuse("a quote is opened and never closed.", open_quote(self.text))
        while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
            tokens.pop()
        if not tokens:
            self.refuse("a query is expected; the text is empty.", 0)
        self._check(tokens)
        try:
            trees = dialect.parser().parse(tokens, self.text)
        except ParseError as error:
            self._refuse_syntax(error, tokens)
        except RecursionError:
            self.refuse(TOO_DEEP, 0)
        if len(trees) != 1 or trees[0] is None:
            self.refuse("one query is expected.", tokens[0].start)
        return _with_whole_names(trees[0])

    def _check(self, tokens: Sequence[Token]) -> None:
        first = tokens[0]
        if first.token_type not in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
            self.refuse_token(
                first, f"a query begins with SELECT or WITH, not with {first.text!r}."
            )
        for token in tokens:
            if token.token_type == TokenType.SEMICOLON:
                self.refuse("one query is expected; something follows the ';'.", token.start)
            check_token(self, token, STATEMENT_TOKENS, "a query")

    def _refuse_syntax(self, error: ParseError, tokens: Sequence[Token]) -> NoReturn:
        found = error.errors[0] if error.errors else {}
        place = (found.get("line"), found.get("col"))
        token = next((t for t in tokens if (t.line, t.col) == place), tokens[-1])
        description = str(found.get("description") or error).rstrip(".")
        if "Invalid expression" in description or "Unexpected token" in description:
            description = f"{token.text!r} is not expected here"
        elif description.startswith("Required keyword"):
            description = f"something is missing at {token.text!r}"
        elif description.startswith("Expected table name"):
            description = f"the name of a stream is missing at {token.text!r}"
        elif description.startswith(("Expect", "Failed")):
            description = f"{description[0].lower()}{description[1:]}, at {token.text!r}"
        self.refuse_token(token, f"{description}.")


def _with_whole_names(tree: exp.Expr) -> exp.Expr:
    """Calls under a namespace, `finance.vwap(x)`, as calls of one name."""
    for dot in [
        found for found in tree.find_all(exp.Dot) if isinstance(found.expression, exp.Anonymous)
    ]:
        call = dot.expression
        parts = list(dot.this.find_all(exp.Identifier, bfs=False))
        call.set("this", ".".join([*(part.name for part in parts), call.this]))
        call.meta["start"] = min(part.meta.get("start", call.meta["start"]) for part in parts)
        dot.replace(call)
    return tree


class _At:
    """Turns a refusal of the plan into one that points at the text."""

    def __init__(self, text: SqlText, where: exp.Expr | Place) -> None:
        self.text, self.where = text, where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, PlanError) or isinstance(error, SqlError):
            return
        place = self.where if isinstance(self.where, Place) else self.text.place(self.where)
        self.text.refuse_place(place, error.reason)
