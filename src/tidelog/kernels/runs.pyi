import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from tidelog.kernels.columns import Columns

def take_plain(columns: Columns, buf: Buffer, origin: int, last: int, check_crc: bool) -> int: ...
def take_compressed(
    columns: Columns, buf: Buffer, origin: int, last: int, check_crc: bool, scratch: npt.NDArray[np.uint8]
) -> int: ...
def take_payload(columns: Columns, payload: Buffer) -> int: ...
