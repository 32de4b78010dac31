"""The expression language as an sqlglot dialect: SQL's expressions and nothing else.

The dialect has few words, so that columns may be called `date`, `rank` or `group`, and few
symbols; comments, statements and every other construct have no tokens here and so cannot slip
through. Functions parse as plain calls by name, but for those that SQL gives a syntax of their own:
CAST, TRY_CAST, EXTRACT, POSITION, SUBSTRING, TRIM. Loaded when the first text is parsed.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not marked public

__all__ = ["ALLOWED_TOKENS", "WORD_TOKENS", "ExpressionParser", "ThalwegExpressions"]

_WORDS = {
    "AND": TokenType.AND,
    "OR": TokenType.OR,
    "NOT": TokenType.NOT,
    "BETWEEN": TokenType.BETWEEN,
    "IN": TokenType.IN,
    "LIKE": TokenType.LIKE,
    "ILIKE": TokenType.ILIKE,
    "RLIKE": TokenType.RLIKE,
    "REGEXP": TokenType.RLIKE,
    "IS": TokenType.IS,
    "NULL": TokenType.NULL,
    "TRUE": TokenType.TRUE,
    "FALSE": TokenType.FALSE,
    "CASE": TokenType.CASE,
    "WHEN": TokenType.WHEN,
    "THEN": TokenType.THEN,
    "ELSE": TokenType.ELSE,
    "END": TokenType.END,
    "AS": TokenType.ALIAS,
    "DIV": TokenType.DIV,
    "INTERVAL": TokenType.INTERVAL,
}
_SYMBOLS = {
    "//": TokenType.DIV,
    "||": TokenType.DPIPE,
    "::": TokenType.DCOLON,
    "==": TokenType.EQ,
    "<>": TokenType.NEQ,
    "!=": TokenType.NEQ,
    "<=": TokenType.LTE,
    ">=": TokenType.GTE,
}

WORD_TOKENS = frozenset(_WORDS.values())
ALLOWED_TOKENS = frozenset(
    {
        *_WORDS.values(),
        *_SYMBOLS.values(),
        TokenType.L_PAREN,
        TokenType.R_PAREN,
        TokenType.L_BRACKET,
        TokenType.R_BRACKET,
        TokenType.COMMA,
        TokenType.DOT,
        TokenType.DASH,
        TokenType.EQ,
        TokenType.GT,
        TokenType.LT,
        TokenType.MOD,
        TokenType.PLUS,
        TokenType.SLASH,
        TokenType.STAR,
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.STRING,
        TokenType.NUMBER,
    }
)

_LITERAL_TYPES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ", "DATE")
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


class ExpressionParser(parser.Parser):
    """Types by name, literals of times, and the functions with a syntax of their own."""

    def _type_name(self) -> exp.Expr:
        """A type: a word, numbers between parentheses, WITH TIME ZONE."""
        if self._curr.token_type not in (*_NAMES, TokenType.INTERVAL):
            self.raise_error("the name of a type is expected", self._curr)
        first = self._curr
        name = first.text
        self._advance()
        if self._match(TokenType.L_PAREN):
            numbers = []
            while self._match(TokenType.NUMBER):
                numbers.append(self._prev.text)
                if not self._match(TokenType.COMMA):
                    break
            if not self._match(TokenType.R_PAREN):
                self.raise_error(f"the type {name} ends with ')'", self._curr)
            name = f"{name}({', '.join(numbers)})"
        if self._match_text_seq("WITH", "TIME", "ZONE"):
            name = f"{name} with time zone"
        elif self._match_text_seq("WITHOUT", "TIME", "ZONE"):
            pass
        type_node: exp.Expr = exp.DataType(this=exp.DType.USERDEFINED, kind=name)
        return type_node.update_positions(first)

    def _cast(self, *, safe: bool) -> exp.Expr:
        value = self._parse_assignment()
        if not self._match(TokenType.ALIAS):
            self.raise_error("a cast takes a value, AS and a type", self._curr)
        return self.expression(_casting(safe=safe)(this=value, to=self._type_name()))

    def _parse_dcolon(self) -> exp.Expr | None:
        return self._type_name()

    def _parse_type(self, *args: Any, **options: Any) -> exp.Expr | None:
        token = self._curr
        typed = token.token_type == TokenType.VAR and token.text.upper() in _LITERAL_TYPES
        if typed and self._next.token_type == TokenType.STRING:
            kind = self._type_name()
            return self._parse_column_ops(
                self.expression(exp.Cast(this=self._parse_primary(), to=kind))
            )
        return super()._parse_type(*args, **options)

    def _called(self, name: str, token: Token, *args: exp.Expr | None) -> exp.Expr:
        if any(arg is None for arg in args):
            self.raise_error(f"an argument of {token.text} is missing", self._curr)
        call: exp.Expr = self.expression(exp.Anonymous(this=name, expressions=list(args)))
        return call.update_positions(token)

    def _extract(self) -> exp.Expr:
        """EXTRACT(hour FROM t)."""
        token, unit = self._tokens[self._index - 2], self._curr
        self._advance()
        if not self._match_text_seq("FROM") and not self._match(TokenType.COMMA):
            self.raise_error("an extract takes a part, FROM and a time", self._curr)
        part: exp.Expr = exp.Literal.string(unit.text.lower())
        return self._called("extract", token, part.update_positions(unit), self._parse_bitwise())

    def _position(self) -> exp.Expr:
        """POSITION('x' IN s)."""
        token = self._tokens[self._index - 2]
        sought = self._parse_bitwise()
        if not self._match(TokenType.IN) and not self._match(TokenType.COMMA):
            self.raise_error("a position takes a text, IN and the text to look in", self._curr)
        return self._called("position", token, sought, self._parse_bitwise())

    def _substring(self) -> exp.Expr:
        """SUBSTRING(s FROM 2 FOR 3), or with commas."""
        token = self._tokens[self._index - 2]
        args: list[exp.Expr | None] = [*self._parse_csv(self._parse_assignment)]
        args += [self._parse_assignment() for word in ("FROM", "FOR") if self._match_text_seq(word)]
        return self._called("substring", token, *args)

    def _trim(self) -> exp.Expr:
        """TRIM([BOTH | LEADING | TRAILING] ['x'] FROM s), or with commas."""
        token, name = self._tokens[self._index - 2], "trim"
        for word, other in (("BOTH", "trim"), ("LEADING", "ltrim"), ("TRAILING", "rtrim")):
            if self._next.token_type != TokenType.R_PAREN and self._match_text_seq(word):
                name = other
                break
        if self._match_text_seq("FROM"):
            return self._called(name, token, self._parse_assignment())
        args: list[exp.Expr | None] = [*self._parse_csv(self._parse_assignment)]
        if len(args) == 1 and self._match_text_seq("FROM"):
            args.insert(0, self._parse_assignment())
        return self._called(name, token, *args)


def _casting(*, safe: bool) -> type[exp.Expr]:
    return exp.TryCast if safe else exp.Cast


class ThalwegExpressions(Dialect):
    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ['"']
        COMMENTS = []
        KEYWORDS = {**_WORDS, **_SYMBOLS}

    class Parser(ExpressionParser):
        FUNCTIONS = {}
        NO_PAREN_FUNCTIONS = {}
        FUNCTION_PARSERS = {
            "CAST": lambda self: self._cast(safe=False),
            "TRY_CAST": lambda self: self._cast(safe=True),
            "EXTRACT": lambda self: self._extract(),
            "POSITION": lambda self: self._position(),
            "SUBSTRING": lambda self: self._substring(),
            "TRIM": lambda self: self._trim(),
        }
        NO_PAREN_FUNCTION_PARSERS = {"CASE": parser.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
