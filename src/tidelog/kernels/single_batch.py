# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One ready batch that a client appends by itself: checked, copied and stamped in one call.

`SingleBatch` takes a whole v2 batch of base offset 0 that a log stores as it is:

- uncompressed, or compressed by a codec that the topic keeps and a kernel reads; not of a transaction, no
  control batch, with its records' own times;
- sound, within the topic's limits, its offsets counting on from 0.

Everything else is left, untouched, to the long way (`log.append.appending`), which also says why a batch is
refused. What is taken is written by `kernels.appender`.
"""

import cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.tidelog.kernels.appends import _stamp_one
    from cython.cimports.tidelog.kernels.codecs import LARGEST
    from cython.cimports.tidelog.kernels.record_summary import Said, _walk
    from cython.cimports.tidelog.kernels.scan import _read_header, i32
    from cython.cimports.tidelog.kernels.scratch import Scratch
else:
    from types import SimpleNamespace as Said

    from tidelog.kernels.appends import _stamp_one
    from tidelog.kernels.codecs import LARGEST
    from tidelog.kernels.record_summary import _walk
    from tidelog.kernels.scan import _read_header, i32
    from tidelog.kernels.scratch import Scratch

_HEADER = cython.declare(cython.Py_ssize_t, 61)
_SCRATCH_BYTES = 1 << 20
_SMALL = cython.declare(cython.Py_ssize_t, 4096)  # looked at in less time than it takes to let others run


@cython.cclass
class SingleBatch:
    """Checks one batch after the other against a topic's limits; `take` is for one thread at a time.

    A batch may have `max_bytes`; its timestamps lie from `before_ms` before now to `after_ms` after it; each
    record has a key if `keyed`; it is compressed by `codec`, -1: by any, or not at all. `new_scratch` makes
    room to decompress to; `scratches` keeps what is not in use.
    """

    def __init__(
        self,
        max_bytes: cython.longlong,
        before_ms: cython.longlong,
        after_ms: cython.longlong,
        keyed: cython.bint,
        codec: cython.longlong,
        new_scratch,
        scratches: list,
    ):
        self._max_bytes = max_bytes
        self._before_ms = before_ms
        self._after_ms = after_ms
        self._keyed = keyed
        self._codec = codec
        self._new_scratch = new_scratch
        self._scratches = scratches
        self.size = 0
        self.last_offset = -1
        self.max_timestamp = -1
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1

    @cython.ccall
    def take(
        self,
        data: bytes,
        next_offset: cython.longlong,
        leader_epoch: cython.longlong,
        now_ms: cython.longlong,
    ):
        """A copy of the batch with its offsets and leader epoch; None where it must go the long way.

        `size`, `last_offset` and the others are then those of the copy.
        """
        n: cython.Py_ssize_t = len(data)
        said: Said
        if n <= _HEADER or n > self._max_bytes:
            return None
        if cython.compiled:
            copy = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), n)  # changed while nobody else has it
            p: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(copy))
            row: cython.longlong[16]
        else:
            copy = p = bytearray(data)
            row = [0] * 16
        if i32(p, 8) != n - 12:
            return None
        if n <= _SMALL:
            said = self._look(p, n, row)
        else:
            with cython.nogil:
                said = self._look(p, n, row)
        if not said.sound and row[6] != 0 and self._is_plain(row):
            said = self._walk_packed(p, n, row)
        if not said.sound or (self._keyed and said.keyless > 0):
            return None
        if said.smallest < now_ms - self._before_ms or said.largest > now_ms + self._after_ms:
            return None
        row[0] = 0
        _stamp_one(p, 0, row, next_offset, leader_epoch, False, said.largest)
        self.size = n
        self.last_offset = row[3]
        self.max_timestamp = said.largest
        self.producer_id = row[9]
        self.producer_epoch = row[10]
        self.base_sequence = row[11]
        return copy

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _look(self, p: cython.p_uchar, n: cython.Py_ssize_t, row: cython.pointer[cython.longlong]) -> Said:
        """Read the header into `row`, and look at the records where they are not compressed."""
        nothing: Said = Said(sound=False, in_order=False, smallest=0, largest=-1, keyless=0)
        if _read_header(p, 0, n, row, True) != 0:
            row[6] = 0  # there is nothing inside to be looked at
            return nothing
        if row[6] != 0 or not self._is_plain(row):
            return nothing
        return _walk(p, _HEADER, n, row[12], row[7], -1)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _is_plain(self, row: cython.pointer[cython.longlong]) -> cython.bint:
        """Whether its header says so: magic 2, base offset 0, an offset a record, a codec that is kept."""
        if row[5] != 2 or row[2] != 0 or row[12] <= 0 or row[3] + 1 != row[12]:
            return False
        if row[6] < 0 or row[6] > LARGEST or (self._codec >= 0 and row[6] != self._codec):
            return False
        return row[9] < 0 or (row[10] >= 0 and row[11] >= 0)

    @cython.cfunc
    def _walk_packed(
        self, p: cython.p_uchar, n: cython.Py_ssize_t, row: cython.pointer[cython.longlong]
    ) -> Said:
        """Look at the records inside a compressed batch; not sound where a kernel cannot."""
        said: Said = Said(sound=False, in_order=False, smallest=0, largest=-1, keyless=0)
        size: cython.longlong
        scratch: Scratch = self._scratches.pop() if self._scratches else self._new_scratch(_SCRATCH_BYTES)
        with cython.nogil:
            size = scratch.decompress(p, _HEADER, n, row[6])
            if size > 0:
                said = _walk(scratch.data, 0, size, row[12], row[7], -1)
                if not said.in_order:  # it is to be written anew
                    said.sound = False
        self._scratches.append(scratch)
        return said
