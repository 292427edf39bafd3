from typing_extensions import Buffer

from tidelog.kernels.columns import Columns
from tidelog.kernels.scratch import Scratch

def take_plain(columns: Columns, buf: Buffer, origin: int, last: int, check_crc: bool) -> int: ...
def take_compressed(
    columns: Columns, buf: Buffer, origin: int, last: int, check_crc: bool, scratch: Scratch
) -> int: ...
def take_payload(columns: Columns, payload: Buffer) -> int: ...
