import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]

class Bytes:
    used: int
    nulls: int
    def __init__(self, ends: Int32s, valid: Bits, data: Bits) -> None: ...

class Columns:
    rows: int
    headers: int
    batches: int
    packed: int
    unpacked: int
    def __init__(
        self,
        table: Int64s,
        capacity: int,
        offsets: Int64s | None = None,
        timestamps: Int64s | None = None,
        microseconds: bool = False,
        keys: Bytes | None = None,
        values: Bytes | None = None,
        headers: tuple[()] | tuple[Int32s, Bits, Bytes, Bytes] | None = None,
    ) -> None: ...
