import numpy as np
import numpy.typing as npt

def murmur2(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], out: npt.NDArray[np.uint32]
) -> int: ...
