import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

NONE: int
FOUND: int
MORE: int
END: int

def find_batch(
    buf: Buffer, start: int, is_end: bool, floor: int, limit: int, answer: npt.NDArray[np.int64]
) -> int: ...
def follow_lengths(
    buf: Buffer, is_end: bool, floor: int, limit: int, expected: int, answer: npt.NDArray[np.int64]
) -> int: ...
