import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]

def count_headers(buf: Buffer, start: int, end: int, count: int) -> int: ...
def count_headers_in_run(buf: Buffer, rows: Int64s, origin: int) -> tuple[int, int]: ...
def count_messages(payload: Buffer) -> tuple[int, int]: ...

class Bytes:
    used: int
    nulls: int
    def __init__(self, ends: Int32s, valid: Bits, data: Bits) -> None: ...

class Columns:
    rows: int
    headers: int
    fault_batch: int
    def __init__(
        self,
        table: Int64s,
        capacity: int,
        offsets: Int64s | None = None,
        timestamps: Int64s | None = None,
        microseconds: bool = False,
        keys: Bytes | None = None,
        values: Bytes | None = None,
        headers: tuple[Int32s, Bits, Bytes, Bytes] | None = None,
    ) -> None: ...
    def take_run(
        self, buf: Buffer, origin: int, first: int, last: int, check_crc: bool = False
    ) -> int: ...
    def take_lz4_run(
        self, buf: Buffer, origin: int, first: int, last: int, scratch: Buffer, check_crc: bool
    ) -> int: ...
    def take_payload(self, payload: Buffer, i: int) -> int: ...
    def take_messages(self, buf: Buffer, origin: int, first: int, last: int) -> int: ...
    def take_message_set(self, payload: Buffer, i: int, messages: int, last: int) -> int: ...
