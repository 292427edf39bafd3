import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def check(
    buf: Buffer,
    rows: npt.NDArray[np.int64],
    largest: npt.NDArray[np.int64],
    origin: int,
    leader_epoch: int,
    max_message_bytes: int,
    target_codec: int,
    log_append_time: bool,
) -> tuple[int, int, int, int, int, int, int, int, int, int, bool, int, int, int, int, int]: ...
