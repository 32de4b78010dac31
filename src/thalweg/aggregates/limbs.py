"""Exact sums of floats and of large integers, in columns: add, merge and take away without any
rounding.

A finite double is m * 2^e with a 53-bit integer m. Cut into digits of 32 bits at fixed places of
the binary number line, it becomes three integers; a sum of doubles is the sum of its digits, place
by place, which int64 holds exactly for 2^31 terms. So the order in which values come, how they are
divided into parts and whether some are taken away again cannot change a single bit of the result,
which is rounded once, at the end (R. Kulisch's long accumulator, kept only as long as the values
need it).

NaN, +infinity and -infinity are counted beside the digits: one that is taken away leaves nothing
behind. A sum is NaN where there is a NaN or both infinities, else infinite where there is one.

`Limbs` holds the sums of many cells; in Arrow a cell is a list [place of the lowest digit, NaNs,
+infinities, -infinities, digit, digit, ...], and null is an empty sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.rows import Codes

__all__ = ["LIMBS", "Floats", "Limbs"]

Floats = npt.NDArray[np.float64]
Digits = npt.NDArray[np.int64]
Wholes = npt.NDArray[np.int64] | npt.NDArray[np.uint64]

LIMBS = pa.list_(pa.field("item", pa.int64(), nullable=False))
_MASK, _HALF = 2**32 - 1, 2**16 - 1
_HEADER = 4


@dataclass(frozen=True, slots=True, eq=False)
class Limbs:
    """Cell j is the sum over i of digits[i, j] * 2^(32 * (base + i)); `special` counts NaN,
    +infinity and -infinity."""

    base: int
    digits: Digits
    special: Digits

    def __len__(self) -> int:
        return int(self.digits.shape[1])

    @classmethod
    def zero(cls, size: int) -> Limbs:
        return cls(0, np.zeros((1, size), np.int64), np.zeros((3, size), np.int64))

    # --------------------------------------------------------------------------------------------
    # in

    @classmethod
    def of_floats(cls, values: Floats, code: Codes, size: int) -> Limbs:
        """The sum of the values of each code.

        >>> total = Limbs.of_floats(np.array([1e300, 1.0, -1e300]), np.array([0, 0, 0]), 1)
        >>> total.to_floats().tolist()
        [1.0]
        """
        special = np.zeros((3, size), np.int64)
        finite = np.isfinite(values)
        if not finite.all():
            odd = ~finite
            for row, which in enumerate((np.isnan(values), odd & (values > 0), odd & (values < 0))):
                np.add.at(special[row], code[which], 1)
            values, code = values[finite], code[finite]
        fraction, exponent = np.frexp(values)
        whole = np.ldexp(fraction, 53).astype(np.int64)
        return cls._deposit([(whole, exponent.astype(np.int64) - 53)], code, size, special)

    @classmethod
    def of_integers(cls, values: Wholes, code: Codes, size: int) -> Limbs:
        high, low = (values >> 32).astype(np.int64), (values & _MASK).astype(np.int64)
        nowhere = np.zeros(len(values), np.int64)
        return cls._deposit([(low, nowhere), (high, nowhere + 32)], code, size)

    @classmethod
    def of_float_squares(cls, values: Floats, code: Codes, size: int) -> Limbs:
        """The sum of squares; infinities and NaN are left to the sum of the values."""
        finite = np.isfinite(values)
        if not finite.all():
            values, code = values[finite], code[finite]
        fraction, exponent = np.frexp(values)
        whole = np.ldexp(np.abs(fraction), 53).astype(np.int64)
        high, low = whole >> 27, whole & (2**27 - 1)
        twice = 2 * (exponent.astype(np.int64) - 53)
        pieces = [
            (high * high, twice + 54),
            (high * low, twice + 28),
            (low * low, twice),
        ]
        return cls._deposit(pieces, code, size)

    @classmethod
    def of_integer_squares(cls, values: Wholes, code: Codes, size: int) -> Limbs:
        """x = a 2^42 + b 2^21 + c, of which no product overflows."""
        a, b, c = (
            part.astype(np.int64)
            for part in (values >> 42, (values >> 21) & (2**21 - 1), values & (2**21 - 1))
        )
        pieces = [
            (a * a, 84),
            (a * b, 64),
            (2 * a * c + b * b, 42),
            (b * c, 22),
            (c * c, 0),
        ]
        return cls._deposit(
            [(piece, np.full(len(values), at, np.int64)) for piece, at in pieces], code, size
        )

    @classmethod
    def _deposit(
        cls,
        pieces: list[tuple[Digits, Digits]],
        code: Codes,
        size: int,
        special: Digits | None = None,
    ) -> Limbs:
        """The sum of whole * 2^exponent by code."""
        special = np.zeros((3, size), np.int64) if special is None else special
        if not len(code):
            return cls(0, np.zeros((1, size), np.int64), special)
        cut = []
        low = high = None
        for whole, exponent in pieces:
            place, shift = exponent >> 5, exponent & 31
            some = whole != 0
            if not some.all():
                place = np.where(some, place, place[int(np.argmax(some))])
            rest = 32 - shift
            first = (whole & ((np.int64(1) << rest) - 1)) << shift
            upper = whole >> rest
            cut.append((place, first, upper & _MASK, upper >> 32))
            least, most = int(place.min()), int(place.max())
            low = least if low is None else min(low, least)
            high = most if high is None else max(high, most)
        assert low is not None
        assert high is not None
        digits = np.zeros((high - low + 3, size), np.int64)
        flat = digits.reshape(-1)
        for place, *parts in cut:
            at = (place - low) * size + code
            for part in parts:
                np.add.at(flat, at, part)
                at = at + size
        return cls(low, digits, special)

    @classmethod
    def of_lists(cls, lists: pa.Array, code: Codes, size: int) -> Limbs:
        """The sum of the cells of each code, from their Arrow form."""
        there = lists.is_valid().to_numpy(zero_copy_only=False)
        if not there.all():
            lists, code = lists.filter(pa.array(there)), code[there]
        if not len(lists):
            return cls.zero(size)
        length = pc.list_value_length(lists).to_numpy().astype(np.int64)
        values: Digits = lists.flatten().to_numpy()
        begins = np.cumsum(length) - length
        special = np.zeros((3, size), np.int64)
        for row in range(3):
            counts = values[begins + 1 + row]
            if counts.any():
                np.add.at(special[row], code, counts)
        count = length - _HEADER
        which = np.repeat(np.arange(len(length)), count)
        if not len(which):
            return cls(0, np.zeros((1, size), np.int64), special)
        order = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        place = values[begins][which] + order
        low = int(place.min())
        digits = np.zeros((int(place.max()) - low + 1, size), np.int64)
        np.add.at(
            digits.reshape(-1),
            (place - low) * size + code[which],
            values[begins[which] + _HEADER + order],
        )
        return cls(low, digits, special)

    # --------------------------------------------------------------------------------------------
    # arithmetic

    def plus(self, other: Limbs, sign: int = 1) -> Limbs:
        base = min(self.base, other.base)
        top = max(self.base + len(self.digits), other.base + len(other.digits))
        digits = np.zeros((top - base, len(self)), np.int64)
        digits[self.base - base : self.base - base + len(self.digits)] = self.digits
        digits[other.base - base : other.base - base + len(other.digits)] += sign * other.digits
        return Limbs(base, digits, self.special + sign * other.special)

    def over_ranges(self, lo: Codes, hi: Codes) -> Limbs:
        """The sums of neighbouring cells [lo, hi): differences of running sums, which are exact."""
        hi = np.maximum(lo, hi)

        def between(rows: Digits) -> Digits:
            upto = np.zeros((len(rows), rows.shape[1] + 1), np.int64)
            np.cumsum(rows, axis=1, out=upto[:, 1:])
            return upto[:, hi] - upto[:, lo]

        sign, plain = self.magnitude()
        return Limbs(self.base, between(plain * sign), between(self.special))

    def times(self, factor: Digits) -> Limbs:
        """Each cell times a whole number below 2^31."""
        _, digits = self.magnitude()
        return Limbs(self.base, digits * factor, self.special)

    def squared(self) -> Limbs:
        """The square of each cell, from digits of 16 bits, whose products do not overflow."""
        _, whole = self.magnitude()
        half = np.empty((2 * len(whole), len(self)), np.int64)
        half[0::2], half[1::2] = whole & _HALF, whole >> 16
        used = np.flatnonzero(half.any(axis=1)).tolist()
        square = np.zeros((2 * len(half) + 2, len(self)), np.int64)
        for i in used:
            for j in used:
                square[i + j] += half[i] * half[j]
        for at in range(len(square) - 1):
            square[at + 1] += square[at] >> 16
            square[at] &= _HALF
        return Limbs(2 * self.base, square[0::2] | (square[1::2] << 16), self.special)

    def magnitude(self) -> tuple[Digits, Digits]:
        """The sign of each cell, and its digits as whole numbers of 32 bits."""
        digits = np.zeros((len(self.digits) + 1, len(self)), np.int64)
        digits[:-1] = self.digits
        _carry(digits)
        negative = digits[-1] < 0
        if negative.any():
            digits = np.where(negative, -digits, digits)
            _carry(digits)
        return np.where(negative, -1, 1), digits

    # --------------------------------------------------------------------------------------------
    # out

    def to_lists(self) -> pa.ListArray:
        sign, digits = self.magnitude()
        some = digits != 0
        first = np.where(some.any(axis=0), some.argmax(axis=0), 0)
        last = np.where(some.any(axis=0), len(digits) - some[::-1].argmax(axis=0), 0)
        table = np.empty((len(self), _HEADER + len(digits)), np.int64)
        table[:, 0] = self.base + first
        table[:, 1:_HEADER] = self.special.T
        table[:, _HEADER:] = (digits * sign).T
        place = np.arange(len(digits))
        kept = np.ones(table.shape, np.bool_)
        kept[:, _HEADER:] = (place >= first[:, None]) & (place < last[:, None])
        offsets = np.zeros(len(self) + 1, np.int32)
        np.cumsum(_HEADER + last - first, out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(table[kept]), type=LIMBS)

    def to_scaled(self) -> tuple[Floats, Digits]:
        """(f, e) with f * 2^e the value of each cell, correctly rounded to 53 bits; special values
        are left out."""
        sign, digits = self.magnitude()
        tall = np.zeros((len(digits) + 2, len(self)), np.int64)
        tall[2:] = digits
        some = tall != 0
        top = np.maximum(len(tall) - 1 - some[::-1].argmax(axis=0), 2)
        at = np.arange(len(self))
        high, middle, low = (tall[top - i, at].astype(np.uint64) for i in range(3))
        bits = np.frexp(high.astype(np.float64))[1].astype(np.uint64)
        # The 64 bits from the highest one on; what lies below only matters as "there is more",
        # which the lowest bit holds: a double has 53.
        lead = (high << (np.uint64(63) - bits)) << np.uint64(1)
        lead |= (middle << np.uint64(32)) >> bits
        lead |= low >> bits
        below = np.arange(len(tall))[:, None] < top - 2
        sticky = (some & below).any(axis=0) | ((low & ((np.uint64(1) << bits) - np.uint64(1))) != 0)
        lead |= sticky.astype(np.uint64)
        exponent = 32 * (self.base + top - 2) - 64 + bits.astype(np.int64)
        return lead.astype(np.float64) * sign, exponent

    def to_floats(self) -> Floats:
        """The value of each cell: the exact sum, rounded once."""
        fraction, exponent = self.to_scaled()
        with np.errstate(over="ignore", under="ignore"):
            plain = np.ldexp(fraction, np.clip(exponent, -4_000, 4_000).astype(np.int32))
        return np.asarray(self.with_special(plain + 0.0))

    def with_special(self, plain: Floats) -> Floats:
        """The value of each cell, given that of its finite part."""
        if not self.special.any():
            return plain
        nan, plus, minus = self.special > 0
        result = np.where(plus, np.inf, np.where(minus, -np.inf, plain))
        return np.where(nan | (plus & minus), np.nan, result)


def _carry(digits: Digits) -> None:
    """What a digit has above 32 bits goes to the next; the last digit keeps the sign."""
    for at in range(len(digits) - 1):
        digits[at + 1] += digits[at] >> 32
        digits[at] &= _MASK
