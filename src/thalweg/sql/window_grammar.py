"""Windows between brackets, as an extension of sqlglot's parser. Their words are words only here:

window    = '[' part {',' part} ']'
part      = 'RANGE' ('ALL' | ['TUMBLING'] amount) | 'SLIDE' amount
          | ('WA' | 'WATTR' | 'RATTR' | 'SATTR') attribute
          | 'PA' (attribute | '(' attribute {',' attribute} ')')
amount    = number [unit] | 'text' | name of a parameter
attribute = [stream '.'] column | 'row-num' | 'local-row-num' | 'arrival-time'
          | 'rank' '(' attribute ')'
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not marked public

from thalweg.errors import did_you_mean
from thalweg.expr._grammar import ExpressionParser
from thalweg.sql.syntax import ALL, Amount, Attribute, Over, Place, WindowClause, Windowed

__all__ = ["WindowParser"]

_ITEMS = (TokenType.NUMBER, TokenType.STRING, TokenType.DASH)
_PARTS = ("RANGE", "SLIDE", "WA", "WATTR", "PA", "RATTR", "SATTR")


def _place(first: Token, last: Token) -> Place:
    return Place(first.start, last.end)


class WindowParser(ExpressionParser):
    """Windows between brackets; a number or a text there is an item of a list or a map."""

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if self._curr.token_type != TokenType.L_BRACKET:
            return this
        if self._next.token_type in _ITEMS:
            return super()._parse_bracket(this)
        if this is None:
            self.raise_error(
                "a window in brackets stands after an aggregate, or after a stream in FROM",
                self._curr,
            )
        clause = self._window_clause()
        if isinstance(this, exp.Table):
            this.set("window", clause)
            return this
        return self.expression(Windowed(this=this, clause=clause))

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        if this is None or self._curr.token_type != TokenType.OVER:
            return super()._parse_window(this, alias)
        self._advance()
        over = Over(this=this)
        if not self._match(TokenType.L_PAREN):
            self.raise_error("OVER goes on with '('", self._curr)
        if self._match(TokenType.PARTITION_BY):
            over.set("partition", self._parse_csv(self._parse_assignment))
        if self._match(TokenType.ORDER_BY):
            over.set("order", self._parse_column())
            self._match(TokenType.ASC)
        self._over_frame(over)
        if not self._match(TokenType.R_PAREN):
            self.raise_error(f"OVER ends with ')'; {self._shown()} is not expected", self._curr)
        return self.expression(over)

    def _over_frame(self, over: Over) -> None:
        """RANGE|ROWS [BETWEEN] amount PRECEDING [AND CURRENT ROW]."""
        if self._match_text_seq("ROWS"):
            over.set("rows", True)
        elif not self._match_text_seq("RANGE"):
            return
        between = self._match(TokenType.BETWEEN)
        if not self._match_text_seq("UNBOUNDED"):
            interval = self._curr.token_type == TokenType.INTERVAL
            amount = self._parse_interval() if interval else self._parse_primary()
            over.set("span", amount if isinstance(amount, exp.Interval) else None)
        if not self._match_text_seq("PRECEDING"):
            self.raise_error(f"PRECEDING is expected; {self._shown()} is not", self._curr)
        if between and not (self._match(TokenType.AND) and self._match_text_seq("CURRENT", "ROW")):
            self.raise_error("the span of an OVER ends with AND CURRENT ROW", self._curr)

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr | None:
        return self._parse_bracket(super()._parse_alias(this, explicit=explicit))

    def _window_clause(self) -> WindowClause:
        first = self._curr
        self._advance()
        parts: dict[str, Any] = {}
        while True:
            self._window_part(parts)
            if not self._match(TokenType.COMMA):
                break
        if not self._match(TokenType.R_BRACKET):
            self.raise_error(
                f"a window goes on with ',' or ends with ']'; {self._shown()} is not expected",
                self._curr,
            )
        return WindowClause(_place(first, self._prev), **parts)

    def _window_part(self, parts: dict[str, Any]) -> None:
        token = self._curr
        word = token.text.upper()
        if word not in _PARTS:
            hint = did_you_mean(word, _PARTS)
            self.raise_error(
                f"{self._shown()} is not a part of a window{hint} Parts: {', '.join(_PARTS)}", token
            )
        self._advance()
        name = "wa" if word == "WATTR" else word.lower()
        if name in parts:
            self.raise_error(f"{word} stands twice in one window", token)
        if name == "range":
            if self._match(TokenType.ALL):
                parts["range"] = ALL
                return
            parts["tumbling"] = bool(self._match_text_seq("TUMBLING"))
        if name in ("range", "slide"):
            parts[name] = self._amount(word)
        elif name == "pa" and self._match(TokenType.L_PAREN):
            parts["pa"] = tuple(self._parse_csv(lambda: self._attribute(word)))
            if not self._match(TokenType.R_PAREN):
                self.raise_error("the columns of PA end with ')'", self._curr)
        else:
            found = self._attribute(word)
            parts[name] = (found,) if name == "pa" else found

    def _amount(self, word: str) -> Amount:
        first = self._curr
        if self._match(TokenType.NUMBER):
            unit = ""
            if self._curr.token_type == TokenType.VAR:
                unit = self._curr.text
                self._advance()
            return Amount(_place(first, self._prev), number=first.text, unit=unit)
        if self._match(TokenType.STRING):
            return Amount(_place(first, first), unit=first.text)
        self._match(TokenType.COLON)
        name = self._curr
        if name.token_type != TokenType.VAR:
            self.raise_error(
                f"{word} takes an amount, such as 10 minutes or 1000 rows; {self._shown()} is none",
                name,
            )
        self._advance()
        return Amount(_place(first, name), parameter=name.text)

    def _attribute(self, word: str) -> Attribute:
        first = self._curr
        if first.text.lower() == "rank" and self._next.token_type == TokenType.L_PAREN:
            self._advance(2)
            inner = self._attribute(word)
            if not self._match(TokenType.R_PAREN):
                self.raise_error("rank takes one column: rank(ts)", self._curr)
            return Attribute(_place(first, self._prev), inner.name, inner.table, ranked=True)
        names = [self._name(word)]
        if self._match(TokenType.DOT):
            names.insert(0, self._name(word))
            names.reverse()
        while first.text.lower() in ("row", "local", "arrival") and self._match(TokenType.DASH):
            names = [f"{names[0]}-{self._name(word)}"]
        return Attribute(_place(first, self._prev), names[-1], names[0] if len(names) == 2 else "")

    def _name(self, word: str) -> str:
        token = self._curr
        if token.token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
            self.raise_error(f"{word} takes the name of a column; {self._shown()} is none", token)
        self._advance()
        return token.text

    def _shown(self) -> str:
        return repr(self._curr.text) if self._curr.text else "the end of the query"
