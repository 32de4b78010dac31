r"""Kernels of text. Null in, null out. Characters are Unicode code points; case follows Unicode.

Patterns, positions and replacements are constants. `substring` counts from 1 and takes what is
there; `char_at` counts from 0 and is null where the text is too short; `trim` takes spaces (or the
characters given) from both sides. In a LIKE pattern `%` is any text, `_` any character, and `\`
takes the next character as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.expr.kinds import Datum, Refusal, constant, text

__all__ = [
    "char_at",
    "concat",
    "length",
    "like",
    "lower",
    "matcher",
    "replace",
    "substring",
    "trim",
    "upper",
]

_join = pc.get_function("binary_join_element_wise").call
_JOIN = pc.JoinOptions(null_handling="emit_null")
_lower, _upper, _length, _match_like, _match_regex = (
    pc.get_function(name).call
    for name in ("utf8_lower", "utf8_upper", "utf8_length", "match_like", "match_substring_regex")
)


def concat(*values: Datum) -> Datum:
    """One after the other; null when one is."""
    texts = [text(value) for value in values]
    wide = any(t.type == pa.large_string() for t in texts)
    type_ = pa.large_string() if wide else pa.string()
    return _join(
        [*((t.cast(type_) for t in texts) if wide else texts), pa.scalar("", type_)], _JOIN
    )


def lower(value: Datum) -> Datum:
    return _lower([text(value)])


def upper(value: Datum) -> Datum:
    return _upper([text(value)])


def length(value: Datum) -> Datum:
    """In characters."""
    return _length([text(value)]).cast(pa.int64())


def trim(value: Datum, characters: Datum | None = None) -> Datum:
    taken = " " if characters is None else _constant_text(characters, "the characters to trim")
    value = text(value)
    return (
        value
        if taken == ""
        else _nothing(value)
        if taken is None
        else pc.utf8_trim(value, characters=taken)
    )


def substring(value: Datum, start: Datum, length: Datum | None = None) -> Datum:
    first = _position(start, "the start of a substring", 1)
    size = None if length is None else _position(length, "the length of a substring", 0)
    value = text(value)
    return pc.utf8_slice_codeunits(
        value, start=first - 1, stop=None if size is None else first - 1 + size
    )


def char_at(value: Datum, position: Datum) -> Datum:
    place = _position(position, "the position of a character", 0)
    found = pc.utf8_slice_codeunits(text(value), start=place, stop=place + 1)
    return pc.if_else(
        pc.equal(found, pa.scalar("", found.type)), pa.scalar(None, found.type), found
    )


def matcher(kernel: str) -> Callable[[Datum, Datum], Datum]:
    """`starts_with`, `ends_with`, `contains`: a text against a constant."""
    run = pc.get_function(kernel).call

    def apply(value: Datum, pattern: Datum) -> Datum:
        sought = _constant_text(pattern, "the text to look for")
        value = text(value)
        return (
            _nothing(value, pa.bool_())
            if sought is None
            else run([value], pc.MatchSubstringOptions(sought))
        )

    return apply


def like(value: Datum, pattern: Datum) -> Datum:
    """The whole text against a pattern."""
    sought = _constant_text(pattern, "the pattern")
    value = text(value)
    if sought is None:
        return _nothing(value, pa.bool_())
    if "\\" not in sought:
        return _match_like([value], pc.MatchSubstringOptions(sought))
    # Arrow reads escapes wrongly in patterns such as 'a\_b%', which it answers by their prefix.
    return _match_regex([value], pc.MatchSubstringOptions(_like_as_regex(sought)))


def _like_as_regex(pattern: str) -> str:
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == "\\":
            character = next(characters, "")
            if not character:
                raise Refusal(
                    f"the pattern {pattern!r} ends in a backslash that escapes nothing; write two for one"
                )
        elif character in "%_":
            parts.append(".*" if character == "%" else ".")
            continue
        parts.append(f"\\x{{{ord(character):x}}}")
    return "(?s)^" + "".join(parts) + "$"


def replace(value: Datum, old: Datum, new: Datum) -> Datum:
    """Every occurrence; nothing is replaced when the text to replace is empty."""
    sought, put = _constant_text(old, "the text to replace"), _constant_text(new, "the replacement")
    value = text(value)
    if sought is None or put is None:
        return _nothing(value)
    return value if sought == "" else pc.replace_substring(value, pattern=sought, replacement=put)


def _nothing(value: Datum, type_: pa.DataType | None = None) -> Datum:
    kind = type_ or value.type
    return pa.scalar(None, kind) if isinstance(value, pa.Scalar) else pa.nulls(len(value), kind)


def _constant_text(value: Datum, what: str) -> str | None:
    found = constant(value, what)
    if found is not None and not isinstance(found, str):
        raise Refusal(f"{what} must be text, not {value.type}")
    return found


def _position(value: Datum, what: str, least: int) -> int:
    found = constant(value, what)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found < 2**31:
        raise Refusal(f"{what} must be a whole number from {least} on, not {found!r}")
    return found
