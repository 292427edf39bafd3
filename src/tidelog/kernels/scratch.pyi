import numpy as np
import numpy.typing as npt

def use_zstd(create: int, free: int, decompress: int) -> None: ...

class Scratch:
    room: int
    def __init__(self, memory: npt.NDArray[np.uint8]) -> None: ...
