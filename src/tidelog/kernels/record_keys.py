# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Records as compaction sees them: where each lies, its offset and time, and the hash of its key.

They are read in chunks of 64, of one batch or of several small ones: all keys of a chunk are hashed first,
and the processor told to bring their slots of the map; by the time the map is asked, they are there.

A record is laid out as `kernels.records` says. All its fields are held against its own length, and that
against the batch's end; nothing outside of the range given is read, whatever the varints say.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.crc import crc32_range, crc32c_range
    from cython.cimports.tidelog.kernels.faults import CHECKSUM, COUNT_MISMATCH, RECORD_OVERRUN
    from cython.cimports.tidelog.kernels.scan import wrapping_add
    from cython.cimports.tidelog.kernels.varints import Var, varint
else:
    from types import SimpleNamespace

    from tidelog.kernels.crc import crc32_range, crc32c_range
    from tidelog.kernels.faults import CHECKSUM, COUNT_MISMATCH, RECORD_OVERRUN
    from tidelog.kernels.scan import wrapping_add
    from tidelog.kernels.varints import Var, varint

    Keyed = SimpleNamespace
    CHUNK, HAS_KEY, HAS_VALUE = 64, 1, 2

_Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])
_MIN_BATCH = cython.declare(cython.longlong, 61)
_MIN_MESSAGE = cython.declare(cython.longlong, 26)


def row_of(rows, i):
    """The numbers that describe batch `i`."""
    if cython.compiled:
        return cython.address(rows[i, 0])
    else:
        return rows[i].tolist()


def check_batch(p, size, start, row):
    """0 where the batch at p[start:size], which `row` describes, is there whole and sound; or the fault."""
    end: cython.longlong = start + row[1]
    if start < 0 or row[1] < (_MIN_BATCH if row[5] == 2 else _MIN_MESSAGE) or end > size:
        return RECORD_OVERRUN
    if row[5] == 2:
        if crc32c_range(p, start + 21, end) != row[13]:
            return CHECKSUM
    elif crc32_range(p, start + 16, end) != row[13]:
        return CHECKSUM
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _headers_end(
    p: _Bytes, pos: cython.Py_ssize_t, limit: cython.Py_ssize_t, count: cython.longlong
) -> cython.Py_ssize_t:
    """Where `count` headers end, or minus the fault."""
    k: cython.longlong
    v: Var = Var(value=0, pos=pos)
    for k in range(2 * count):
        v = varint(p, v.pos, limit, 28)
        if v.pos < 0:
            return v.pos
        if v.value > limit - v.pos or (v.value < 0 and k % 2 == 0):
            return -RECORD_OVERRUN
        if v.value > 0:
            v.pos += v.value
    return v.pos


@cython.final
@cython.cclass
class Chunk:
    """Up to 64 records, `n` at present; `pos` is where the next one begins."""

    def __cinit__(self):
        """Nothing read yet."""
        self.n = 0
        self.pos = 0
        if not cython.compiled:
            self.records = [SimpleNamespace(hash=None) for _ in range(CHUNK)]

    if not cython.compiled:
        __init__ = __cinit__

    def _read_body(self, p, i, pos, limit, keymap):
        """Key, value and headers of record `i`, which fill p[pos:limit]; 0 or the fault."""
        v: Var = varint(p, pos, limit, 28)
        self.records[i].body = pos
        self.records[i].kind = 0
        if v.pos < 0:
            return -v.pos
        if v.value > limit - v.pos:
            return RECORD_OVERRUN
        if v.value >= 0:
            self.records[i].kind = HAS_KEY
            self.records[i].hash = keymap.hash_of(p, v.pos, v.value)
            keymap.expect(self.records[i].hash)
            v.pos += v.value
        v = varint(p, v.pos, limit, 28)
        if v.pos < 0:
            return -v.pos
        if v.value > limit - v.pos:
            return RECORD_OVERRUN
        if v.value >= 0:
            self.records[i].kind |= HAS_VALUE
            v.pos += v.value
        v = varint(p, v.pos, limit, 28)
        if v.pos < 0:
            return -v.pos
        if v.value < 0 or v.value > limit - v.pos:
            return RECORD_OVERRUN
        if v.value != 0:
            v.pos = _headers_end(p, v.pos, limit, v.value)
            if v.pos < 0:
                return -v.pos
        return 0 if v.pos == limit else RECORD_OVERRUN

    def read(self, p, end, left, row, keymap):
        """Add the next of the `left` records in p[pos:end] of the batch `row`, as many as there is room for.

        0 or the fault; then none was added.
        """
        n: cython.Py_ssize_t = CHUNK if left > CHUNK - self.n else self.n + left
        i: cython.Py_ssize_t
        pos: cython.Py_ssize_t = self.pos
        limit: cython.Py_ssize_t
        stamped: cython.bint = (row[6] & 8) != 0
        fault: cython.int
        v: Var
        for i in range(self.n, n):
            if pos >= end:
                return COUNT_MISMATCH
            v = varint(p, pos, end, 28)
            if v.pos < 0:
                return -v.pos
            if v.value < 1 or v.value > end - v.pos:
                return RECORD_OVERRUN
            limit = v.pos + v.value
            self.records[i].start = pos
            self.records[i].limit = limit
            v = varint(p, v.pos + 1, limit, 63)
            if v.pos < 0:
                return -v.pos
            self.records[i].timestamp = row[8] if stamped else wrapping_add(row[7], v.value)
            v = varint(p, v.pos, limit, 28)
            if v.pos < 0:
                return -v.pos
            self.records[i].offset = wrapping_add(row[2], v.value)
            fault = self._read_body(p, i, v.pos, limit, keymap)
            if fault != 0:
                return fault
            pos = limit
        self.n = n
        self.pos = pos
        return 0
