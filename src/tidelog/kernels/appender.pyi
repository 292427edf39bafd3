from collections.abc import Callable
from typing import Any

from tidelog.kernels.single_batch import SingleBatch

class Progress:
    last_offset: int
    since: int
    max_timestamp: int
    max_offset: int
    beginnings: int
    index_full: bool

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
