import numpy as np
import numpy.typing as npt

OFFSET_RANGE: int
ORDER: int

def index_entries(
    rows: npt.NDArray[np.int64],
    base_offset: int,
    interval: int,
    state: npt.NDArray[np.int64],
    offset_entries: npt.NDArray[np.int64],
    time_entries: npt.NDArray[np.int64],
) -> tuple[int, int, int, int]: ...
