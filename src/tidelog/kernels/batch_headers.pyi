import numpy as np
import numpy.typing as npt

def seal(out: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64]) -> None: ...
