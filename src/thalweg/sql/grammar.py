"""The dialect: SQL's SELECT as sqlglot reads it, with windows in brackets, unions of streams, and
table functions.

The tokenizer has few words, so that columns may be called `range`, `rows` or `rank`; what has no
token cannot slip through. Functions parse as plain calls by name. Loaded when the first query is
parsed.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]  # not marked public

from thalweg.expr._grammar import ALLOWED_TOKENS, ThalwegExpressions
from thalweg.sql.syntax import SequenceClause, StreamUnion, TableFunction, WindowFunction
from thalweg.sql.window_grammar import WindowParser

__all__ = ["STATEMENT_TOKENS", "TABLE_FUNCTIONS", "ThalwegSql"]

TABLE_FUNCTIONS = tuple(WindowFunction)

_WORDS = {
    "SELECT": TokenType.SELECT,
    "FROM": TokenType.FROM,
    "WHERE": TokenType.WHERE,
    "GROUP BY": TokenType.GROUP_BY,
    "GROUP-BY": TokenType.GROUP_BY,
    "GROUPBY": TokenType.GROUP_BY,
    "HAVING": TokenType.HAVING,
    "ORDER BY": TokenType.ORDER_BY,
    "ASC": TokenType.ASC,
    "DESC": TokenType.DESC,
    "LIMIT": TokenType.LIMIT,
    "UNION": TokenType.UNION,
    "∪": TokenType.UNION,
    "ALL": TokenType.ALL,
    "DISTINCT": TokenType.DISTINCT,
    "WITH": TokenType.WITH,
    "JOIN": TokenType.JOIN,
    "INNER": TokenType.INNER,
    "LEFT": TokenType.LEFT,
    "RIGHT": TokenType.RIGHT,
    "FULL": TokenType.FULL,
    "OUTER": TokenType.OUTER,
    "CROSS": TokenType.CROSS,
    "SEMI": TokenType.SEMI,
    "ANTI": TokenType.ANTI,
    "ASOF": TokenType.ASOF,
    "ON": TokenType.ON,
    "USING": TokenType.USING,
    "INTERVAL": TokenType.INTERVAL,
    "FILTER": TokenType.FILTER,
    "OVER": TokenType.OVER,
    "PARTITION BY": TokenType.PARTITION_BY,
    "=>": TokenType.FARROW,
}
STATEMENT_TOKENS = (
    ALLOWED_TOKENS
    | frozenset(_WORDS.values())
    | {TokenType.L_BRACKET, TokenType.R_BRACKET, TokenType.COLON}
)
_FROM_ENDS = frozenset(
    {
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.LIMIT,
        TokenType.R_PAREN,
    }
)


class _Streams(WindowParser):
    """What stands in FROM."""

    def _parse_table(self, *args: Any, **options: Any) -> exp.Expr | None:
        members = [self._stream(*args, **options)]
        while self._at_stream_union():
            self._advance()
            self._match(TokenType.ALL)
            members.append(self._stream(*args, **options))
        if len(members) == 1 or members[-1] is None:
            return members[0]
        named = members[-1]
        union = StreamUnion(expressions=members)
        for key in ("alias", "window"):
            union.set(key, named.args.pop(key, None))
        return self.expression(union)

    def _stream(self, *args: Any, **options: Any) -> exp.Expr | None:
        this = self._sequence() or self._table_function() or super()._parse_table(*args, **options)
        if this is not None and self._curr.token_type == TokenType.L_BRACKET:
            this.set("window", self._window_clause())
            if not this.args.get("alias"):
                this.set("alias", self._parse_table_alias())
        return this

    def _parse_table_alias(self, *args: Any, **options: Any) -> exp.TableAlias | None:
        if self._curr.text.upper() == "MATCH_RECOGNIZE" and (
            self._next.token_type == TokenType.L_PAREN
        ):
            self.raise_error(
                "there is no MATCH_RECOGNIZE here; write the pattern with stream.detect(...), or "
                "events after each other as FROM SEQ(...)",
                self._curr,
            )
        return super()._parse_table_alias(*args, **options)

    def _at_stream_union(self) -> bool:
        """Whether a UNION of streams goes on, and not one of queries."""
        if self._curr.token_type != TokenType.UNION:
            return False
        ahead = self._index + 1
        skipped = (TokenType.ALL, TokenType.DISTINCT, TokenType.L_PAREN)
        while ahead < len(self._tokens) and self._tokens[ahead].token_type in skipped:
            ahead += 1
        return ahead < len(self._tokens) and self._tokens[ahead].token_type not in (
            TokenType.SELECT,
            TokenType.WITH,
        )

    def _parse_join(self, *args: Any, **options: Any) -> exp.Join | None:
        if self._curr.token_type != TokenType.COMMA:
            return super()._parse_join(*args, **options)
        self._advance()
        if self._curr.token_type in _FROM_ENDS or not self._curr.text:
            return None  # a comma behind the last stream, as the literature writes it
        return self.expression(exp.Join(this=self._parse_table(), kind="CROSS"))

    def _sequence(self) -> exp.Expr | None:
        """SEQ(stream, [NOT stream,] stream, ...) {MODE word | EXACT | PARTITION BY columns | WITHIN
        amount}."""
        name = self._curr
        if name.text.upper() != "SEQ" or self._next.token_type != TokenType.L_PAREN:
            return None
        self._advance(2)
        clause = SequenceClause(expressions=[], absent=[])
        clause.update_positions(name)
        while True:
            absent = self._match(TokenType.NOT)
            step = self._parse_table()
            if step is None:
                self.raise_error(f"SEQ takes streams; {self._shown()} is none", self._curr)
            if absent:
                clause.args["absent"].append((len(clause.expressions), step))
            else:
                clause.append("expressions", step)
            if not self._match(TokenType.COMMA):
                break
        if not self._match(TokenType.R_PAREN):
            self.raise_error(f"the streams of SEQ end with ')', not {self._shown()}", self._curr)
        while self._sequence_part(clause):
            pass
        return clause

    def _sequence_part(self, clause: SequenceClause) -> bool:
        if self._match_text_seq("MODE"):
            clause.set("mode", self._curr.text)
            self._advance()
        elif self._match_text_seq("EXACT"):
            clause.set("exact", True)
        elif self._match_text_seq("WITHIN"):
            clause.set("within", self._amount("WITHIN"))
        elif self._match(TokenType.PARTITION_BY):
            clause.set("partition", self._parse_csv(self._some_column))
        else:
            return False
        return True

    def _table_function(self) -> exp.Expr | None:
        wrapped = self._curr.text.upper() == "TABLE" and self._next.token_type == TokenType.L_PAREN
        ahead = (
            self._tokens[self._index + 2 : self._index + 4] if wrapped else [self._curr, self._next]
        )
        if len(ahead) < 2:
            return None
        name, after = ahead
        if name.text.upper() not in TABLE_FUNCTIONS or after.token_type != TokenType.L_PAREN:
            return None
        self._advance(4 if wrapped else 2)
        call = TableFunction(this=name.text.upper(), expressions=[], names=[])
        call.update_positions(name)
        while self._curr.token_type != TokenType.R_PAREN:
            self._table_function_argument(call)
            if not self._match(TokenType.COMMA):
                break
        for _ in range(2 if wrapped else 1):
            if not self._match(TokenType.R_PAREN):
                self.raise_error(f"the arguments of {call.this} end with ')'", self._curr)
        call.set("alias", self._parse_table_alias())
        return call

    def _table_function_argument(self, call: TableFunction) -> None:
        name = ""
        if self._next.token_type == TokenType.FARROW:
            name = self._curr.text.lower()
            self._advance(2)
        first = not call.args.get("table") and not call.expressions
        tabled = bool(self._match_text_seq("TABLE"))
        if tabled or name == "data" or (first and not name and self._names_a_stream()):
            call.set("table", self._parse_table())
            if self._match(TokenType.PARTITION_BY):
                several = self._curr.token_type == TokenType.L_PAREN
                call.set(
                    "partition",
                    self._parse_wrapped_csv(self._some_column)
                    if several
                    else [self._some_column()],
                )
            return
        described = self._match_text_seq("DESCRIPTOR")
        argument = self._parse_wrapped(self._some_column) if described else self._parse_assignment()
        if argument is None:
            self.raise_error(f"an argument of {call.this} is missing", self._curr)
        call.append("expressions", argument)
        call.args["names"].append(name)

    def _some_column(self) -> exp.Column:
        found = self._parse_column()
        if not isinstance(found, exp.Column):
            self.raise_error(
                f"the name of a column is expected; {self._shown()} is none", self._curr
            )
        return found  # type: ignore[return-value]  # anything else was refused

    def _names_a_stream(self) -> bool:
        plain = self._curr.token_type in (
            TokenType.VAR,
            TokenType.IDENTIFIER,
        ) and self._next.token_type in (
            TokenType.COMMA,
            TokenType.R_PAREN,
        )
        return plain or self._curr.token_type == TokenType.L_PAREN


class ThalwegSql(Dialect):
    NULL_ORDERING = "nulls_are_last"

    class Tokenizer(ThalwegExpressions.Tokenizer):
        KEYWORDS = {**ThalwegExpressions.Tokenizer.KEYWORDS, **_WORDS}
        COMMENTS = tokens.Tokenizer.COMMENTS

    class Parser(_Streams):
        FUNCTIONS = {}
        NO_PAREN_FUNCTIONS = {}
        FUNCTION_PARSERS = ThalwegExpressions.Parser.FUNCTION_PARSERS
        NO_PAREN_FUNCTION_PARSERS = ThalwegExpressions.Parser.NO_PAREN_FUNCTION_PARSERS
