"""Kernels of values that hold others: fields of structs, items of lists and maps. Null in, null
out.

`l[i]` counts from 1, as in SQL; from the end when negative; null where there is no such item.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from thalweg.expr.kinds import Datum, Refusal, constant

__all__ = ["array_contains", "cardinality", "element", "field"]


def _is_list(type_: pa.DataType) -> bool:
    return bool(
        types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_)
    )


def _columnar(kernel: Callable[[pa.Array, Datum], pa.Array], value: Datum, other: Datum) -> Datum:
    """A kernel of columns, for a constant too."""
    if isinstance(value, pa.Scalar):
        return kernel(pa.array([value.as_py()], value.type), other)[0]
    return kernel(value, other)


def field(value: Datum, name: Datum) -> Datum:
    """A field of a struct."""
    field_name = str(constant(name, "the name of a field"))
    if not types.is_struct(value.type):
        raise Refusal(f"a struct is needed to have a field {field_name!r}, not {value.type}")
    if value.type.get_field_index(field_name) < 0:
        field_names = ", ".join(entry.name for entry in value.type)
        raise Refusal(f"the struct has no field {field_name!r}; it has {field_names}")
    return pc.struct_field(value, field_name)


def element(value: Datum, at: Datum) -> Datum:
    """An item of a list by its number, of a map by its key, of a struct by its name."""
    if types.is_struct(value.type):
        return field(value, at)
    if types.is_map(value.type):
        key = pa.scalar(constant(at, "the key of a map"), value.type.key_type)
        return pc.map_lookup(value, query_key=key, occurrence="first")
    if not _is_list(value.type):
        raise Refusal(f"a list, a map or a struct is needed before [...], not {value.type}")
    if types.is_fixed_size_list(value.type):
        value = value.cast(pa.list_(value.type.value_type))
    if not types.is_integer(at.type):
        raise Refusal(f"the number of an item is whole, not {at.type}")
    return _columnar(_items, value, at)


def _items(lists: pa.Array, at: Datum) -> pa.Array:
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(sizes)
    if isinstance(at, pa.Scalar):
        place = np.full(len(lists), 0 if not at.is_valid else at.as_py())
    else:
        place = at.fill_null(0).to_numpy(zero_copy_only=False)
    if (place == 0).any() and (isinstance(at, pa.Scalar) and at.is_valid):
        raise Refusal("items of a list are counted from 1")
    offset = np.where(place > 0, place - 1, sizes + place)
    missing = (offset < 0) | (offset >= sizes) | (place == 0)
    where = np.where(missing, 0, ends - sizes + offset)
    items = pc.list_flatten(lists)
    return items.take(pa.array(where, mask=missing))


def cardinality(value: Datum) -> Datum:
    """How many items a list or a map has."""
    if types.is_map(value.type):
        return _columnar(_map_sizes, value, value)
    if not _is_list(value.type):
        raise Refusal(f"a list or a map is needed, not {value.type}")
    return pc.list_value_length(value).cast(pa.int64())


def _map_sizes(maps: pa.Array, _: Datum) -> pa.Array:
    sizes = np.diff(maps.offsets.to_numpy(zero_copy_only=False)).astype(np.int64)
    return pa.array(sizes, mask=maps.is_null().to_numpy(zero_copy_only=False))


def array_contains(value: Datum, item: Datum) -> Datum:
    """Whether a list has an item that equals a constant."""
    if not _is_list(value.type):
        raise Refusal(f"a list is needed, not {value.type}")
    item_value = constant(item, "the item to look for")
    if item_value is None:
        return pa.scalar(None, pa.bool_())
    return _columnar(_contain, value, pa.scalar(item_value, value.type.value_type))


def _contain(lists: pa.Array, item: Datum) -> pa.Array:
    hits = pc.equal(pc.list_flatten(lists), item).fill_null(fill_value=False)
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    found = np.bincount(parents[hits.to_numpy(zero_copy_only=False)], minlength=len(lists)).astype(
        np.bool_
    )
    return pa.array(found, mask=lists.is_null().to_numpy(zero_copy_only=False))
