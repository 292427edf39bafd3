# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One ready batch that a client appends by itself: checked, stamped, written and published in one call.

Most appends are one small batch, and what is around a call costs more than what it does. `Appender` takes a
whole v2 batch of base offset 0 that the log stores as it is:

- uncompressed, or compressed by a codec that the topic keeps and a kernel reads; not of a transaction, no
  control batch, with its records' own times;
- sound, within the topic's limits, its offsets counting on from 0;
- of no producer, or the next in sequence of one whose epoch the log knows, while no transaction is open;
- of the log's latest leader epoch, and within the active segment's bounds, so that nothing rolls.

Everything else is left, untouched, to the long way (`log.append.appending`), which also says why a batch is
refused. What is taken has the same effects in the same order.
"""

import cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.tidelog.kernels.appends import _stamp_one
    from cython.cimports.tidelog.kernels.codecs import LARGEST
    from cython.cimports.tidelog.kernels.contents import Said, _walk
    from cython.cimports.tidelog.kernels.published import Published, named
    from cython.cimports.tidelog.kernels.scan import _read_header, i32
    from cython.cimports.tidelog.kernels.scratch import Scratch
else:
    import time
    from types import SimpleNamespace as Said

    from tidelog.kernels.appends import _stamp_one
    from tidelog.kernels.codecs import LARGEST
    from tidelog.kernels.contents import _walk
    from tidelog.kernels.published import Published, named
    from tidelog.kernels.scan import _read_header, i32
    from tidelog.kernels.scratch import Scratch

_HEADER = cython.declare(cython.Py_ssize_t, 61)
_INT_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)
_KEPT = cython.declare(cython.Py_ssize_t, 5)
_SCRATCH_BYTES = 1 << 20
_SMALL = cython.declare(cython.Py_ssize_t, 4096)  # looked at in less time than it takes to let others run
_NO_TIMESTAMP = -1


@cython.cfunc
def _clock_ms() -> cython.longlong:
    """The time, in milliseconds since 1970."""
    if cython.compiled:
        now: timespec
        timespec_get(cython.address(now), TIME_UTC)
        return cython.cast(cython.longlong, now.tv_sec) * 1000 + now.tv_nsec // 1_000_000
    else:
        return time.time_ns() // 1_000_000


@cython.cclass
class Progress:
    """Where the writer of a segment stands: what its next append goes on from."""

    last_offset = cython.declare(cython.longlong, visibility="public")
    since = cython.declare(cython.longlong, visibility="public")
    max_timestamp = cython.declare(cython.longlong, visibility="public")
    max_offset = cython.declare(cython.longlong, visibility="public")

    def __init__(self):
        self.last_offset = -1
        self.since = 0
        self.max_timestamp = -1
        self.max_offset = -1


@cython.cclass
class SingleBatch:
    """Checks one batch after the other against a topic's limits; `take` is for one thread at a time.

    A batch may have `max_bytes`; its timestamps lie from `before_ms` before now to `after_ms` after it; each
    record has a key if `keyed`; it is compressed by `codec`, -1: by any, or not at all. `new_scratch` makes
    room to decompress to; `scratches` keeps what is not in use.
    """

    _max_bytes: cython.longlong
    _before_ms: cython.longlong
    _after_ms: cython.longlong
    _keyed: cython.bint
    _codec: cython.longlong
    _new_scratch: object
    _scratches: list
    size = cython.declare(cython.longlong, visibility="readonly")
    last_offset = cython.declare(cython.longlong, visibility="readonly")
    max_timestamp = cython.declare(cython.longlong, visibility="readonly")
    producer_id = cython.declare(cython.longlong, visibility="readonly")
    producer_epoch = cython.declare(cython.longlong, visibility="readonly")
    base_sequence = cython.declare(cython.longlong, visibility="readonly")

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


@cython.cclass
class Appender:
    """Appends single batches to the log of `state`.

    `types` are the types of what is kept and answered: (producer's state, producer's batch, result). `arm`
    returns the facts that hold until the active segment, the leader epochs or the segment's first timestamp
    change: (file, progress, leader epoch, base offset, bytes between index entries, largest size, largest
    timestamp, largest offset); None where nothing can be appended so. `flush` brings the log to the disk once
    `flush_messages` have come since the last time. `own_clock`: the log goes by the machine's clock, which
    needs no call.

    A file that lends its descriptor (`storage.local.LocalFile.lend`) is written to without Python. What that
    does not write whole is written again by the file itself, which then says what is wrong.
    """

    _state: Published
    _batch: SingleBatch
    _producer_state: type
    _producer_batch: type
    _result: type
    _arm: object
    _flush: object
    _flush_messages: cython.longlong
    _own_clock: cython.bint
    _now_ms: object
    _acquire: object
    _release: object
    _directory: object
    _epochs: object
    _producers: object
    # What holds of the active segment
    _segment: object
    _entries: object
    _first_timestamp: object
    _armed: cython.bint
    _file: object
    _bytes: object
    _progress: Progress
    _write: object
    _publish: object
    _lent: object
    _descriptor: cython.int
    _pwrite: cython.size_t
    _base: object
    _reserved: cython.longlong
    _epoch: cython.longlong
    _base_offset: cython.longlong
    _interval: cython.longlong
    _max_size: cython.longlong
    _max_timestamp: cython.longlong
    _max_offset: cython.longlong

    def __init__(
        self,
        state,
        batch: SingleBatch,
        types: tuple,
        arm,
        flush,
        flush_messages: cython.longlong,
        own_clock: cython.bint,
    ):
        self._state = state
        self._batch = batch
        self._producer_state, self._producer_batch, self._result = types
        self._arm = arm
        self._flush = flush
        self._flush_messages = flush_messages
        self._own_clock = own_clock
        self._now_ms = state.now_ms
        self._acquire = state.lock.acquire
        self._release = state.lock.release
        self._directory = state.directory
        self._epochs = state.epochs
        self._producers = state.producers
        self._segment = None
        self._entries = None
        self._first_timestamp = None
        self._armed = False
        self._file = None
        self._bytes = None
        self._progress = Progress()
        self._write = None
        self._publish = None
        self._lent = None
        self._descriptor = -1
        self._pwrite = 0
        self._base = 0
        self._reserved = 0
        self._epoch = -1
        self._base_offset = 0
        self._interval = 0
        self._max_size = 0
        self._max_timestamp = 0
        self._max_offset = 0

    def append(self, data: bytes, leader_epoch: cython.longlong, replicated: cython.bint = False):
        """Append a batch; None, and nothing was done, where it must go the long way.

        `replicated`: there is no other replica, so that the high watermark follows the log end.
        """
        now_ms: cython.longlong = _clock_ms() if self._own_clock else self._now_ms()
        self._acquire()
        try:
            return self._append(data, leader_epoch, now_ms, replicated)
        finally:
            self._release()

    @cython.cfunc
    def _append(
        self,
        data: bytes,
        leader_epoch: cython.longlong,
        now_ms: cython.longlong,
        replicated: cython.bint,
    ):
        """The same with the lock held."""
        state: Published = self._state
        batch: SingleBatch = self._batch
        producers = self._producers
        state.load(replicated)
        unstable = state._unstable
        if not self._is_open(state, leader_epoch) or (replicated and unstable is not None):
            return None
        first: cython.longlong = state._end_offset
        if first < self._base_offset:
            return None  # the log was rolled past its end
        copy = batch.take(data, first, leader_epoch, now_ms)
        if copy is None or batch.max_timestamp > self._max_timestamp or batch.last_offset > self._max_offset:
            return None
        if replicated or batch.producer_id >= 0:
            transactions = producers._transactions
            if transactions._ongoing or transactions._unreplicated:
                return None
        after = None
        if batch.producer_id >= 0:
            unstable = None
            after = self._next_state(producers._producers.get(batch.producer_id), first)
            if after is None:
                return None
        position: cython.longlong = self._write_one(copy)
        if position < 0:
            return None
        end_offset: cython.longlong = batch.last_offset + 1
        if after is not None:
            producers._producers[batch.producer_id] = after
        producers._map_end_offset = end_offset
        state.advance(self._base, end_offset, position + batch.size, replicated, unstable)
        if end_offset - cython.cast(cython.longlong, state.recovery_point) >= self._flush_messages:
            self._flush(state)
        return named(self._result, 5, first, batch.last_offset, _NO_TIMESTAMP, state._log_start, False, None)

    @cython.cfunc
    def _is_open(self, state: Published, leader_epoch: cython.longlong) -> cython.bint:
        """Whether the log takes appends, in this leader epoch, without a new segment."""
        if state._closed or state._offline is not None or self._directory.failure is not None:
            return False
        segment = state.active
        entries = self._epochs.cache._entries
        if (
            segment is not self._segment
            or entries is not self._entries
            or segment._first_timestamp is not self._first_timestamp
        ):
            self._rearm(state, segment, entries)
        return self._armed and leader_epoch == self._epoch and not segment.index_full

    @cython.cfunc
    def _rearm(self, state, segment, entries):
        """Take in another active segment, another leader epoch, or another beginning of the segment."""
        facts = self._arm(state)
        self._segment = segment
        self._entries = entries
        self._first_timestamp = segment._first_timestamp
        self._armed = facts is not None
        if facts is None:
            self._file = self._bytes = self._write = self._publish = self._lent = None
            self._pwrite = 0
            return
        (
            self._file,
            self._progress,
            self._epoch,
            self._base_offset,
            self._interval,
            self._max_size,
            self._max_timestamp,
            self._max_offset,
        ) = facts
        self._reserved = self._file._reserved
        self._base = self._base_offset
        writer = self._file._writer
        self._write = writer.pwrite
        lend = getattr(writer, "lend", None)
        self._lent, self._descriptor, self._pwrite = (None, -1, 0) if lend is None else lend()
        self._bytes = self._file.bytes
        self._publish = self._bytes.publish

    @cython.cfunc
    def _next_state(self, found, first: cython.longlong):
        """A producer's state after the batch; None where that takes the rules of `log.producers`."""
        batch: SingleBatch = self._batch
        state: tuple
        kept: tuple
        delta: cython.longlong = batch.last_offset - first
        sequence: cython.longlong = batch.base_sequence
        last_sequence: cython.longlong = sequence + delta
        if found is None:
            return None
        state = cython.cast(tuple, found)
        kept = cython.cast(tuple, state[5])
        if state[4] is not None or cython.cast(cython.longlong, state[1]) != batch.producer_epoch or not kept:
            return None
        before: cython.longlong = cython.cast(tuple, kept[len(kept) - 1])[0]
        if sequence != (0 if before == _INT_MAX else before + 1):
            return None
        if last_sequence > _INT_MAX:
            last_sequence -= _INT_MAX + 1
        for each in kept:
            if cython.cast(cython.longlong, cython.cast(tuple, each)[0]) == last_sequence:
                return None  # perhaps sent again
        newest = named(
            self._producer_batch, 4, last_sequence, batch.last_offset, delta, batch.max_timestamp, None, None
        )
        if len(kept) >= _KEPT:
            kept = kept[len(kept) - _KEPT + 1 :]
        kept = (*kept, newest)
        return named(
            self._producer_state,
            6,
            batch.producer_id,
            batch.producer_epoch,
            state[2],
            batch.max_timestamp,
            None,
            kept,
        )

    @cython.cfunc
    def _write_one(self, copy) -> cython.longlong:
        """Write the batch to the segment and publish it there; its position, -1 where it does not fit."""
        batch: SingleBatch = self._batch
        progress: Progress = self._progress
        position: cython.longlong = self._bytes.size
        end: cython.longlong = position + batch.size
        if position == 0 or end > self._max_size or batch.last_offset <= progress.last_offset:
            return -1
        if progress.since > self._interval or end > self._reserved:
            self._segment.append_one(copy, batch.size, batch.last_offset, batch.max_timestamp)
            self._reserved = self._file._reserved
            return position
        try:
            if not self._write_directly(copy, position):
                self._write(copy, position)
            self._publish(end)
        except BaseException as error:
            self._segment.undo(error)
            raise
        progress.last_offset = batch.last_offset
        progress.since += batch.size
        if batch.max_timestamp > progress.max_timestamp:
            progress.max_timestamp = batch.max_timestamp
            progress.max_offset = batch.last_offset
        return position

    @cython.cfunc
    def _write_directly(self, copy, position: cython.longlong) -> cython.bint:
        """Write the batch without Python; whether it is written."""
        if cython.compiled:
            size: cython.Py_ssize_t = self._batch.size
            written: cython.Py_ssize_t
            if self._pwrite == 0:
                return False
            p: cython.p_char = PyBytes_AS_STRING(copy)
            with cython.nogil:
                written = cython.cast(pwrite_fn, self._pwrite)(self._descriptor, p, size, position)
            return written == size
        else:
            return False
