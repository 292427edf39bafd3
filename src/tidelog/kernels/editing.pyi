import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def edit(
    payload: Buffer,
    row: npt.NDArray[np.int64],
    acts: npt.NDArray[np.uint8],
    how: int,
    key: Buffer,
    value: Buffer,
    earliest: int,
    latest: int,
    out: npt.NDArray[np.uint8],
    made: npt.NDArray[np.int64],
) -> int: ...
