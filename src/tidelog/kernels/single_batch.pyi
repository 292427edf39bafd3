from collections.abc import Callable

from tidelog.kernels.scratch import Scratch

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
