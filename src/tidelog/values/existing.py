"""A column that an export's target has already, and what may become of its type.

Fields are added; a type becomes wider where the target's format has that. Where a type cannot change, the one
that is there stays: values that do not fit it are invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from tidelog.values.json_reading import Misfit
from tidelog.values.json_types import join

__all__ = ["ExistingColumn", "Widenings", "join_all"]

_types = pa.types
_T = TypeVar("_T")
Widenings = tuple[tuple[pa.DataType, pa.DataType], ...] | None
"""Which types become which others; None: each becomes any that holds it."""


@dataclass(frozen=True, slots=True)
class ExistingColumn:
    """The type of a column, and how it may change."""

    type: pa.DataType
    widenings: Widenings = None
    folds_case: bool = False
    """Whether names that differ in case only are one name."""

    def fits(self, kind: pa.DataType) -> bool:
        """Whether a type holds the column and values of another type."""
        try:
            joined = join(self.type, kind)
        except Misfit:
            return False
        return not self.folds_case or _is_told_apart(joined)

    def grown(self, kind: pa.DataType) -> pa.DataType:
        """The column's type with what it can take of another, field by field."""
        return self._grown(self.type, kind)

    def _grown(self, own: pa.DataType, kind: pa.DataType) -> pa.DataType:
        if own == kind or _types.is_null(kind):
            return own
        if _types.is_null(own):
            return kind
        if _types.is_struct(own) and _types.is_struct(kind):
            fields = {one.name: one.type for one in own}
            known = {self._folded(name) for name in fields}
            for one in kind:
                if one.name in fields:
                    fields[one.name] = self._grown(fields[one.name], one.type)
                elif self._folded(one.name) not in known:
                    fields[one.name] = one.type
                    known.add(self._folded(one.name))
            return pa.struct(list(fields.items()))
        if _types.is_list(own) and _types.is_list(kind):
            return pa.list_(self._grown(own.value_type, kind.value_type))
        if _types.is_map(own) and _types.is_map(kind):
            return pa.map_(own.key_type, self._grown(own.item_type, kind.item_type))
        try:
            joined = join(own, kind)
        except Misfit:
            return own
        return joined if self.widenings is None or (own, joined) in self.widenings else own

    def _folded(self, name: str) -> str:
        return name.casefold() if self.folds_case else name


def _is_told_apart(kind: pa.DataType) -> bool:
    if _types.is_struct(kind):
        names = {one.name.casefold() for one in kind}
        return len(names) == kind.num_fields and all(_is_told_apart(one.type) for one in kind)
    if _types.is_list(kind):
        return _is_told_apart(kind.value_type)
    return _is_told_apart(kind.item_type) if _types.is_map(kind) else True


def join_all(
    kinds: Sequence[_T],
    join: Callable[[_T, _T], _T],
    arrow: Callable[[_T], pa.DataType],
    existing: ExistingColumn | None,
) -> tuple[_T | None, pa.DataType]:
    """The type of all versions, oldest first, and that of the column.

    A version that does not fit the newer ones, or the column that is there, is left out. Without versions the
    column stays as it is.
    """
    if not kinds:
        assert existing is not None, "there is a schema, or a column"
        return None, existing.type
    first = [one for one in kinds if existing is None or existing.fits(arrow(one))] or kinds
    found = first[-1]
    for one in reversed(first[:-1]):
        try:
            both = join(one, found)
        except Misfit:
            continue
        if existing is None or existing.fits(arrow(both)):
            found = both
    return found, arrow(found) if existing is None else existing.grown(arrow(found))
