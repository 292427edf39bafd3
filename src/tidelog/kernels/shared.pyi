from typing import Any

from tidelog.kernels.locks import Lock
from tidelog.kernels.lookup import TimePath

class EpochFields:
    _entries: tuple[Any, ...]
    def __init__(self) -> None: ...

class TransactionFields:
    _ongoing: dict[int, Any]
    _unreplicated: list[Any]
    def __init__(self) -> None: ...

class ProducerFields:
    _producers: dict[int, Any]
    _map_end_offset: int
    def __init__(self) -> None: ...

class PartitionFields:
    gate: Lock
    leader_epoch: int
    _log: Any
    _offline: BaseException | None
    _listeners: tuple[Any, ...]
    def __init__(self) -> None: ...

class SegmentFields:
    _time_path: TimePath | None
    def __init__(self) -> None: ...

class SegmentsFields:
    _all: tuple[Any, ...]
    _largest: list[int]
    def __init__(self, segments: tuple[Any, ...], largest: list[int]) -> None: ...
