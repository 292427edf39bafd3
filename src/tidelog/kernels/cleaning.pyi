import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from tidelog.kernels.keymap import KeyMap
from tidelog.kernels.scratch import Scratch

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

class Filter:
    used: int
    made: int
    batches: int
    wanted: int
    read: int
    kept: int
    keyless: int
    tombstones: int
    markers: int
    copied: int
    rewritten: int
    emptied: int
    dropped: int
    unsealed: int
    def __init__(self, keymap: KeyMap, latest: int, now: int, horizon: int) -> None: ...
    def give(self, out: Bytes, keep: Int64s, made_rows: Int64s) -> None: ...
    def begin(self) -> None: ...
    def clear(self) -> None: ...
    def run(self, buf: Buffer, rows: Int64s, flags: Bytes, origin: int, scratch: Scratch) -> int: ...
    def take(self, batch: Buffer, payload: Buffer, row: Int64s, flags: int) -> int: ...
