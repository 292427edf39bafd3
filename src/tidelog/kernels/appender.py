# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Appends of one ready batch: checked, stamped, written and published in one call.

Most appends are one small batch, and what is around a call costs more than what it does. `Appender` appends a
batch that `SingleBatch` takes and that needs nothing out of the ordinary:

- of no producer, or the next in sequence of one whose epoch the log knows, while no transaction is open;
- of the log's latest leader epoch, and within the active segment's bounds, so that nothing rolls.

Everything else is left, untouched, to the long way (`log.append.appending`). What is taken has the same
effects in the same order.
"""

from functools import wraps

import cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING
    from cython.cimports.cpython.ref import Py_INCREF
    from cython.cimports.cpython.tuple import PyTuple_GET_ITEM, PyTuple_New, PyTuple_SET_ITEM
    from cython.cimports.tidelog.kernels.locks import Lock
    from cython.cimports.tidelog.kernels.lookup import LogBytes
    from cython.cimports.tidelog.kernels.progress import Progress
    from cython.cimports.tidelog.kernels.published import Published, named
    from cython.cimports.tidelog.kernels.search import Entries
    from cython.cimports.tidelog.kernels.shared import (
        EpochFields,
        PartitionFields,
        ProducerFields,
        TransactionFields,
    )
    from cython.cimports.tidelog.kernels.single_batch import SingleBatch
else:
    import time

    from tidelog.kernels.locks import Lock
    from tidelog.kernels.lookup import LogBytes
    from tidelog.kernels.progress import Progress
    from tidelog.kernels.published import Published, named
    from tidelog.kernels.search import Entries
    from tidelog.kernels.shared import EpochFields, PartitionFields, ProducerFields, TransactionFields
    from tidelog.kernels.single_batch import SingleBatch

_INT_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)
_FOREVER = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_KEPT = cython.declare(cython.Py_ssize_t, 5)
_NO_TIMESTAMP = -1


@cython.cfunc
def _clock_ms(exact: cython.bint) -> cython.longlong:
    """The time, in milliseconds since 1970; where it need not be exact, a little earlier."""
    if cython.compiled:
        return clock_ms(exact)
    else:
        return time.time_ns() // 1_000_000


@cython.cfunc
def _newest(kept: tuple, newest) -> tuple:
    """The last of `kept` that are to be kept beside `newest`, and that one."""
    if cython.compiled:
        i: cython.Py_ssize_t
        count: cython.Py_ssize_t = len(kept)
        dropped: cython.Py_ssize_t = count - _KEPT + 1
        if dropped < 0:
            dropped = 0
        made: tuple = PyTuple_New(count - dropped + 1)
        for i in range(dropped, count):
            each = cython.cast(object, PyTuple_GET_ITEM(kept, i))
            Py_INCREF(each)
            PyTuple_SET_ITEM(made, i - dropped, each)
        Py_INCREF(newest)
        PyTuple_SET_ITEM(made, count - dropped, newest)
        return made
    else:
        return (*kept[max(len(kept) - _KEPT + 1, 0) :], newest)


# Python's own way into a method with options takes as long as an append without its write. So these are here.


def short_way_first(long_way):
    """A log's `append_as_leader` that takes the short way where it can: bytes of a client, and no options."""

    @wraps(long_way)
    def append_as_leader(self, records, *, leader_epoch=0, **options):
        if type(records) is bytes and not options:
            appender: Appender = self._short_way
            if appender is not None:
                appended = appender.append(records, leader_epoch, False)
                if appended is not None:
                    return appended
        return long_way(self, records, leader_epoch=leader_epoch, **options)

    return append_as_leader


def short_way_in_first(long_way):
    """The same for a partition's `append`, whose log is its only replica."""

    @wraps(long_way)
    def append(self, records, **options):
        # Asked for by its name, which a partition of another process refuses.
        if type(records) is bytes and not options and not self.others:
            fields: PartitionFields = self
            appended = None
            fields.gate.take()
            try:
                log = fields._log
                if log is not None and fields._offline is None:
                    appender: Appender = log._short_way
                    if appender is not None:
                        appended = appender.append(records, fields.leader_epoch, True)
            finally:
                fields.gate.give()
            if appended is not None:
                if len(fields._listeners) > 0:
                    self._tell_listeners()
                return appended
        return long_way(self, records, **options)

    return append


