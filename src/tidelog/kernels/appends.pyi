import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def analyze(
    rows: npt.NDArray[np.int64],
    origin: int,
    leader_epoch: int,
    max_message_bytes: int,
    target_codec: int,
    log_append_time: bool,
) -> tuple[int, int, int, int, int, int, int, bool, int]: ...
def stamp(
    buf: Buffer,
    rows: npt.NDArray[np.int64],
    origin: int,
    next_offset: int,
    leader_epoch: int,
    log_append_time: int,
    max_timestamps: npt.NDArray[np.int64],
) -> int: ...
