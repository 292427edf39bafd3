import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

class Column:
    def __init__(
        self, ends: Int64s, data: Bytes | None, valid: Bytes | None, first: int, limit: int
    ) -> None: ...
    def __len__(self) -> int: ...

class Records:
    def __init__(
        self,
        count: int,
        now: int,
        timestamps: Int64s | None,
        keys: Column | None,
        values: Column | None,
        headers: tuple[Column, Column, Column] | None,
    ) -> None: ...

def encode(
    records: Records,
    template: Int64s,
    max_records: int,
    max_bytes: int,
    sealed: bool,
    out: Bytes,
    rows: Int64s,
) -> tuple[int, int, int, int]: ...