@cython.cclass
class Appender:
    """Appends single batches to the log of `state`.

    `types` are the types of what is kept and answered: (producer's state, producer's batch, result). `arm`
    returns the facts that hold until the active segment, the leader epochs or the segment's first batch
    change: (file, leader epoch, base offset, largest size, largest timestamp, largest offset); None where
    nothing can be appended so. `flush` brings the log to the disk once
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
    _exact_clock: cython.bint
    _now_ms: object
    _lock: Lock
    _directory: object
    _epochs: EpochFields
    _producers: ProducerFields
    _transactions: TransactionFields
    # What holds of the active segment
    _segment: object
    _entries: tuple
    _offset_index: Entries
    _time_index: Entries
    _beginnings: cython.longlong
    _armed: cython.bint
    _file: object
    _bytes: LogBytes
    _progress: Progress
    _write: object
    _lent: object
    _descriptor: cython.int
    _pwrite: cython.size_t
    _base: object
    _reserved: cython.longlong
    _epoch: cython.longlong
    _base_offset: cython.longlong
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
        # An earlier time refuses more of what lies ahead, which the long way then decides by the exact one.
        self._exact_clock = batch._before_ms < _FOREVER
        self._now_ms = state.now_ms
        self._lock = state.lock
        self._directory = state.directory
        self._epochs = state.epochs.cache
        self._producers = state.producers
        self._transactions = state.producers._transactions
        self._segment = None
        self._entries = None
        self._offset_index = None
        self._time_index = None
        self._beginnings = 0
        self._armed = False
        self._file = None
        self._bytes = None
        self._progress = Progress(0)
        self._write = None
        self._lent = None
        self._descriptor = -1
        self._pwrite = 0
        self._base = 0
        self._reserved = 0
        self._epoch = -1
        self._base_offset = 0
        self._max_size = 0
        self._max_timestamp = 0
        self._max_offset = 0

    @cython.ccall
    def append(self, data: bytes, leader_epoch: cython.longlong, replicated: cython.bint = False):
        """Append a batch; None, and nothing was done, where it must go the long way.

        `replicated`: there is no other replica, so that the high watermark follows the log end.
        """
        now_ms: cython.longlong = _clock_ms(self._exact_clock) if self._own_clock else self._now_ms()
        self._lock.take()
        try:
            return self._append(data, leader_epoch, now_ms, replicated)
        finally:
            self._lock.give()

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
            transactions: TransactionFields = self._transactions
            if len(transactions._ongoing) > 0 or len(transactions._unreplicated) > 0:
                return None
        after = None
        if batch.producer_id >= 0:
            unstable = None
            after = self._next_state(self._producers._producers.get(batch.producer_id), first)
            if after is None:
                return None
        position: cython.longlong = self._write_one(copy)
        if position < 0:
            return None
        end_offset: cython.longlong = batch.last_offset + 1
        if after is not None:
            self._producers._producers[cython.cast(tuple, after)[0]] = after
        self._producers._map_end_offset = end_offset
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
        entries: tuple = self._epochs._entries
        if (
            segment is not self._segment
            or entries is not self._entries
            or self._progress.beginnings != self._beginnings
        ):
            self._rearm(state, segment, entries)
        return self._armed and leader_epoch == self._epoch and not self._progress.index_full

    @cython.cfunc
    def _rearm(self, state, segment, entries):
        """Take in another active segment, another leader epoch, or another beginning of the segment."""
        facts = self._arm(state)
        self._segment = segment
        self._entries = entries
        self._progress = segment.progress
        self._beginnings = self._progress.beginnings
        self._armed = facts is not None
        if facts is None:
            self._file = self._bytes = self._write = self._lent = None
            self._offset_index = self._time_index = None
            self._pwrite = 0
            return
        (
            self._file,
            self._epoch,
            self._base_offset,
            self._max_size,
            self._max_timestamp,
            self._max_offset,
        ) = facts
        self._offset_index = segment.offset_index._entries
        self._time_index = segment.time_index._entries
        self._reserved = self._file._reserved
        self._base = self._base_offset
        writer = self._file._writer
        self._write = writer.pwrite
        lend = getattr(writer, "lend", None)
        self._lent, self._descriptor, self._pwrite = (None, -1, 0) if lend is None else lend()
        self._bytes = self._file.bytes

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
        return named(
            self._producer_state,
            6,
            state[0],
            state[1],
            state[2],
            cython.cast(tuple, newest)[3],
            None,
            _newest(kept, newest),
        )

    @cython.cfunc
    def _write_one(self, copy) -> cython.longlong:
        """Write the batch to the segment and publish it there; its position, -1 where it does not fit."""
        batch: SingleBatch = self._batch
        progress: Progress = self._progress
        position: cython.longlong
        if cython.compiled:
            position = self._bytes._size
        else:
            position = self._bytes.size
        end: cython.longlong = position + batch.size
        if position == 0 or end > self._max_size or batch.last_offset <= progress.last_offset:
            return -1
        due: cython.int = progress.due(batch.max_timestamp)
        if end > self._reserved or (due != 0 and not self._has_room(due, position)):
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
        progress.note(batch.size, batch.last_offset, batch.max_timestamp, due)
        if due != 0:
            self._offset_index.append(batch.last_offset - self._base_offset, position)
        if due == 2:
            self._time_index.append(progress.max_timestamp, progress.max_offset - self._base_offset)
        return position

    @cython.cfunc
    def _has_room(self, due: cython.int, position: cython.longlong) -> cython.bint:
        """Whether the indexes take the entries that are due, and have a slot left for the next ones."""
        batch: SingleBatch = self._batch
        progress: Progress = self._progress
        timestamp: cython.longlong = progress.max_timestamp
        offset: cython.longlong = progress.max_offset
        if batch.max_timestamp > timestamp:
            timestamp = batch.max_timestamp
            offset = batch.last_offset
        if progress.slots <= 1 or not self._offset_index.fits(
            batch.last_offset - self._base_offset, position, 1
        ):
            return False
        return due == 1 or self._time_index.fits(timestamp, offset - self._base_offset, 2)

    @cython.cfunc
    @cython.inline
    def _publish(self, end: cython.longlong):
        """Let readers see the file's bytes up to here."""
        if cython.compiled:
            self._bytes._size = end
        else:
            self._bytes.publish(end)

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
