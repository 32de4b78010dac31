"""The expression language as an sqlglot dialect: SQL's expressions and nothing else.

The dialect knows few words, so that columns may be called `date`, `rank` or `group`, and few
symbols; comments, statements and every other construct have no tokens here and so cannot slip
through. All functions but CAST parse as plain calls by name. Loaded when the first text is parsed.
"""

from __future__ import annotations

from sqlglot import parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]  # public, though not marked so

__all__ = ["ALLOWED_TOKENS", "WORD_TOKENS", "ThalwegExpressions"]

_WORDS = {
    "AND": TokenType.AND,
    "OR": TokenType.OR,
    "NOT": TokenType.NOT,
    "BETWEEN": TokenType.BETWEEN,
    "IN": TokenType.IN,
    "LIKE": TokenType.LIKE,
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
}
_SYMBOLS = {
    "//": TokenType.DIV,
    "||": TokenType.DPIPE,
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


class ThalwegExpressions(Dialect):
    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ['"']  # noqa: RUF012 - sqlglot's way to declare
        COMMENTS = []  # noqa: RUF012
        KEYWORDS = {**_WORDS, **_SYMBOLS}  # noqa: RUF012

    class Parser(parser.Parser):
        FUNCTIONS = {}  # noqa: RUF012
        NO_PAREN_FUNCTIONS = {}  # noqa: RUF012
        FUNCTION_PARSERS = {"CAST": parser.Parser.FUNCTION_PARSERS["CAST"]}  # noqa: RUF012
        NO_PAREN_FUNCTION_PARSERS = {"CASE": parser.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}  # noqa: RUF012
