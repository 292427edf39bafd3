"""Arrays as another type: fields by name, wider numbers, null where there is nothing.

`conform` casts; what Arrow does not cast is a `Misfit` of all. `fit_values` takes what others have written:
types become wider, numbers also narrower if that is the same number, and nothing else is cast, so that what
becomes of a value does not depend on its neighbours. Each value that does not fit is told, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.values.json_reading import Misfit
from tidelog.values.json_types import join

__all__ = ["Bools", "Misfits", "any_within", "conform", "fit_numbers", "fit_values", "there", "validity"]

_types = pa.types
Bools = npt.NDArray[np.bool_]
Misfits = list[tuple[Bools, str]]
"""Which values do not fit, and why."""
_Scalars = Callable[[pa.Array, pa.DataType, str], tuple[pa.Array, Misfits]]


def conform(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array as a wider type; fields that it does not have are null. Misfit where it is not wider."""
    found, misfits = _fit(array, kind, "value", _cast)
    if misfits:
        raise Misfit(misfits[0][1])
    return found


def fit_values(array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Values as another type, and those that do not fit: they are null, or have nulls in them."""
    return _fit(array, kind, "value", _fit_scalars)


def _fit(array: pa.Array, kind: pa.DataType, where: str, scalars: _Scalars) -> tuple[pa.Array, Misfits]:
    if array.type == kind:
        return array, []
    if _types.is_null(array.type):
        return pa.nulls(len(array), kind), []
    if _types.is_struct(array.type) and _types.is_struct(kind):
        return _struct(array, kind, where, scalars)
    if _types.is_struct(array.type) and not array.type.num_fields and _types.is_map(kind):
        ends = pa.py_buffer(np.zeros(len(array) + 1, np.int32))
        nothing = pa.nulls(0, pa.struct([kind.key_field, kind.item_field]))
        return pa.Array.from_buffers(kind, len(array), [validity(array), ends], children=[nothing]), []
    if _types.is_list(array.type) and _types.is_list(kind):
        inner, misfits = _fit(array.values, kind.value_type, f"{where}[]", scalars)
        return _list(array, kind, inner, misfits)
    if _types.is_map(array.type) and _types.is_map(kind):
        keys, wrong = _fit(array.keys, kind.key_type, f"{where}{{}}", scalars)
        items, misfits = _fit(array.items, kind.item_type, f"{where}{{}}", scalars)
        if keys.null_count:  # of maps that do not fit; Arrow has no maps with such keys
            keys = keys.fill_null(pa.scalar(0, pa.int64()).cast(kind.key_type))
        entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        return _list(array, kind, entries, wrong + misfits)
    return scalars(array, kind, where)


def _struct(array: pa.Array, kind: pa.DataType, where: str, scalars: _Scalars) -> tuple[pa.Array, Misfits]:
    names = {one.name: number for number, one in enumerate(array.type)}
    valid = there(array)
    misfits: Misfits = []
    columns = []
    for one in kind:
        if one.name not in names:
            columns.append(pa.nulls(len(array), one.type))
            continue
        column, wrong = _fit(array.field(names[one.name]), one.type, f"{where}.{one.name}", scalars)
        columns.append(column)
        misfits += [(mask & valid, why) for mask, why in wrong]
    known = {one.name for one in kind}
    if not known.issuperset(names):
        extra = next(name for name in names if name not in known)
        misfits.append((valid, f"{where} has more fields than {kind}: {extra}"))
    mask = pc.invert(array.is_valid()) if array.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask), misfits


def _list(array: pa.Array, kind: pa.DataType, inner: pa.Array, misfits: Misfits) -> tuple[pa.Array, Misfits]:
    ends = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    buffers = [validity(array), pa.py_buffer(np.ascontiguousarray(ends))]
    found = pa.Array.from_buffers(kind, len(array), buffers, children=[inner])
    return found, [(any_within(mask, ends) & there(array), why) for mask, why in misfits]


def any_within(mask: Bools, ends: npt.NDArray[np.int32]) -> Bools:
    """For each list, whether one of its items is marked."""
    before = np.concatenate(([0], np.cumsum(mask)))
    return np.asarray(before[ends[1:]] > before[ends[:-1]])


def _cast(array: pa.Array, kind: pa.DataType, where: str) -> tuple[pa.Array, Misfits]:
    try:
        return array.cast(kind, safe=not _types.is_floating(kind)), []
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Misfit(f"{array.type} does not fit {kind}: {error}") from None


def _fit_scalars(array: pa.Array, kind: pa.DataType, where: str) -> tuple[pa.Array, Misfits]:
    try:
        is_wider = join(kind, array.type) == kind
    except Misfit:
        is_wider = False
    if is_wider:
        return _cast(array, kind, where)
    fitted, bad = fit_numbers(array, kind)
    return fitted, [(bad, f"{where} is {array.type}, which does not fit {kind}")] if bad.any() else []


def fit_numbers(array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bools]:
    """Numbers as a narrower type, and which of them it does not hold; of other types it holds none."""
    if _is_number(array.type) and _is_number(kind):
        fitted = _narrowed(array, kind)
    elif _types.is_decimal128(array.type) and _types.is_decimal128(kind):
        wide = array.cast(pa.decimal256(76, array.type.scale))
        limit = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), wide.type)
        holds = pc.and_(pc.equal(pc.round(wide, kind.scale), wide), pc.less(pc.abs(wide), limit))
        fitted = pc.if_else(holds, array, pa.scalar(None, array.type)).cast(kind)
    else:
        fitted = pa.nulls(len(array), kind)
    return fitted, there(array) & ~there(fitted)


def _narrowed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Integers and floats as another such type; null where that is not the same number."""
    valid = there(array)
    given = np.asarray(array.fill_null(0))
    with np.errstate(all="ignore"):
        found = given.astype(kind.to_pandas_dtype())
        same = found.astype(given.dtype) == given
        if given.dtype.kind == "f" and found.dtype.kind == "f":
            same |= np.isnan(given)
        for one in (given, found):
            if one.dtype.kind == "f" and (given.dtype.kind == "i" or found.dtype.kind == "i"):
                same &= np.abs(one) < 2.0**63
    return pa.array(found, kind, mask=~(same & valid))


def _is_number(kind: pa.DataType) -> bool:
    return bool(_types.is_signed_integer(kind) or _types.is_floating(kind))


def there(array: pa.Array) -> Bools:
    """Which values are not null."""
    found: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def validity(array: pa.Array) -> pa.Buffer | None:
    """Which values are not null, a bit each; None if all are."""
    if not array.null_count:
        return None
    return pa.py_buffer(np.packbits(there(array), bitorder="little"))
