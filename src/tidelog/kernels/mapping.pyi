import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from tidelog.kernels.keymap import KeyMap
from tidelog.kernels.scratch import Scratch

Int64s = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint8]

class Mapper:
    latest: int
    read: int
    full: bool
    batches: int
    def __init__(self, keymap: KeyMap, start: int, limit: int, latest: int) -> None: ...
    def begin(self) -> None: ...
    def run(self, buf: Buffer, rows: Int64s, skip: Marks, origin: int, scratch: Scratch) -> int: ...
    def take(self, payload: Buffer, row: Int64s) -> int: ...
