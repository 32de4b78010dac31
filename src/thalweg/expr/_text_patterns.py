r"""Kernels that look for one text in another: constants, LIKE, regular expressions. Null in, null
out.

Patterns, groups and replacements are constants. In a LIKE pattern `%` is any text, `_` any
character, and `\` takes the next character as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.expr._texts import constant_text, nothing, whole_constant
from thalweg.expr.kinds import Datum, Refusal, text

__all__ = [
    "ilike",
    "like",
    "matcher",
    "position",
    "regexp_extract",
    "regexp_like",
    "regexp_replace",
]

_match_like, _match_regex = (
    pc.get_function(name).call for name in ("match_like", "match_substring_regex")
)


def matcher(kernel: str) -> Callable[[Datum, Datum], Datum]:
    """`starts_with`, `ends_with`, `contains`: a text against a constant."""
    run = pc.get_function(kernel).call

    def apply(value: Datum, pattern: Datum) -> Datum:
        sought = constant_text(pattern, "the text to look for")
        value = text(value)
        return (
            nothing(value, pa.bool_())
            if sought is None
            else run([value], pc.MatchSubstringOptions(sought))
        )

    return apply


def like(value: Datum, pattern: Datum) -> Datum:
    """The whole text against a pattern."""
    sought = constant_text(pattern, "the pattern")
    value = text(value)
    if sought is None:
        return nothing(value, pa.bool_())
    if "\\" not in sought:
        return _match_like([value], pc.MatchSubstringOptions(sought))
    # Arrow reads escapes wrongly in patterns such as 'a\_b%', which it answers by their prefix.
    return _match_regex([value], pc.MatchSubstringOptions(_like_as_regex(sought)))


def ilike(value: Datum, pattern: Datum) -> Datum:
    """The whole text against a pattern, without regard to case."""
    sought = constant_text(pattern, "the pattern")
    value = text(value)
    if sought is None:
        return nothing(value, pa.bool_())
    return _match_regex([value], pc.MatchSubstringOptions("(?i)" + _like_as_regex(sought)))


def _like_as_regex(pattern: str) -> str:
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == "\\":
            character = next(characters, "")
            if not character:
                raise Refusal(
                    f"the pattern {pattern!r} ends in a backslash that escapes nothing; write two "
                    "for one"
                )
        elif character in "%_":
            parts.append(".*" if character == "%" else ".")
            continue
        parts.append(_as_regex(character))
    return "(?s)^" + "".join(parts) + "$"


def _as_regex(text: str) -> str:
    """A pattern that matches this text alone."""
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)


def position(sought: Datum, value: Datum) -> Datum:
    """The position of one text in another, counted from 1; 0 where it is not part of it."""
    sought_text = constant_text(sought, "the text to look for")
    value = text(value)
    if sought_text is None:
        return nothing(value, pa.int64())
    before = pc.extract_regex(value, pattern=f"(?s)^(?P<g>.*?){_as_regex(sought_text)}")
    if sought_text == "":
        return pc.if_else(pc.is_null(value), pa.scalar(None, pa.int64()), pa.scalar(1))
    place = pc.add(pc.utf8_length(pc.struct_field(before, "g")).cast(pa.int64()), pa.scalar(1))
    found = pc.coalesce(place, pa.scalar(0))
    return pc.if_else(pc.is_null(value), pa.scalar(None, pa.int64()), found)


def regexp_like(value: Datum, pattern: Datum) -> Datum:
    """Whether some part of the text matches."""
    sought = constant_text(pattern, "the pattern")
    value = text(value)
    if sought is None:
        return nothing(value, pa.bool_())
    return _match_regex([value], pc.MatchSubstringOptions(sought))


def regexp_replace(value: Datum, pattern: Datum, replacement: Datum) -> Datum:
    """Every match; `$1` or `\\1` in the replacement stands for a group."""
    sought = constant_text(pattern, "the pattern")
    template = constant_text(replacement, "the replacement")
    value = text(value)
    if sought is None or template is None:
        return nothing(value)
    groups = re.sub(r"\$(\d)", r"\\\1", template)
    return pc.replace_substring_regex(value, pattern=sought, replacement=groups)


def regexp_extract(value: Datum, pattern: Datum, group: Datum | None = None) -> Datum:
    """A group of the first match (group 1 by default, 0: the whole match); empty where nothing
    matches."""
    sought = constant_text(pattern, "the pattern")
    group_number = 1 if group is None else whole_constant(group, "the number of a group", 0)
    value = text(value)
    if sought is None:
        return nothing(value)
    found = pc.extract_regex(value, pattern=_with_one_group(sought, group_number))
    part = pc.struct_field(found, "g")
    return pc.if_else(pc.is_null(value), pa.scalar(None, part.type), pc.coalesce(part, ""))


def _with_one_group(pattern: str, group_number: int) -> str:
    """The pattern with one named group; Arrow takes no others."""
    parts, group_count, position, in_class = [], 0, 0, False
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            parts.append(pattern[position : position + 2])
            position += 2
            continue
        if character == "(" and not in_class and pattern[position + 1 : position + 2] != "?":
            group_count += 1
            character = "(?P<g>" if group_count == group_number else "(?:"
        in_class = character == "[" or (in_class and character != "]")
        parts.append(character)
        position += 1
    if group_number > group_count:
        raise Refusal(
            f"the pattern {pattern!r} has {group_count} groups; group {group_number} is none of "
            "them"
        )
    return "".join(parts) if group_number else f"(?P<g>{''.join(parts)})"
