import numpy as np
import numpy.typing as npt

def cut(
    table: npt.NDArray[np.int64],
    start: int,
    max_rows: int,
    max_bytes: int,
    expansion: int,
    origin: int,
    buffer_size: int,
) -> tuple[int, int, int, bool, bool, int]: ...
def run(table: npt.NDArray[np.int64], first: int) -> tuple[int, int]: ...
