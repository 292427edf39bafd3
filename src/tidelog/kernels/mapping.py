# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compaction's first pass: the last offset of each key of a run of batches into the map.

Records below the offset at which the dirty part begins are passed over, and so are those without a key. The
pass ends at the first record with a key that comes when the map is full, even if its key is there: that is
Kafka's rule, and it makes the round end where Kafka's does. `latest` is how far the map tells: the last
record put in, or the end of the last batch that was gone through.

Records of small batches wait until there are 64 of them: their slots of the map are being fetched meanwhile.
Where the map might become full, each batch is put in before the next is read: then its end is the right one.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.faults import (
        COUNT_MISMATCH,
        NO_ROOM,
        UNUSUAL,
    )
    from cython.cimports.tidelog.kernels.keymap import KeyMap
    from cython.cimports.tidelog.kernels.record_keys import CHUNK, HAS_KEY, Chunk, check_batch, row_of
    from cython.cimports.tidelog.kernels.scratch import Scratch
else:
    from tidelog.kernels.faults import COUNT_MISMATCH, NO_ROOM, UNUSUAL
    from tidelog.kernels.keymap import KeyMap
    from tidelog.kernels.record_keys import CHUNK, HAS_KEY, Chunk, check_batch, row_of
    from tidelog.kernels.scratch import Scratch

_MIN_RECORD = cython.declare(cython.longlong, 7)
_Row = cython.typedef(cython.pointer[cython.const[cython.longlong]])


@cython.final
@cython.cclass
class Mapper:
    """Puts keys into `keymap` until it holds `limit`. `batches` is the next one of the run to be taken."""

    def __cinit__(
        self,
        keymap: KeyMap,
        start: cython.longlong,
        limit: cython.Py_ssize_t,
        latest: cython.longlong,
    ):
        """Map what is at or after offset `start`."""
        if limit >= keymap.capacity:
            raise ValueError("one slot stays empty")
        self.keymap = keymap
        self.chunk = Chunk()
        self.start = start
        self.limit = limit
        self.latest = latest
        self.read = 0
        self.full = False
        self.exact = False
        self.batches = 0

    if not cython.compiled:
        __init__ = __cinit__

    def _take(self, p, pos, end, row):
        """The records p[pos:end] of one batch; 0 or the fault."""
        left: cython.longlong = row[12]
        before: cython.Py_ssize_t
        fault: cython.int
        if left < 0 or left > (end - pos) // _MIN_RECORD:
            return COUNT_MISMATCH
        if not self.keymap.has_room(left + self.chunk.n):
            return NO_ROOM
        if self.keymap.size + self.chunk.n + left > self.limit:
            self._put_all()
            self.exact = True
        self.chunk.pos = pos
        while left > 0:
            before = self.chunk.n
            fault = self.chunk.read(p, end, left, row, self.keymap)
            if fault != 0:
                return fault
            left -= self.chunk.n - before
            if self.exact or self.chunk.n == CHUNK:
                self._put_all()
            if self.full:
                return 0
        return COUNT_MISMATCH if row[12] > 0 and self.chunk.pos != end else 0

    def _put_all(self):
        """Put the records that wait into the map."""
        i: cython.Py_ssize_t
        for i in range(self.chunk.n):
            if (
                self.chunk.records[i].kind & HAS_KEY
                and self.chunk.records[i].offset >= self.start
                and self.chunk.records[i].offset >= 0
            ):
                if self.keymap.size >= self.limit:
                    self.full = True
                    break
                self.keymap.put(self.chunk.records[i].hash, self.chunk.records[i].offset)
                if self.exact:  # else batches behind it may have been read
                    self.latest = self.chunk.records[i].offset
            self.read += 1
        self.chunk.n = 0

    def _done(self, row):
        """A batch was gone through."""
        if not self.full:
            if row[3] >= self.start:
                self.latest = row[3]
            self.batches += 1

    def _run(self, p, size, rows, skip, origin, scratch):
        start: cython.longlong
        end: cython.longlong
        n: cython.longlong
        fault: cython.int = 0
        row: _Row
        while self.batches < rows.shape[0] and not self.full:
            row = row_of(rows, self.batches)
            start = row[0] - origin
            end = start + row[1]
            fault = check_batch(p, size, start, row)
            if fault != 0:
                return fault
            if skip[self.batches]:
                self.read += row[12]
            elif row[5] != 2:
                return UNUSUAL
            elif (row[6] & 7) == 0:
                fault = self._take(p, start + 61, end, row)
            elif row[12] != 0:
                n = scratch.decompress(p, start + 61, end, row[6] & 7)
                fault = -n if n < 0 else self._take(scratch.data, 0, n, row)
            if fault != 0:
                return fault
            self._done(row)
        return 0

    def run(
        self,
        buf: cython.const[cython.uchar][::1],
        rows: cython.const[cython.longlong][:, ::1],
        skip: cython.const[cython.uchar][::1],
        origin: cython.longlong,
        scratch: Scratch,
    ) -> cython.int:
        """Take the batches of the table `rows` from `batches` on, but for those that `skip` marks.

        0, also when the map is full; or the fault. NO_ROOM: take more slots into use. UNUSUAL and
        SCRATCH_FULL: `take` its payload.
        """
        fault: cython.int
        if rows.shape[1] != 16 or skip.shape[0] != rows.shape[0]:
            raise ValueError("a table of batches has 16 columns, and one mark a row")
        if len(buf) == 0:
            return 0
        if cython.compiled:
            with cython.nogil:
                fault = self._run(cython.address(buf[0]), len(buf), rows, skip, origin, scratch)
                self._put_all()
        else:
            fault = self._run(memoryview(buf), len(buf), rows, skip, origin, scratch)
            self._put_all()
        return fault

    def take(
        self, payload: cython.const[cython.uchar][::1], row: cython.const[cython.longlong][::1]
    ) -> cython.int:
        """Take the records of one batch, decompressed; 0 or the fault."""
        fault: cython.int = 0
        if row.shape[0] != 16:
            raise ValueError("a row of a table of batches has 16 columns")
        if cython.compiled:
            with cython.nogil:
                if len(payload) != 0:
                    fault = self._take(cython.address(payload[0]), 0, len(payload), cython.address(row[0]))
                elif row[12] != 0:
                    fault = COUNT_MISMATCH
                self._put_all()
                if fault == 0:
                    self._done(cython.address(row[0]))
        else:
            row = row.tolist()
            fault = self._take(memoryview(payload), 0, len(payload), row)
            self._put_all()
            if fault == 0:
                self._done(row)
        return fault

    def begin(self) -> None:
        """Another run begins."""
        self.batches = 0
