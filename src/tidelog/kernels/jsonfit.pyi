import numpy as np
import numpy.typing as npt

STRUCT: int
LIST: int
BOOL: int
INT: int
FLOAT: int
STRING: int
DATE: int
TIMESTAMP: int
DECIMAL: int
OTHER: int
DEPTH: int

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

def fit(data: Bytes, offsets: Int64s, nodes: Int64s, names: Bytes, out: Bytes, scratch: Int64s) -> int: ...
