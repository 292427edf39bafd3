from collections.abc import Callable
from typing import Any

from tidelog.kernels.scratch import Scratch

class Progress:
    last_offset: int
    since: int
    max_timestamp: int
    max_offset: int

class SingleBatch:
    size: int
    last_offset: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    def __init__(
        self,
        max_bytes: int,
        before_ms: int,
        after_ms: int,
        keyed: bool,
        codec: int,
        new_scratch: Callable[[int], Scratch],
        scratches: list[Scratch],
    ) -> None: ...
    def take(
        self, data: bytes, next_offset: int, leader_epoch: int, now_ms: int
    ) -> bytes | bytearray | None: ...

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
