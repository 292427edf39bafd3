from typing import TypeVar

from tidelog.kernels.published import Published

_T = TypeVar("_T")

def find_by_time(state: Published, timestamp: int, kind: type[_T], names: tuple[str, str]) -> _T | None: ...
