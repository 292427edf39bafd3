# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compaction's second pass: what stays of a run of batches, written as it is to be on disk.

Per batch, by the marks that the caller has made (it knows transactions and producers):

    DELETE          the batch goes, unseen
    DISCARD         all its records go; with RETAIN_EMPTY its header stays
    KEEP_ALL        all its records stay (a control batch)
    MARKER          it is the marker of a transaction whose data is gone: its horizon is to be set
    RETAIN_EMPTY    if no record stays, the header does
    LEGACY_DELETES  tombstones of magic 0 and 1 stay

and per record: one past the end of the map stays; one without a key goes; one that the map has a later offset
for goes; a tombstone goes if its batch's delete horizon has come; all others stay. Then the batch is

    copied      byte for byte: all records stay and no horizon is to be set
    rewritten   with the records that stay, and base and max timestamp of theirs. A batch in which a tombstone
                (or such a marker) stays and which has no horizon yet gets one, in the place of its base time
    emptied     a header without records and codec
    dropped

Records are written anew only in front of their key: length, time and offset. The rest is copied. While a
batch is judged, the records that stay are noted (`Kept`), so that none is read or hashed again to be written.

Small uncompressed batches are read ahead, up to 64 records at once (`_look_ahead`): by the time the map is
asked for them, their slots were fetched.

A batch that was compressed is left without its header for the caller, who compresses and seals it (column 14
of its row is 1). The kernel stops before a batch that there is no room for (NO_ROOM): take what is there
(`clear`), or come with more room (`wanted` tells how many records it must be able to mark).
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.kernels.batch_headers import write_header
    from cython.cimports.tidelog.kernels.faults import (
        BAD_OFFSET,
        BAD_TIMESTAMP,
        COUNT_MISMATCH,
        NO_ROOM,
        UNUSUAL,
    )
    from cython.cimports.tidelog.kernels.keymap import KeyMap
    from cython.cimports.tidelog.kernels.record_keys import (
        CHUNK,
        HAS_KEY,
        HAS_VALUE,
        Chunk,
        check_batch,
        row_of,
    )
    from cython.cimports.tidelog.kernels.scan import wrapping_add
    from cython.cimports.tidelog.kernels.scratch import Scratch
    from cython.cimports.tidelog.kernels.varints import put_varint, varint_size
else:
    from collections import defaultdict
    from types import SimpleNamespace

    from tidelog.kernels.batch_headers import write_header
    from tidelog.kernels.faults import BAD_OFFSET, BAD_TIMESTAMP, COUNT_MISMATCH, NO_ROOM, UNUSUAL
    from tidelog.kernels.keymap import KeyMap
    from tidelog.kernels.record_keys import CHUNK, HAS_KEY, HAS_VALUE, Chunk, check_batch, row_of
    from tidelog.kernels.scan import wrapping_add
    from tidelog.kernels.scratch import Scratch
    from tidelog.kernels.varints import put_varint, varint_size

    Kept = Verdict = SimpleNamespace
    DELETE, RETAIN_EMPTY, DISCARD, KEEP_ALL, MARKER, LEGACY_DELETES = 1, 2, 4, 8, 16, 32

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_MIN_RECORD = cython.declare(cython.longlong, 7)
_MOST_HEAD = cython.declare(cython.Py_ssize_t, 21)  # length 5, attributes 1, time 10, offset 5
_SIZE_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)
_STAYS = cython.declare(cython.int, 1)
_GOES = cython.declare(cython.int, 0)
_KEYLESS = cython.declare(cython.int, -1)
_TOMBSTONE = cython.declare(cython.int, -2)

_Row = cython.typedef(cython.pointer[cython.const[cython.longlong]])


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _nothing() -> Verdict:
    """No record stays."""
    return Verdict(
        kept=0,
        keyless=0,
        tombstones=0,
        first_timestamp=-1,
        first_offset=-1,
        last_offset=-1,
        max_timestamp=-1,
        with_tombstones=False,
        fault=0,
    )


