"""A store as a mapping: topics by their names. `in`, `[]`, iteration and `len` speak of the same topics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from tidelog.errors import UnknownTopicOrPartitionError
from tidelog.lazy import LazyModule

__all__ = ["TopicMapping"]

_P_co = TypeVar("_P_co", covariant=True)


class _Topic(Protocol[_P_co]):
    """A topic, whose partitions can be iterated over and had by number."""

    def __getitem__(self, number: int, /) -> _P_co: ...

    def __iter__(self) -> Iterator[_P_co]: ...


_pictures = LazyModule("tidelog.manager.store.pictures")  # for notebooks only
_T = TypeVar("_T", bound=_Topic[Any])
_P = TypeVar("_P")


class TopicMapping(Mapping[str, _T], Generic[_T, _P]):
    """The topics of a store by name; a missing one is an UnknownTopicOrPartitionError, a LookupError."""

    @property
    @abstractmethod
    def topics(self) -> Mapping[str, _T]:
        """The topics by name, as they are now."""

    @property
    @abstractmethod
    def partitions(self) -> list[_P]:
        """All partitions of all topics."""

    def _why_missing(self, name: str) -> str:
        """Why there is no such topic."""
        return f"there is no topic {name!r}"

    def topic(self, name: str) -> _T:
        """The topic called `name`."""
        try:
            return self.topics[name]
        except KeyError:
            raise UnknownTopicOrPartitionError(self._why_missing(name)) from None

    def partition(self, topic: str, number: int = 0) -> _P:
        """A partition of a topic."""
        found: _P = self.topic(topic)[number]
        return found

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        drawn: str = _pictures.draw_topics(
            repr(self), [(name, list(self.topics[name])) for name in sorted(self.topics)]
        )
        return drawn

    def __getitem__(self, name: str) -> _T:
        """A topic by its name."""
        return self.topic(name)

    def get(self, name: str, default: Any = None) -> Any:
        """A topic by its name, or `default`."""
        return self.topics.get(name, default)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a topic."""
        return name in self.topics

    def __iter__(self) -> Iterator[str]:
        """The names of the topics."""
        return iter(self.topics)

    def __len__(self) -> int:
        """How many topics there are."""
        return len(self.topics)

    def __bool__(self) -> bool:
        """A store is there, though it may have no topics."""
        return True

    __eq__ = object.__eq__
    __hash__ = object.__hash__
