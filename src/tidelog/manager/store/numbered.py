"""The partitions of a topic by their numbers, of a store that is written and of one that is only read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from tidelog.errors import UnknownTopicOrPartitionError
from tidelog.lazy import LazyModule

if TYPE_CHECKING:
    from tidelog.manager.store.pictures import Drawable

__all__ = ["NumberedPartitions"]

_pictures = LazyModule("tidelog.manager.store.pictures")  # for notebooks only
_P = TypeVar("_P", bound="Drawable")


class NumberedPartitions(Generic[_P]):
    """What a topic is as a container: `topic[0]`, `for partition in topic`, `len(topic)`."""

    __slots__ = ()
    name: str
    partitions: Mapping[int, _P]

    def __getitem__(self, number: int) -> _P:
        """A partition by its number."""
        try:
            return self.partitions[number]
        except KeyError:
            there = sorted(self.partitions)
            raise UnknownTopicOrPartitionError(
                f"topic {self.name!r} has no partition {number} here, but {there}"
            ) from None

    def __iter__(self) -> Iterator[_P]:
        """Its partitions in order."""
        partitions = self.partitions  # replaced, never changed, so that nobody needs a lock to look
        return iter([partitions[number] for number in sorted(partitions)])

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        drawn: str = _pictures.draw_partitions(self.name, self)
        return drawn

    def __len__(self) -> int:
        """How many partitions it has here."""
        return len(self.partitions)
