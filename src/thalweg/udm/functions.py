"""User-defined functions: a value for each event, wherever an expression may stand."""

from __future__ import annotations

from thalweg.expr.user_calls import ON_ERROR, UserCall, UserFunction

__all__ = ["ON_ERROR", "UserCall", "UserFunction"]
