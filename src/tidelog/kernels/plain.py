# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One plain batch that a client appends by itself: checked and stamped in one call.

Most appends are one small batch, and what is around a call costs more than what it does. Plain is a whole v2
batch of base offset 0, uncompressed, of no producer id, not of a transaction and no control batch, with its
records' own times, sound, within the topic's limits. Whatever is not is left to `ready`, which also says why
it is refused.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.appends import _stamp_one
    from cython.cimports.tidelog.kernels.contents import Said, _walk
    from cython.cimports.tidelog.kernels.scan import _read_header, i32
else:
    from types import SimpleNamespace as Said

    from tidelog.kernels.appends import _stamp_one
    from tidelog.kernels.contents import _walk
    from tidelog.kernels.scan import _read_header, i32

_HEADER = cython.declare(cython.Py_ssize_t, 61)


@cython.cclass
class PlainBatch:
    """Checks one batch after the other against a topic's limits; `take` is for one thread at a time.

    A batch may have `max_bytes`; its timestamps lie from `before_ms` before now to `after_ms` after it; each
    record has a key if `keyed`.
    """

    _max_bytes: cython.longlong
    _before_ms: cython.longlong
    _after_ms: cython.longlong
    _keyed: cython.bint
    size = cython.declare(cython.longlong, visibility="readonly")
    last_offset = cython.declare(cython.longlong, visibility="readonly")
    max_timestamp = cython.declare(cython.longlong, visibility="readonly")

    def __init__(
        self,
        max_bytes: cython.longlong,
        before_ms: cython.longlong,
        after_ms: cython.longlong,
        keyed: cython.bint,
    ):
        self._max_bytes = max_bytes
        self._before_ms = before_ms
        self._after_ms = after_ms
        self._keyed = keyed
        self.size = 0
        self.last_offset = -1
        self.max_timestamp = -1

    def take(
        self,
        data: bytes,
        next_offset: cython.longlong,
        leader_epoch: cython.longlong,
        now_ms: cython.longlong,
    ):
        """A copy of the batch with its offsets and leader epoch; None where it is not plain.

        `size`, `last_offset` and `max_timestamp` are then those of the copy.
        """
        n: cython.Py_ssize_t = len(data)
        fault: cython.int
        said: Said = Said(sound=False, in_order=False, smallest=0, largest=-1, keyless=0)
        if n <= _HEADER or n > self._max_bytes:
            return None
        copy = bytearray(data)
        if cython.compiled:
            p: cython.p_uchar = cython.cast(cython.p_uchar, cython.cast(cython.p_char, copy))
            row: cython.longlong[16]
        else:
            p = copy
            row = [0] * 16
        if i32(p, 8) != n - 12:
            return None
        with cython.nogil:
            fault = _read_header(p, 0, n, row, True)
            if fault == 0 and _is_plain(row):
                said = _walk(p, _HEADER, n, row[12], row[7], -1)
        if not said.sound or (self._keyed and said.keyless > 0):
            return None
        if said.smallest < now_ms - self._before_ms or said.largest > now_ms + self._after_ms:
            return None
        row[0] = 0
        _stamp_one(p, 0, row, next_offset, leader_epoch, False, said.largest)
        self.size = n
        self.last_offset = row[3]
        self.max_timestamp = said.largest
        return copy


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_plain(row: cython.pointer[cython.longlong]) -> cython.bint:
    """Whether its header says so: magic 2, base offset 0, no attributes, no producer, an offset a record."""
    return (
        row[5] == 2 and row[2] == 0 and row[6] == 0 and row[9] < 0 and row[12] > 0 and row[3] + 1 == row[12]
    )
