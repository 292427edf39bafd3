"""Producer ids, each given once, out of blocks that are reserved in the metadata first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Effect, ReserveIds

__all__ = ["ProducerIds"]


class ProducerIds:
    """The rest of the block at hand."""

    def __init__(self) -> None:
        self._next = 0
        self._end = 0

    def take(
        self,
        use: Callable[[int], Sequence[Effect]],
        otherwise: Callable[[ErrorCode], Sequence[Effect]],
    ) -> Sequence[Effect]:
        """Give the next id to `use`; a new block is reserved first where this one is used up."""
        if self._next < self._end:
            self._next += 1
            return use(self._next - 1)

        def refill(first: int, count: int) -> Sequence[Effect]:
            self._next, self._end = first, first + count
            return self.take(use, otherwise)

        return [ReserveIds(refill, otherwise)]
