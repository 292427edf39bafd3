from typing import Any

class Published:
    active: Any
    recovery_point: int
    truncations: int
    _closed: bool
    _offline: BaseException | None
    view: Any
    def __init__(self, point_type: type, offsets_type: type, view_type: type, view: Any) -> None: ...