@cython.final
@cython.cclass
class Filter:
    """Writes what stays. `batches` is the next one of the run; `used` and `made` tell what was written."""

    def __cinit__(
        self, keymap: KeyMap, latest: cython.longlong, now: cython.longlong, horizon: cython.longlong
    ):
        """Records past `latest` stay; tombstones go by the clock `now`; new horizons are `horizon`."""
        self.keymap = keymap
        self.chunk = Chunk()
        self.latest = latest
        self.ahead = self.next_record = 0
        self.now = now
        self.horizon = horizon
        self.room = self.keep_room = self.used = self.made = self.batches = 0
        self.wanted = self.read = self.kept = self.keyless = self.tombstones = self.markers = 0
        self.copied = self.rewritten = self.emptied = self.dropped = self.unsealed = 0

    if not cython.compiled:
        __init__ = __cinit__

    def give(
        self, out: cython.uchar[::1], keep: cython.longlong[:, ::1], made_rows: cython.longlong[:, ::1]
    ) -> None:
        """Room to write to, to note records in (four numbers each), and for the table of what was written."""
        if self.used != 0 or len(out) < 64 or keep.shape[0] == 0 or made_rows.shape[1] != 16:
            raise ValueError("too little room, or not yet cleared")
        if keep.shape[1] != 4:
            raise ValueError("a record that stays takes four numbers")
        self.out_memory, self.keep_memory, self.made_rows = out, keep, made_rows
        self.room, self.keep_room = len(out), keep.shape[0]
        if cython.compiled:
            self.out = cython.address(out[0])
            self.keep = cython.cast(cython.pointer[Kept], cython.address(keep[0, 0]))
        else:
            self.out, self.keep = memoryview(out), defaultdict(Kept)

    def begin(self) -> None:
        """Another run begins."""
        self.batches = 0

    def clear(self) -> None:
        """What was written is taken away."""
        self.used = 0
        self.made = 0
        self.unsealed = 0

    # Deciding

    def _stays(self, record, keep_all, keep_deletes):
        """Whether a record stays; if not, why."""
        if keep_all or record.offset > self.latest:
            return _STAYS
        if not record.kind & HAS_KEY:
            return _KEYLESS
        if record.offset < self.keymap.find(record.hash):
            return _GOES
        return _STAYS if record.kind & HAS_VALUE or keep_deletes else _TOMBSTONE

    def _decide(self, p, pos, end, row, flags):
        """Note the records of a batch that stay."""
        v: Verdict = _nothing()
        left: cython.longlong = row[12]
        if left < 0 or left > (end - pos) // _MIN_RECORD:
            v.fault = COUNT_MISMATCH
            return v
        if left > self.keep_room:
            self.wanted = left
            v.fault = NO_ROOM
            return v
        if self.batches < self.ahead:
            v = self._judge(v, self.next_record, self.next_record + left, row, flags)
            self.next_record += left
            return v
        self.chunk.pos = pos
        while left > 0:
            self.chunk.n = 0
            v.fault = self.chunk.read(p, end, left, row, self.keymap)
            if v.fault != 0:
                return v
            v = self._judge(v, 0, self.chunk.n, row, flags)
            left -= self.chunk.n
        if row[12] > 0 and self.chunk.pos != end:
            v.fault = COUNT_MISMATCH
        return v

    def _judge(self, v, first, last, row, flags):
        """Note which of the records `first` to `last` of the chunk stay, all of one batch."""
        keep_deletes: cython.bint
        stays: cython.int
        i: cython.Py_ssize_t
        if row[5] == 2:
            keep_deletes = (row[6] & 0x40) == 0 or self.now < row[7]
        else:
            keep_deletes = (flags & LEGACY_DELETES) != 0
        for i in range(first, last):
            stays = self._stays(self.chunk.records[i], (flags & KEEP_ALL) != 0, keep_deletes)
            if stays > 0:
                self.keep[v.kept].body = self.chunk.records[i].body
                self.keep[v.kept].limit = self.chunk.records[i].limit
                self.keep[v.kept].timestamp = self.chunk.records[i].timestamp
                self.keep[v.kept].offset = self.chunk.records[i].offset
                if v.kept == 0:
                    v.first_timestamp = self.chunk.records[i].timestamp
                    v.first_offset = self.chunk.records[i].offset
                v.kept += 1
                v.last_offset = self.chunk.records[i].offset
                if self.chunk.records[i].timestamp > v.max_timestamp:
                    v.max_timestamp = self.chunk.records[i].timestamp
                if not self.chunk.records[i].kind & HAS_VALUE:
                    v.with_tombstones = True
            elif stays == _KEYLESS:
                v.keyless += 1
            elif stays == _TOMBSTONE:
                v.tombstones += 1
        return v

    def _look_ahead(self, p, size, rows, flags, origin):
        """Read the records of the next batches, as far as they are plain, sound, and fit into a chunk."""
        start: cython.longlong
        end: cython.longlong
        row: _Row
        self.ahead = self.batches
        self.chunk.n = self.next_record = 0
        while self.ahead < rows.shape[0]:
            row = row_of(rows, self.ahead)
            start = row[0] - origin
            end = start + row[1]
            if not 0 < row[12] <= CHUNK - self.chunk.n or flags[self.ahead] & (DELETE | DISCARD):
                break
            if row[5] != 2 or (row[6] & 7) != 0 or check_batch(p, size, start, row) != 0:
                break
            self.chunk.pos = start + _HEADER_SIZE
            if self.chunk.read(p, end, row[12], row, self.keymap) != 0 or self.chunk.pos != end:
                break
            self.ahead += 1

    # Writing

    def _copy(self, p, start, end, row):
        """The batch as it is."""
        k: cython.int
        if end - start > self.room - self.used or self.made >= self.made_rows.shape[0]:
            return NO_ROOM
        if cython.compiled:
            memcpy(self.out + self.used, p + start, end - start)
        else:
            self.out[self.used : self.used + end - start] = p[start:end]
        for k in range(16):
            self.made_rows[self.made, k] = row[k]
        self.made_rows[self.made, 0] = self.used
        self.made_rows[self.made, 14] = 0
        self.used += end - start
        self.made += 1
        self.copied += 1
        return 0

    def _empty(self, row):
        """The header alone, without records, codec and base timestamp."""
        k: cython.int
        if self.room - self.used < _HEADER_SIZE or self.made >= self.made_rows.shape[0]:
            return NO_ROOM
        for k in range(16):
            self.made_rows[self.made, k] = row[k]
        self.made_rows[self.made, 0] = self.used
        self.made_rows[self.made, 1] = _HEADER_SIZE
        self.made_rows[self.made, 5] = 2
        self.made_rows[self.made, 6] = row[6] & 0x38 if row[5] == 2 else row[6] & 0x08
        self.made_rows[self.made, 7] = -1
        self.made_rows[self.made, 12] = 0
        self.made_rows[self.made, 14] = 0
        if cython.compiled:
            write_header(self.out, cython.address(self.made_rows[self.made, 0]))
        else:
            write_header(self.out, self.made_rows[self.made])
        self.used += _HEADER_SIZE
        self.made += 1
        self.emptied += 1
        return 0

    def _put_record(self, p, record, at, base_offset, base_timestamp):
        """Write one record at out[at:]; where it ends, or minus the fault."""
        delta: cython.longlong
        offset: cython.longlong = record.offset - base_offset
        body: cython.Py_ssize_t = record.limit - record.body
        if record.timestamp < -1:
            return -BAD_TIMESTAMP
        if cython.compiled:
            delta = record.timestamp - base_timestamp  # both are at least -1
        else:
            delta = wrapping_add(record.timestamp, -base_timestamp)
        if self.room - at < body + _MOST_HEAD:
            return -NO_ROOM
        at = put_varint(self.out, at, 1 + varint_size(delta) + varint_size(offset) + body)
        self.out[at] = 0
        at = put_varint(self.out, at + 1, delta)
        at = put_varint(self.out, at, offset)
        if cython.compiled:
            memcpy(self.out + at, p + record.body, body)
        else:
            self.out[at : at + body] = p[record.body : record.limit]
        return at + body

    def _put_records(self, p, row, kept, base_offset, base_timestamp):
        """Write the `kept` records behind room for a header; where they end, or minus the fault."""
        i: cython.Py_ssize_t
        at: cython.Py_ssize_t = self.used + _HEADER_SIZE
        last: cython.longlong = -1
        for i in range(kept):
            if self.keep[i].offset <= last or self.keep[i].offset > row[3]:
                return -BAD_OFFSET
            last = self.keep[i].offset
            at = self._put_record(p, self.keep[i], at, base_offset, base_timestamp)
            if at < 0:
                return at
        return at

    def _rewrite(self, p, row, verdict, horizon):
        """The batch with the records that stay; `horizon` is its delete horizon, or -1."""
        k: cython.int
        base_offset: cython.longlong = row[2] if row[5] == 2 else verdict.first_offset
        base_timestamp: cython.longlong = verdict.first_timestamp if horizon < 0 else horizon
        at: cython.Py_ssize_t
        if self.room - self.used < _HEADER_SIZE or self.made >= self.made_rows.shape[0]:
            return NO_ROOM
        if base_timestamp < -1:
            return BAD_TIMESTAMP
        at = self._put_records(p, row, verdict.kept, base_offset, base_timestamp)
        if at < 0:
            return -at
        if at - self.used > _SIZE_MAX:
            return NO_ROOM
        for k in range(16):
            self.made_rows[self.made, k] = row[k]
        self.made_rows[self.made, 0] = self.used
        self.made_rows[self.made, 1] = at - self.used
        self.made_rows[self.made, 2] = base_offset
        self.made_rows[self.made, 3] = row[3] if row[5] == 2 else verdict.last_offset
        self.made_rows[self.made, 5] = 2
        self.made_rows[self.made, 6] = (row[6] & 0x3F if row[5] == 2 else row[6] & 0x0F) | (
            0x40 if horizon >= 0 else 0
        )
        self.made_rows[self.made, 7] = base_timestamp
        self.made_rows[self.made, 8] = row[8] if (row[6] & 8) != 0 else verdict.max_timestamp
        self.made_rows[self.made, 12] = verdict.kept
        self.made_rows[self.made, 14] = (row[6] & 7) != 0
        if (row[6] & 7) != 0:
            self.unsealed += 1
        elif cython.compiled:
            write_header(self.out, cython.address(self.made_rows[self.made, 0]))
        else:
            write_header(self.out, self.made_rows[self.made])
        self.used = at
        self.made += 1
        self.rewritten += 1
        return 0

    # Batches

    def _batch(self, p, start, end, q, pos, limit, row, flags):
        """The batch p[start:end], whose records are q[pos:limit]; 0 or the fault, and then nothing is done.

        To be called for batches that are not to be deleted unseen.
        """
        verdict: Verdict
        fault: cython.int = 0
        horizon: cython.longlong = row[7] if row[5] == 2 and (row[6] & 0x40) != 0 else -1
        is_new: cython.bint
        if flags & DISCARD or row[12] == 0:
            verdict = _nothing()
        else:
            verdict = self._decide(q, pos, limit, row, flags)
            if verdict.fault != 0:
                return verdict.fault
        if verdict.kept > 0:
            is_new = (verdict.with_tombstones or (flags & MARKER) != 0) and (
                row[5] != 2 or (row[6] & 0x40) == 0
            )
            if verdict.kept == row[12] and row[5] == 2 and not is_new:
                fault = self._copy(p, start, end, row)
            else:
                fault = self._rewrite(q, row, verdict, self.horizon if is_new else horizon)
        elif flags & RETAIN_EMPTY:
            fault = self._empty(row)
        else:
            self.dropped += 1
        if fault == 0:
            self._count(row, flags, verdict)
        return fault

    def _count(self, row, flags, verdict):
        """A batch is done with."""
        self.read += row[12]
        self.kept += verdict.kept
        self.keyless += verdict.keyless
        self.tombstones += verdict.tombstones
        if row[5] == 2 and (row[6] & 0x20) != 0:
            self.markers += row[12] - verdict.kept
        self.batches += 1

    def _run(self, p, size, rows, flags, origin, scratch):
        none: Verdict = _nothing()
        start: cython.longlong
        end: cython.longlong
        n: cython.longlong
        fault: cython.int = 0
        mark: cython.int
        row: _Row
        while self.batches < rows.shape[0]:
            row = row_of(rows, self.batches)
            mark = flags[self.batches]
            start = row[0] - origin
            end = start + row[1]
            if self.batches >= self.ahead:
                self._look_ahead(p, size, rows, flags, origin)
            if self.batches >= self.ahead:  # else it was checked
                fault = check_batch(p, size, start, row)
                if fault != 0:
                    return fault
            if mark & DELETE:
                self.dropped += 1
                self._count(row, mark, none)
                continue
            if row[5] != 2:
                return UNUSUAL
            if (row[6] & 7) == 0 or row[12] == 0 or mark & DISCARD:
                fault = self._batch(p, start, end, p, start + 61, end, row, mark)
            else:
                n = scratch.decompress(p, start + 61, end, row[6] & 7)
                if n < 0:
                    return -n
                fault = self._batch(p, start, end, scratch.data, 0, n, row, mark)
            if fault != 0:
                return fault
        return 0

    def run(
        self,
        buf: cython.const[cython.uchar][::1],
        rows: cython.const[cython.longlong][:, ::1],
        flags: cython.const[cython.uchar][::1],
        origin: cython.longlong,
        scratch: Scratch,
    ) -> cython.int:
        """Take the batches of the table `rows` from `batches` on, each by its flags.

        0 or the fault; NO_ROOM: see above. UNUSUAL and SCRATCH_FULL: `take` its payload.
        """
        fault: cython.int
        if rows.shape[1] != 16 or flags.shape[0] != rows.shape[0]:
            raise ValueError("a table of batches has 16 columns, and flags a row")
        if len(buf) == 0:
            return 0
        self.ahead = 0  # what was read ahead lies in another buffer
        if cython.compiled:
            with cython.nogil:
                fault = self._run(cython.address(buf[0]), len(buf), rows, flags, origin, scratch)
        else:
            fault = self._run(memoryview(buf), len(buf), rows, flags, origin, scratch)
        return fault

    def take(
        self,
        batch: cython.const[cython.uchar][::1],
        payload: cython.const[cython.uchar][::1],
        row: cython.const[cython.longlong][::1],
        flags: cython.int,
    ) -> cython.int:
        """Take one batch, whose records are `payload`, decompressed; 0 or the fault."""
        fault: cython.int
        if row.shape[0] != 16 or len(batch) == 0:
            raise ValueError("a row of a table of batches has 16 columns, and a batch bytes")
        if len(payload) == 0 and row[12] != 0:
            return COUNT_MISMATCH
        self.ahead = 0
        if cython.compiled:
            if len(payload) == 0:
                payload = batch
            with cython.nogil:
                fault = self._batch(
                    cython.address(batch[0]),
                    0,
                    len(batch),
                    cython.address(payload[0]),
                    0,
                    len(payload),
                    cython.address(row[0]),
                    flags,
                )
        else:
            fault = self._batch(
                memoryview(batch), 0, len(batch), memoryview(payload), 0, len(payload), row.tolist(), flags
            )
        return fault
