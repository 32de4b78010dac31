r"""Kernels of text. Null in, null out. Characters are Unicode code points; case follows Unicode.

Patterns, positions and replacements are constants. `substring` counts from 1 and takes what is
there; `char_at` counts from 0 and is null where the text is too short; `trim` takes spaces (or the
characters given) from both sides. In a LIKE pattern `%` is any text, `_` any character, and `\`
takes the next character as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.expr._nested import element
from thalweg.expr.kinds import Datum, Refusal, constant, text

__all__ = [
    "char_at",
    "concat",
    "concat_ws",
    "ilike",
    "initcap",
    "left",
    "length",
    "like",
    "lower",
    "matcher",
    "padded",
    "position",
    "regexp_extract",
    "regexp_like",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "split",
    "split_part",
    "substring",
    "trim",
    "trimmer",
    "upper",
]

_join = pc.get_function("binary_join_element_wise").call
_JOIN = pc.JoinOptions(null_handling="emit_null")
_lower, _upper, _length, _match_like, _match_regex = (
    pc.get_function(name).call
    for name in ("utf8_lower", "utf8_upper", "utf8_length", "match_like", "match_substring_regex")
)


def concat(*values: Datum) -> Datum:
    """The texts joined; null when one of them is null."""
    texts = [text(value) for value in values]
    wide = any(t.type == pa.large_string() for t in texts)
    type_ = pa.large_string() if wide else pa.string()
    parts = [t.cast(type_) for t in texts] if wide else texts
    return _join([*parts, pa.scalar("", type_)], _JOIN)


def lower(value: Datum) -> Datum:
    return _lower([text(value)])


def upper(value: Datum) -> Datum:
    return _upper([text(value)])


def length(value: Datum) -> Datum:
    """In characters."""
    return _length([text(value)]).cast(pa.int64())


def trim(value: Datum, characters: Datum | None = None) -> Datum:
    return trimmer("utf8_trim")(value, characters)


def trimmer(kernel: str) -> Callable[..., Datum]:
    """`trim`, `ltrim`, `rtrim`: takes spaces, or the characters given, from both sides or one."""
    run: Callable[..., Datum] = getattr(pc, kernel)

    def apply(value: Datum, characters: Datum | None = None) -> Datum:
        chars = " " if characters is None else _constant_text(characters, "the characters to trim")
        value = text(value)
        if chars is None:
            return _nothing(value)
        return value if chars == "" else run(value, characters=chars)

    return apply


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


def ilike(value: Datum, pattern: Datum) -> Datum:
    """The whole text against a pattern, without regard to case."""
    sought = _constant_text(pattern, "the pattern")
    value = text(value)
    if sought is None:
        return _nothing(value, pa.bool_())
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


def replace(value: Datum, old: Datum, new: Datum) -> Datum:
    """Every occurrence; nothing is replaced when the text to replace is empty."""
    sought, put = _constant_text(old, "the text to replace"), _constant_text(new, "the replacement")
    value = text(value)
    if sought is None or put is None:
        return _nothing(value)
    return value if sought == "" else pc.replace_substring(value, pattern=sought, replacement=put)


# ------------------------------------------------------------------------------------------------
# regular expressions


def regexp_like(value: Datum, pattern: Datum) -> Datum:
    """Whether some part of the text matches."""
    sought = _constant_text(pattern, "the pattern")
    value = text(value)
    if sought is None:
        return _nothing(value, pa.bool_())
    return _match_regex([value], pc.MatchSubstringOptions(sought))


def regexp_replace(value: Datum, pattern: Datum, replacement: Datum) -> Datum:
    """Every match; `$1` or `\\1` in the replacement stands for a group."""
    sought = _constant_text(pattern, "the pattern")
    template = _constant_text(replacement, "the replacement")
    value = text(value)
    if sought is None or template is None:
        return _nothing(value)
    groups = re.sub(r"\$(\d)", r"\\\1", template)
    return pc.replace_substring_regex(value, pattern=sought, replacement=groups)


def regexp_extract(value: Datum, pattern: Datum, group: Datum | None = None) -> Datum:
    """A group of the first match (group 1 by default, 0: the whole match); empty where nothing
    matches."""
    sought = _constant_text(pattern, "the pattern")
    group_number = 1 if group is None else _position(group, "the number of a group", 0)
    value = text(value)
    if sought is None:
        return _nothing(value)
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


# ------------------------------------------------------------------------------------------------
# parts and copies


def concat_ws(separator: Datum, *values: Datum) -> Datum:
    """The texts joined with a separator between them; nulls are left out."""
    texts = [text(value) for value in values]
    all_null = pc.is_null(texts[0])
    for value in texts[1:]:
        all_null = pc.and_(all_null, pc.is_null(value))
    # Arrow loses a row of which all parts are skipped, so such a row gets an empty part.
    texts[0] = pc.if_else(all_null, pa.scalar("", texts[0].type), texts[0])
    return _join([*texts, text(separator)], pc.JoinOptions(null_handling="skip"))


def initcap(value: Datum) -> Datum:
    """Each word with a capital letter."""
    return pc.utf8_title(text(value))


def reverse(value: Datum) -> Datum:
    return pc.utf8_reverse(text(value))


def repeat(value: Datum, times: Datum) -> Datum:
    return pc.binary_repeat(text(value), _position(times, "the number of copies", 0))


def left(value: Datum, size: Datum) -> Datum:
    """The first characters."""
    return pc.utf8_slice_codeunits(
        text(value), start=0, stop=_position(size, "the number of characters", 0)
    )


def right(value: Datum, size: Datum) -> Datum:
    """The last characters."""
    count = _position(size, "the number of characters", 0)
    value = text(value)
    if count == 0:
        return pc.utf8_slice_codeunits(value, start=0, stop=0)
    return pc.utf8_slice_codeunits(value, start=-count, stop=None)


def padded(kernel: str) -> Callable[..., Datum]:
    """`lpad` and `rpad`: text of exactly `size` characters, cut at the right or filled up."""
    run: Callable[..., Datum] = getattr(pc, kernel)

    def apply(value: Datum, size: Datum, filling: Datum | None = None) -> Datum:
        width = _position(size, "the length of a text", 0)
        padding = " " if filling is None else _constant_text(filling, "what fills the text up")
        value = text(value)
        if padding is None:
            return _nothing(value)
        if len(padding) != 1:
            raise Refusal(f"a text is filled up with one character, not {padding!r}")
        cut = pc.utf8_slice_codeunits(value, start=0, stop=width)
        return run(cut, width=width, padding=padding)

    return apply


def position(sought: Datum, value: Datum) -> Datum:
    """The position of one text in another, counted from 1; 0 where it is not part of it."""
    sought_text = _constant_text(sought, "the text to look for")
    value = text(value)
    if sought_text is None:
        return _nothing(value, pa.int64())
    before = pc.extract_regex(value, pattern=f"(?s)^(?P<g>.*?){_as_regex(sought_text)}")
    if sought_text == "":
        return pc.if_else(pc.is_null(value), pa.scalar(None, pa.int64()), pa.scalar(1))
    place = pc.add(pc.utf8_length(pc.struct_field(before, "g")).cast(pa.int64()), pa.scalar(1))
    found = pc.coalesce(place, pa.scalar(0))
    return pc.if_else(pc.is_null(value), pa.scalar(None, pa.int64()), found)


def split(value: Datum, separator: Datum) -> Datum:
    """The parts between separators, as a list."""
    sought = _constant_text(separator, "the separator")
    value = text(value)
    if sought is None:
        return _nothing(value, pa.list_(value.type))
    if sought == "":
        raise Refusal("a separator has at least one character")
    return pc.split_pattern(value, pattern=sought)


def split_part(value: Datum, separator: Datum, number: Datum) -> Datum:
    """The part with this number between separators, counted from 1; empty past the last part."""
    _position(number, "the number of a part", 1)
    parts = split(value, separator)
    found = element(parts, number)
    return pc.if_else(pc.is_null(parts), pa.scalar(None, found.type), pc.coalesce(found, ""))


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
