class Progress:
    @property
    def interval(self) -> int: ...
    last_offset: int
    since: int
    max_timestamp: int
    max_offset: int
    last_time: int
    slots: int
    beginnings: int
    index_full: bool
    def __init__(self, interval: int) -> None: ...
    def due(self, timestamp: int) -> int: ...
    def note(self, size: int, last: int, timestamp: int, due: int) -> None: ...
