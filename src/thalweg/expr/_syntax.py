"""From text to sqlglot's tree: tokens are checked, syntax errors are shown with a caret under the
place.

sqlglot reads far more than this language, and is generous (a missing THEN, two texts side by side,
letters that only look like a keyword). What no expression contains is refused here, token by token,
so that nothing is quietly misread.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not marked public

from thalweg.errors import ExpressionError
from thalweg.expr._grammar import ALLOWED_TOKENS, WORD_TOKENS, ThalwegExpressions
from thalweg.expr._rendering import STATEMENT_WORDS

__all__ = ["Source", "check_token", "open_quote", "syntax_tree"]

_SYMBOLS_OF_OTHERS = {
    "&": "AND",
    "|": "OR",
    "!": "NOT",
    "^": "power(a, b)",
    "?": "CASE WHEN a THEN b ELSE c END",
}
"""Symbols of other languages, and what is written here."""

_QUOTE_IT = "A name with odd characters goes between double quotes."


@dataclass(frozen=True, slots=True)
class Source:
    """The text a user wrote, to point into."""

    text: str

    def refuse(self, reason: str, start: int) -> NoReturn:
        """An error that shows the line with a caret under the place."""
        begin = self.text.rfind("\n", 0, start) + 1
        line = self.text[begin:].split("\n", 1)[0].replace("\t", " ")
        raise ExpressionError(f"{reason}\n  {line}\n  {' ' * (start - begin)}^")

    def refuse_token(self, token: Token, reason: str) -> NoReturn:
        self.refuse(reason, token.start)

    def refuse_node(self, node: exp.Expr, reason: str) -> NoReturn:
        places = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        self.refuse(reason, min(places, default=0))


def syntax_tree(source: Source) -> exp.Expr:
    """The syntax tree of the text, which must be one expression."""
    dialect = ThalwegExpressions()
    try:
        tokens = dialect.tokenize(source.text)
    except TokenError:
        source.refuse("a quote is opened and never closed.", open_quote(source.text))
    if not tokens:
        raise ExpressionError(f"an expression is expected; the text {source.text!r} is empty.")
    _check_tokens(source, tokens)
    _check_branches(source, tokens)
    try:
        trees = dialect.parser().parse_into(exp.Condition, tokens, source.text)
    except ParseError as error:
        _refuse_syntax(source, error, tokens)
    if len(trees) != 1 or trees[0] is None:
        source.refuse("an expression is expected.", tokens[0].start)
    return trees[0]


def open_quote(text: str) -> int:
    """Where the quote stands that is never closed. (A doubled quote closes and opens again.)"""
    start, opened = 0, ""
    for place, character in enumerate(text):
        if opened:
            opened = "" if character == opened else opened
        elif character in "'\"":
            start, opened = place, character
    return start


def check_token(
    source: Source, token: Token, allowed: Collection[TokenType], language: str
) -> None:
    """Refuse a token that the language does not have, or that only looks like one of its own."""
    kind, text = token.token_type, token.text
    if kind not in allowed or (kind == TokenType.NOT and text == "!"):
        instead = _SYMBOLS_OF_OTHERS.get(text)
        hint = _QUOTE_IT if instead is None else f"Write {instead}."
        source.refuse_token(token, f"{text!r} is not part of {language}. {hint}")
    if kind == TokenType.VAR and not text.isidentifier():
        source.refuse_token(token, f"{text!r} is not a name. {_QUOTE_IT}")
    if (kind in WORD_TOKENS or kind == TokenType.NUMBER) and not text.isascii():
        source.refuse_token(
            token, f"{text!r} only looks like a word of SQL; it contains other characters."
        )


def _check_tokens(source: Source, tokens: Sequence[Token]) -> None:
    before = None
    for token in tokens:
        kind = token.token_type
        if kind == TokenType.SEMICOLON:
            source.refuse(
                "one expression is expected; ';' ends it. Quote a name that contains one.",
                token.start,
            )
        check_token(source, token, ALLOWED_TOKENS, "an expression")
        if token.comments:
            source.refuse("an expression has no comments.", token.start)
        if kind == TokenType.STRING and before == TokenType.STRING:
            source.refuse("two texts stand side by side; join them with ||.", token.start)
        before = kind


def _check_branches(source: Source, tokens: Sequence[Token]) -> None:
    """Each WHEN has a THEN; sqlglot would do without."""
    open_: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.WHEN:
            open_.append(token)
        elif token.token_type == TokenType.THEN:
            if not open_:
                source.refuse("this THEN has no WHEN.", token.start)
            open_.pop()
    if open_:
        source.refuse("this WHEN has no THEN.", open_[-1].start)


def _refuse_syntax(source: Source, error: ParseError, tokens: Sequence[Token]) -> NoReturn:
    found = error.errors[0] if error.errors else {}
    place = (found.get("line"), found.get("col"))
    token = next((t for t in tokens if (t.line, t.col) == place), tokens[-1])
    description = str(found.get("description") or error)
    if tokens[0].text.upper() in STATEMENT_WORDS:
        source.refuse(
            f"an expression is expected, not a statement ({tokens[0].text}).", tokens[0].start
        )
    if description.startswith("Required keyword"):
        source.refuse(f"something is missing at {token.text!r}.", token.start)
    if "Unexpected token" in description:
        source.refuse(f"{token.text!r} is not expected here.", token.start)
    source.refuse(
        f"{description[:1].lower()}{description[1:].rstrip('.')} at {token.text!r}.", token.start
    )
