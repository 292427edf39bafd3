from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.kernels.single_batch import SingleBatch

_Method = TypeVar("_Method", bound=Callable[..., Any])

def short_way_first(long_way: _Method) -> _Method: ...
def short_way_in_first(long_way: _Method) -> _Method: ...

class Appender:
    def __init__(
        self,
        state: Any,
        batch: SingleBatch,
        types: tuple[type, ...],
        arm: Callable[[Any], tuple[Any, ...] | None],
        flush: Callable[[Any], None],
        flush_messages: int,
        own_clock: bool,
    ) -> None: ...
    def append(self, data: bytes, leader_epoch: int, replicated: bool = False) -> Any: ...
