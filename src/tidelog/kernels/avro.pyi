import numpy as np
import numpy.typing as npt

NULL: int
BOOLEAN: int
INT: int
LONG: int
SCALED: int
FLOAT: int
DOUBLE: int
ENUM: int
BYTES: int
STRING: int
FIXED: int
DECIMAL: int
RECORD: int
ARRAY: int
MAP: int
OPTION: int
UNION: int
SPAN: int

BAD_VARINT: int
ENDS_EARLY: int
BAD_BOOLEAN: int
BAD_LENGTH: int
BAD_BRANCH: int
BAD_SYMBOL: int
BAD_TEXT: int
TOO_MANY: int
TOO_DEEP: int
OUT_OF_RANGE: int
LEFT_OVER: int

WIDTH: int
DEPTH: int

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]

def decode(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    faults: Int32s,
    nodes: Int64s,
    consts: Bytes,
    arenas: tuple[Int64s, Int32s, Bytes],
    counters: Int64s,
    room: Int64s,
    row: int,
) -> tuple[int, int, int]: ...
