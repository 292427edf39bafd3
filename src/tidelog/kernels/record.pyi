from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def find_in_payload(
    payload: Buffer, row: npt.NDArray[np.int64], by_time: bool, offset: int, timestamp: int
) -> tuple[Any, ...]: ...
