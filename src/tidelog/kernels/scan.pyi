import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def scan(
    buf: Buffer, start: int, end: int, origin: int, rows: npt.NDArray[np.int64], check_crc: bool
) -> tuple[int, int, int]: ...
def verify(buf: Buffer, rows: npt.NDArray[np.int64], origin: int) -> int: ...
