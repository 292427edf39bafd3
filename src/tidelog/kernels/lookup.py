# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Look-ups in a log file's bytes: the batch that holds an offset, one record, the first record of a time.

`LogBytes` holds the mapped file and how many of its bytes are published. A question takes both in one step,
so that a truncation or a new mapping in another thread never mixes with it, and then walks without the GIL.
(Not so uncompiled: one thread.) Batches are framed as `kernels.scan` does; only the one whose records are
looked at has its checksum taken.

A walk begins at a batch's position, mostly one that an index gave, which is not trusted: the batch there must
be whole, must not begin below the segment's base offset and not end above the offset that the index was asked
for. Answers are tuples that begin with a code:

    0          found
    above 0    what is wrong with a batch (`records.faults`); then its position and base offset
    END        nothing found to the end of the published bytes
    UNMAPPED   more bytes are published than mapped: map the file, ask again
    BAD_START  the position is not what an index entry says: begin at 0
    PACKED     a batch to be decoded elsewhere, compressed or of magic 0 or 1: the published bytes as they
               were when the walk began, and its position in them
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.crc import crc32c_range
    from cython.cimports.tidelog.kernels.faults import BAD_LENGTH, CHECKSUM, TORN, UNKNOWN_MAGIC
    from cython.cimports.tidelog.kernels.prefetching import prefetch
    from cython.cimports.tidelog.kernels.record_lookup import Body, Facts, Record, body_of, fields, find
    from cython.cimports.tidelog.kernels.scan import i16, i32, i64, u32
    from cython.cimports.tidelog.kernels.search import Entries
else:
    from types import SimpleNamespace as _Start

    from tidelog.kernels.crc import crc32c_range
    from tidelog.kernels.faults import BAD_LENGTH, CHECKSUM, TORN, UNKNOWN_MAGIC
    from tidelog.kernels.record_lookup import Body, Facts, Record, body_of, fields, find
    from tidelog.kernels.scan import i16, i32, i64, u32
    from tidelog.kernels.search import Entries

END = -1
UNMAPPED = -2
BAD_START = -3
PACKED = -4

_END = cython.declare(cython.int, -1)
_UNMAPPED = cython.declare(cython.int, -2)
_BAD_START = cython.declare(cython.int, -3)
_PACKED = cython.declare(cython.int, -4)

_Batch = cython.struct(
    code=cython.int,
    magic=cython.int,
    pos=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
    base=cython.longlong,
    last=cython.longlong,
    max_timestamp=cython.longlong,
)


_NO_BOUND = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


@cython.cfunc
@cython.exceptval(check=False)
def _floor(entries: Entries, key: cython.longlong) -> cython.Py_ssize_t:
    """The slot of the largest key <= `key`; -1 below the first."""
    if cython.compiled:
        return entries._search(key, False, False)
    else:
        return entries.floor_slot(key, False)


@cython.cfunc
@cython.exceptval(check=False)
def _is_key(entries: Entries, slot: cython.Py_ssize_t, key: cython.longlong) -> cython.bint:
    """Whether this slot has that key."""
    if cython.compiled:
        return 0 <= slot < entries._count and entries._key(slot) == key
    else:
        return entries.entry(slot) is not None and entries.entry(slot)[0] == key


