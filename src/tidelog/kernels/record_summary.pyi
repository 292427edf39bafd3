import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def sum_up(
    buf: Buffer, rows: npt.NDArray[np.int64], origin: int, largest: npt.NDArray[np.int64]
) -> tuple[int, int, int, int]: ...
def sum_up_payload(
    payload: Buffer, count: int, base_timestamp: int, all_at: int
) -> tuple[bool, int, int, int, bool]: ...
