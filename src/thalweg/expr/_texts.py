"""Kernels of text. Null in, null out. Characters are Unicode code points; case follows Unicode.

Positions and replacements are constants. `substring` counts from 1 and takes what is there;
`char_at` counts from 0 and is null where the text is too short; `trim` takes spaces (or the
characters given) from both sides.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.expr._nested import element
from thalweg.expr.kinds import Datum, Refusal, constant, text

__all__ = [
    "char_at",
    "concat",
    "concat_ws",
    "constant_text",
    "initcap",
    "left",
    "length",
    "lower",
    "nothing",
    "padded",
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
    "whole_constant",
]

_join = pc.get_function("binary_join_element_wise").call
_JOIN = pc.JoinOptions(null_handling="emit_null")
_lower, _upper, _length = (
    pc.get_function(name).call for name in ("utf8_lower", "utf8_upper", "utf8_length")
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
        chars = " " if characters is None else constant_text(characters, "the characters to trim")
        value = text(value)
        if chars is None:
            return nothing(value)
        return value if chars == "" else run(value, characters=chars)

    return apply


def substring(value: Datum, start: Datum, length: Datum | None = None) -> Datum:
    first = whole_constant(start, "the start of a substring", 1)
    size = None if length is None else whole_constant(length, "the length of a substring", 0)
    value = text(value)
    return pc.utf8_slice_codeunits(
        value, start=first - 1, stop=None if size is None else first - 1 + size
    )


def char_at(value: Datum, position: Datum) -> Datum:
    place = whole_constant(position, "the position of a character", 0)
    found = pc.utf8_slice_codeunits(text(value), start=place, stop=place + 1)
    return pc.if_else(
        pc.equal(found, pa.scalar("", found.type)), pa.scalar(None, found.type), found
    )


def replace(value: Datum, old: Datum, new: Datum) -> Datum:
    """Every occurrence; nothing is replaced when the text to replace is empty."""
    sought, put = constant_text(old, "the text to replace"), constant_text(new, "the replacement")
    value = text(value)
    if sought is None or put is None:
        return nothing(value)
    return value if sought == "" else pc.replace_substring(value, pattern=sought, replacement=put)


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
    return pc.binary_repeat(text(value), whole_constant(times, "the number of copies", 0))


def left(value: Datum, size: Datum) -> Datum:
    """The first characters."""
    return pc.utf8_slice_codeunits(
        text(value), start=0, stop=whole_constant(size, "the number of characters", 0)
    )


def right(value: Datum, size: Datum) -> Datum:
    """The last characters."""
    count = whole_constant(size, "the number of characters", 0)
    value = text(value)
    if count == 0:
        return pc.utf8_slice_codeunits(value, start=0, stop=0)
    return pc.utf8_slice_codeunits(value, start=-count, stop=None)


def padded(kernel: str) -> Callable[..., Datum]:
    """`lpad` and `rpad`: text of exactly `size` characters, cut at the right or filled up."""
    run: Callable[..., Datum] = getattr(pc, kernel)

    def apply(value: Datum, size: Datum, filling: Datum | None = None) -> Datum:
        width = whole_constant(size, "the length of a text", 0)
        padding = " " if filling is None else constant_text(filling, "what fills the text up")
        value = text(value)
        if padding is None:
            return nothing(value)
        if len(padding) != 1:
            raise Refusal(f"a text is filled up with one character, not {padding!r}")
        cut = pc.utf8_slice_codeunits(value, start=0, stop=width)
        return run(cut, width=width, padding=padding)

    return apply


def split(value: Datum, separator: Datum) -> Datum:
    """The parts between separators, as a list."""
    sought = constant_text(separator, "the separator")
    value = text(value)
    if sought is None:
        return nothing(value, pa.list_(value.type))
    if sought == "":
        raise Refusal("a separator has at least one character")
    return pc.split_pattern(value, pattern=sought)


def split_part(value: Datum, separator: Datum, number: Datum) -> Datum:
    """The part with this number between separators, counted from 1; empty past the last part."""
    whole_constant(number, "the number of a part", 1)
    parts = split(value, separator)
    found = element(parts, number)
    return pc.if_else(pc.is_null(parts), pa.scalar(None, found.type), pc.coalesce(found, ""))


# ------------------------------------------------------------------------------------------------
# arguments that are the same for all rows, and the answer where one is null


def nothing(value: Datum, type_: pa.DataType | None = None) -> Datum:
    """Null for every row."""
    kind = type_ or value.type
    return pa.scalar(None, kind) if isinstance(value, pa.Scalar) else pa.nulls(len(value), kind)


def constant_text(value: Datum, what: str) -> str | None:
    """A text; null is None."""
    found = constant(value, what)
    if found is not None and not isinstance(found, str):
        raise Refusal(f"{what} must be text, not {value.type}")
    return found


def whole_constant(value: Datum, what: str, least: int) -> int:
    """A whole number from `least` on."""
    found = constant(value, what)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found < 2**31:
        raise Refusal(f"{what} must be a whole number from {least} on, not {found!r}")
    return found
