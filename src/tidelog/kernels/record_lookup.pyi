from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

_T = TypeVar("_T")

def make(cls: type[_T], names: tuple[str, ...], kinds: tuple[object, ...], found: tuple[Any, ...]) -> _T: ...
def make_pair(cls: type[_T], names: tuple[str, str], first: object, second: object) -> _T: ...
def find_in_payload(
    payload: Buffer, row: npt.NDArray[np.int64], by_time: bool, offset: int, timestamp: int
) -> tuple[Any, ...]: ...