@cython.cfunc
@cython.exceptval(check=False)
def _value(entries: Entries, slot: cython.Py_ssize_t) -> cython.longlong:
    """The value in a slot; 0, the segment's start, for -1."""
    if slot < 0:
        return 0
    if cython.compiled:
        return entries._value(slot)
    else:
        return entries.entry(slot)[1]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _frame(
    p: cython.pointer[cython.const[cython.uchar]], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> _Batch:
    """The batch at `pos`; the checksum is not taken."""
    size: cython.longlong
    b: _Batch = _Batch(code=0, magic=0, pos=pos, size=0, base=-1, last=-1, max_timestamp=-1)
    if end - pos < 17:
        b.code = TORN
        return b
    b.base = i64(p, pos)
    size = i32(p, pos + 8)
    b.magic = p[pos + 16]
    if size < 14:
        b.code = BAD_LENGTH
    elif size > end - pos - 12:
        b.code = TORN
    elif b.magic > 2:
        b.code = UNKNOWN_MAGIC
    elif size < (49 if b.magic == 2 else 22 if b.magic == 1 else 14):
        b.code = BAD_LENGTH
    elif b.magic == 2:
        b.last = b.base + i32(p, pos + 23)
        b.max_timestamp = i64(p, pos + 35)
    else:
        b.last = b.base
        b.max_timestamp = i64(p, pos + 18) if b.magic == 1 else -1
    b.size = size + 12
    return b


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _begin(
    p: cython.pointer[cython.const[cython.uchar]],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    base_offset: cython.longlong,
    bound: cython.longlong,
) -> _Batch:
    """The batch at `pos`; BAD_START where it is not that of an index entry at or below offset `bound`."""
    b: _Batch = _frame(p, pos, end)
    if pos == 0:
        b.code = 0  # the walk will say what is wrong there
    elif b.code != 0 or b.base < base_offset or b.last > bound:
        b.code = _BAD_START
    return b


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _seek(
    p: cython.pointer[cython.const[cython.uchar]],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    by_time: cython.bint,
    target: cython.longlong,
) -> _Batch:
    """The first batch from `pos` on whose last offset (or largest timestamp) is not below the target."""
    b: _Batch = _Batch(code=_END, magic=0, pos=pos, size=0, base=-1, last=-1, max_timestamp=-1)
    while pos < end:
        b = _frame(p, pos, end)
        if b.code != 0 or (b.max_timestamp if by_time else b.last) >= target:
            return b
        pos += b.size
    b.code = _END
    return b


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _open(p: cython.pointer[cython.const[cython.uchar]], b: _Batch) -> cython.int:
    """0 where the records of a batch can be read here: v2, uncompressed and sound."""
    if b.magic < 2 or (p[b.pos + 22] & 7) != 0:
        return _PACKED
    if crc32c_range(p, b.pos + 21, b.pos + b.size) != u32(p, b.pos + 17):
        return CHECKSUM
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _facts(p: cython.pointer[cython.const[cython.uchar]], pos: cython.Py_ssize_t) -> Facts:
    """What the header of the v2 batch at `pos` says of its records."""
    return Facts(
        base=i64(p, pos),
        epoch=i32(p, pos + 12),
        attributes=i16(p, pos + 21),
        base_timestamp=i64(p, pos + 27),
        max_timestamp=i64(p, pos + 35),
        producer_id=i64(p, pos + 43),
        producer_epoch=i16(p, pos + 51),
        sequence=i32(p, pos + 53),
        count=i32(p, pos + 57),
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _first_at(
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    base_offset: cython.longlong,
    bound: cython.longlong,
    timestamp: cython.longlong,
    offset: cython.longlong,
) -> Record:
    """The first record at or after both. Where there is none, position and offset are those of a batch."""
    b: _Batch
    r: Record = Record(code=0, pos=0, limit=0, offset=0, timestamp=0)
    b = _begin(p, start, end, base_offset, bound)
    while b.code == 0:
        b = _seek(p, start, end, True, timestamp)
        if b.code == 0:
            b.code = _open(p, b)
        if b.code != 0:
            break
        start = b.pos + b.size
        r = find(p, b.pos + 61, start, _facts(p, b.pos), True, offset, timestamp)
        if r.code == 0:
            return r
        if r.code != _END:
            b.code = r.code
    r.code = b.code
    r.pos = b.pos
    r.offset = b.base
    return r


@cython.cfunc
def _miss(
    code: cython.int, pos: cython.Py_ssize_t, base: cython.longlong, view, end: cython.Py_ssize_t
) -> tuple:
    """The answer where nothing was found."""
    if code == _PACKED:
        return code, view[:end], pos
    if code > 0:
        return code, pos, base
    return (code,)


@cython.final
@cython.cclass
class LogBytes:
    """The bytes of the log file of the segment at `base_offset`.

    Questions take `start`, the position where to begin, and `bound`, the offset that an index was asked for
    to get it. A start of 0 is always right, and a bound of 2^63 - 1 bounds nothing.
    """

    def __init__(self, base_offset: cython.longlong, size: cython.Py_ssize_t):
        self._base_offset = base_offset
        self._view = None
        self.reset(size)

    # Where a mapping is let go of, other code runs (`storage.local` watches mappings), and other threads,
    # which may ask here. So it is held until all fields belong to the new one.

    def reset(self, size: cython.Py_ssize_t):
        """Forget the mapping; so many bytes are published."""
        held = self._view
        empty = memoryview(b"")
        self._mapped = 0
        self._size = size
        self._buf = empty
        self._view = empty
        del held

    def remap(self, view):
        """Look at another mapping of the same file from now on."""
        held = self._view
        self._buf = view
        self._view = view
        self._mapped = len(view)
        del held

    def publish(self, size: cython.Py_ssize_t):
        """Show that many bytes from now on."""
        self._size = size

    @property
    def size(self):
        """The published bytes."""
        return self._size

    def view(self):
        """The published bytes as memory; None where they are not all mapped."""
        return None if self._mapped < self._size else self._view[: self._size]

    @cython.cfunc
    @cython.exceptval(check=False)
    def _refusal(self, start: cython.Py_ssize_t) -> cython.int:
        """Why no walk can begin at `start`, or 0."""
        if self._mapped < self._size:
            return _UNMAPPED
        if start != 0 and (start < 0 or start >= self._size):
            return _BAD_START
        return _END if self._size == 0 else 0

    def find_batch(self, start: cython.Py_ssize_t, bound: cython.longlong, offset: cython.longlong) -> tuple:
        """The batch that holds `offset`, or the next: (0, bytes, position, size, base, last offset, magic).

        The bytes are the published ones as they were when the walk began.
        """
        b: _Batch
        end: cython.Py_ssize_t = self._size
        refusal: cython.int = self._refusal(start)
        if refusal != 0:
            return (refusal,)
        view = self._view
        buf: cython.const[cython.uchar][::1] = self._buf
        if cython.compiled:
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(buf[0])
        else:
            p = buf
        with cython.nogil:
            b = _begin(p, start, end, self._base_offset, bound)
            if b.code == 0:
                b = _seek(p, start, end, False, offset)
        if b.code != 0:
            return _miss(b.code, b.pos, b.base, view, end)
        return 0, view[:end], b.pos, b.size, b.base, b.last, b.magic

    def find_record(self, start: cython.Py_ssize_t, bound: cython.longlong, offset: cython.longlong) -> tuple:
        """The record at `offset`: 0 and its fields in the order of `StoredRecord`; END for a hole too."""
        b: _Batch
        r: Record
        body: Body
        facts: Facts
        end: cython.Py_ssize_t = self._size
        refusal: cython.int = self._refusal(start)
        if refusal != 0:
            return (refusal,)
        view = self._view
        buf: cython.const[cython.uchar][::1] = self._buf
        if cython.compiled:
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(buf[0])
        else:
            p = buf
        with cython.nogil:
            b = _begin(p, start, end, self._base_offset, bound)
            if b.code == 0:
                b = _seek(p, start, end, False, offset)
            if b.code == 0:
                b.code = _open(p, b)
            if b.code == 0:
                facts = _facts(p, b.pos)
                r = find(p, b.pos + 61, b.pos + b.size, facts, False, offset, 0)
                b.code = r.code
            if b.code == 0:
                body = body_of(p, r)
                b.code = body.code
        if b.code != 0:
            return _miss(b.code, b.pos, b.base, view, end)
        return fields(p, r, body, facts)

    def _time_start(self, times, offsets, timestamp, offset):
        """Where to begin to look for a time, and the bound that goes with it."""
        s: _Start = _Start(position=0, bound=_NO_BOUND)
        if times is None:
            return s
        slot: cython.Py_ssize_t = _floor(times, timestamp)
        s.bound = self._base_offset + _value(times, slot)
        if s.bound < offset:
            s.bound = offset
        if offsets is not None:
            # Mostly both indexes had an entry for the same batch each time, and it is in the same slot.
            if not _is_key(offsets, slot, s.bound - self._base_offset):
                slot = _floor(offsets, s.bound - self._base_offset)
            s.position = _value(offsets, slot)
            if cython.compiled and slot + 1 < offsets._count and self._mapped > 0:
                # The batch that a time is mostly found in; memory is slow.
                prefetch(cython.address(self._buf[0]) + offsets._value(slot + 1))
        return s

    def time_start(self, times, offsets, timestamp: cython.longlong, offset: cython.longlong) -> tuple:
        """`start` and `bound` for `find_time`, by the entries of both indexes; None where there is none."""
        s: _Start = self._time_start(times, offsets, timestamp, offset)
        return s.position, s.bound

    @cython.ccall
    def find_time(
        self,
        start: cython.Py_ssize_t,
        bound: cython.longlong,
        timestamp: cython.longlong,
        offset: cython.longlong,
    ) -> tuple:
        """The first record at or after both: (0, timestamp, offset)."""
        r: Record
        end: cython.Py_ssize_t = self._size
        refusal: cython.int = self._refusal(start)
        if refusal != 0:
            return (refusal,)
        view = self._view
        buf: cython.const[cython.uchar][::1] = self._buf
        if cython.compiled:
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(buf[0])
        else:
            p = buf
        with cython.nogil:
            r = _first_at(p, start, end, self._base_offset, bound, timestamp, offset)
        if r.code != 0:
            return _miss(r.code, r.pos, r.offset, view, end)
        return 0, r.timestamp, r.offset

    @cython.cfunc
    def _try_time(
        self, times: Entries, offsets: Entries, timestamp: cython.longlong, offset: cython.longlong
    ) -> Record:
        """`time_start` and `find_time` in one step; where the code is not 0, it is the same as theirs."""
        r: Record = Record(code=_UNMAPPED, pos=0, limit=0, offset=0, timestamp=0)
        s: _Start = self._time_start(times, offsets, timestamp, offset)
        end: cython.Py_ssize_t = self._size
        r.code = self._refusal(s.position)
        if r.code != 0:
            return r
        buf: cython.const[cython.uchar][::1] = self._buf
        if cython.compiled:
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(buf[0])
        else:
            p = buf
        with cython.nogil:
            r = _first_at(p, s.position, end, self._base_offset, s.bound, timestamp, offset)
        return r

    def walk(self, start: cython.Py_ssize_t, bound: cython.longlong) -> tuple:
        """Sum up the batches from `start` on: (0, last offset, largest timestamp, its batch's last offset).

        Of no batches, the last offset is one below the base offset and the others are -1.
        """
        b: _Batch
        end: cython.Py_ssize_t = self._size
        last: cython.longlong = self._base_offset - 1
        max_timestamp: cython.longlong = -1
        max_offset: cython.longlong = -1
        refusal: cython.int = self._refusal(start)
        if refusal == _END:
            return 0, last, -1, -1
        if refusal != 0:
            return (refusal,)
        view = self._view
        buf: cython.const[cython.uchar][::1] = self._buf
        if cython.compiled:
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(buf[0])
        else:
            p = buf
        with cython.nogil:
            b = _begin(p, start, end, self._base_offset, bound)
            while b.code == 0 and start < end:
                b = _frame(p, start, end)
                if b.code == 0:
                    last = b.last
                    if b.max_timestamp > max_timestamp:
                        max_timestamp = b.max_timestamp
                        max_offset = b.last
                    start += b.size
        if b.code != 0:
            return _miss(b.code, b.pos, b.base, view, end)
        return 0, last, max_timestamp, max_offset


@cython.final
@cython.cclass
class TimePath:
    """What a look-up by time needs of a segment whose files are open; `progress` where it takes appends.

    It may be kept as long as the segment: where the segment was closed, nothing is mapped any more.
    """

    def __init__(self, log: LogBytes, times: Entries, offsets: Entries, progress):
        self._log = log
        self._times = times
        self._offsets = offsets
        self._progress = progress

    @cython.cfunc
    @cython.exceptval(check=False)
    def reaches(self, timestamp: cython.longlong) -> cython.bint:
        """Whether a segment that takes appends is known to have a timestamp as late."""
        return self._progress is not None and self._progress.max_timestamp >= timestamp

    @cython.cfunc
    def find(self, timestamp: cython.longlong, offset: cython.longlong) -> Record:
        """The first record at or after both; a code other than 0 says to ask the segment."""
        return self._log._try_time(self._times, self._offsets, timestamp, offset)
