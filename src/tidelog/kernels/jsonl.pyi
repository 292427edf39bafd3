import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]

DONE: int
FULL: int
NOTE: int
BAD: int

class Column:
    def __init__(self, ends: Int32s, valid: Bits | None, data: Buffer) -> None: ...

class Lines:
    batch: int
    row: int
    need: int
    status: int
    def __init__(
        self,
        table: Int64s,
        positions: Int64s,
        offsets: Int64s,
        timestamps: Int64s,
        keys: Column,
        values: Column,
        header_ends: Int32s,
        header_keys: Column,
        header_values: Column,
        json: bool,
        batches: bool,
        payloads: bool,
        sound: bool,
    ) -> None: ...
    def fill(self, out: Buffer, note: bytes = b"") -> int: ...
