"""A digest of a module's code, so that a query that goes on is known to go on with the same code.

It covers the class or function as it is written (comments, layout and docstrings aside) and the
functions and classes of the same file that it names. Where the source is not to be had, the
bytecode stands for it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

__all__ = ["code_digest"]


def code_digest(function: Callable[..., Any]) -> str:
    """
    >>> code_digest(lambda: 1) == code_digest(lambda: 1)
    True
    """
    texts: dict[str, str] = {}
    _collect(function, getattr(function, "__module__", ""), texts)
    whole = "\n".join(f"{name}\n{text}" for name, text in sorted(texts.items()))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _collect(thing: Any, module: str, texts: dict[str, str]) -> None:
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    if name in texts:
        return
    texts[name] = _text(thing)
    for function in _functions(thing):
        for used in sorted(_names(function.__code__)):
            found = function.__globals__.get(used)
            if getattr(found, "__module__", None) == module and callable(found):
                _collect(found, module, texts)
            elif isinstance(found, (int, float, str, bytes, bool, tuple)):
                texts[f"{name}.{used}"] = repr(found)


def _functions(thing: Any) -> list[FunctionType]:
    if isinstance(thing, FunctionType):
        return [thing]
    members = vars(thing).values() if isinstance(thing, type) else ()
    found = (getattr(member, "__func__", member) for member in members)
    return [member for member in found if isinstance(member, FunctionType)]


def _names(code: CodeType) -> set[str]:
    inner = (_names(entry) for entry in code.co_consts if isinstance(entry, CodeType))
    return set(code.co_names).union(*inner)


def _text(thing: Any) -> str:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return "".join(_bytecode(function.__code__) for function in _functions(thing))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)) and body:
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                body[0] = ast.Pass()
    return ast.unparse(tree)


def _bytecode(code: CodeType) -> str:
    inner = [
        _bytecode(entry) if isinstance(entry, CodeType) else repr(entry) for entry in code.co_consts
    ]
    return f"{code.co_code.hex()}{code.co_names}{inner}"
