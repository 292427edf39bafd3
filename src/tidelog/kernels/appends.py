# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The batches of an append: one pass that checks their headers, one that stamps offsets into their bytes.

Both walk the table of `kernels.scan` (16 columns of int64 a row). What is checked for whom, and the error
each fault becomes, is said in `log.append.validation`.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.codecs import LARGEST, ZSTD
    from cython.cimports.tidelog.kernels.crc import crc32c_range
else:
    from types import SimpleNamespace as Facts

    from tidelog.kernels.codecs import LARGEST, ZSTD
    from tidelog.kernels.crc import crc32c_range

_RAFT_EPOCH = cython.declare(cython.int, 1)
_BASE_OFFSET = cython.declare(cython.int, 2)
_TOO_LARGE = cython.declare(cython.int, 3)
_CODEC = cython.declare(cython.int, 4)
_NOT_MONOTONIC = cython.declare(cython.int, 5)
_MIXED_MAGIC = cython.declare(cython.int, 6)
_OFFSET_RANGE = cython.declare(cython.int, 7)
_COUNT = cython.declare(cython.int, 8)
_COUNT_RANGE = cython.declare(cython.int, 9)
_CONTROL = cython.declare(cython.int, 10)
_SEQUENCE = cython.declare(cython.int, 11)
_TIMESTAMP_TYPE = cython.declare(cython.int, 12)

_CLIENT = cython.declare(cython.int, 0)
_COORDINATOR = cython.declare(cython.int, 1)
_RAFT_LEADER = cython.declare(cython.int, 2)
_REPLICATION = cython.declare(cython.int, 3)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _analyze_one(
    rows: cython.longlong[:, ::1],
    i: cython.Py_ssize_t,
    origin: cython.int,
    leader_epoch: cython.longlong,
    max_message_bytes: cython.longlong,
    last_offset: cython.longlong,
) -> cython.int:
    """The fault of row `i`, 0 for none; the rules in the order in which they are checked."""
    base: cython.longlong = rows[i, 2]
    last: cython.longlong = rows[i, 3]
    magic: cython.longlong = rows[i, 5]
    attributes: cython.longlong = rows[i, 6]
    count: cython.longlong = rows[i, 12]
    if origin == _RAFT_LEADER and rows[i, 4] != leader_epoch:
        return _RAFT_EPOCH
    if origin == _CLIENT and magic == 2 and base != 0:
        return _BASE_OFFSET
    if origin != _REPLICATION and rows[i, 1] > max_message_bytes:
        return _TOO_LARGE
    if (attributes & 7) > LARGEST or (magic < 2 and (attributes & 7) == ZSTD):
        return _CODEC
    if origin == _RAFT_LEADER or origin == _REPLICATION:
        return _NOT_MONOTONIC if last <= last_offset else 0
    if magic != rows[0, 5]:
        return _MIXED_MAGIC
    if magic == 2:
        if last < base:
            return _OFFSET_RANGE
        if count <= 0:
            return _COUNT
        if last - base + 1 != count:
            return _COUNT_RANGE
    if origin == _CLIENT and magic == 2:
        if (attributes & 0x20) != 0:
            return _CONTROL
        if rows[i, 9] >= 0 and rows[i, 11] < 0:
            return _SEQUENCE
    return 0


def analyze_rows(rows, n, origin, leader_epoch, max_message_bytes, target_codec, log_append_time):
    """`analyze` for other kernels: the first `n` rows."""
    i: cython.Py_ssize_t
    bits: cython.longlong
    facts: Facts = Facts(
        fault=0,
        taken=0,
        last_offset=-1,
        last_epoch=-1,
        max_timestamp=-1,
        codec=0,
        size=0,
        with_producer=False,
        rewrites=0,
    )
    for i in range(n):
        if origin == _REPLICATION and rows[i, 4] > leader_epoch:
            break
        facts.fault = _analyze_one(rows, i, origin, leader_epoch, max_message_bytes, facts.last_offset)
        bits = rows[i, 6]
        if facts.fault == 0 and origin <= _COORDINATOR and rows[i, 5] >= 1 and (bits & 8) != 0:
            if log_append_time or rows[i, 8] == -1:
                facts.fault = _TIMESTAMP_TYPE
        if facts.fault != 0:
            break
        facts.taken += 1
        facts.last_offset = rows[i, 3]
        facts.last_epoch = rows[i, 4]
        facts.size += rows[i, 1]
        if rows[i, 8] > facts.max_timestamp:
            facts.max_timestamp = rows[i, 8]
        if rows[i, 9] >= 0:
            facts.with_producer = True
        if (bits & 7) != 0:
            facts.codec = bits & 7
        if rows[i, 5] != 2:
            facts.rewrites += 1
        elif target_codec >= 0 and (bits & 7) != target_codec and not ((bits & 0x27) == 0x20):
            facts.rewrites += 1
    return facts


def analyze(
    rows: cython.longlong[:, ::1],
    origin: cython.int,
    leader_epoch: cython.longlong,
    max_message_bytes: cython.longlong,
    target_codec: cython.int,
    log_append_time: cython.bint,
) -> tuple:
    """Check the headers of an append and sum them up.

    `origin` is 0 client, 1 coordinator, 2 raft leader, 3 replication. `target_codec` is the codec batches
    are stored in, -1 for the one they came in. Answers (fault, rows taken, last offset, last leader epoch,
    max timestamp, codec of the last compressed row, bytes, whether a row has a producer id, rows that must
    be written anew because their magic or codec is not the target's); a fault is of the row after those
    taken.
    """
    facts: Facts
    if rows.shape[1] != 16:
        raise ValueError("a table of batches has 16 columns")
    with cython.nogil:
        facts = analyze_rows(
            rows, rows.shape[0], origin, leader_epoch, max_message_bytes, target_codec, log_append_time
        )
    return (
        facts.fault,
        facts.taken,
        int(facts.last_offset),
        int(facts.last_epoch),
        int(facts.max_timestamp),
        int(facts.codec),
        int(facts.size),
        facts.with_producer,
        facts.rewrites,
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(
    p: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.longlong, size: cython.int
) -> cython.void:
    """Write the low `size` bytes of `value`, big-endian."""
    k: cython.int
    for k in range(size):
        p[at + k] = (value >> (8 * (size - 1 - k))) & 0xFF


def _stamp_one(p, at, row, next_offset, leader_epoch, log_append_time, max_timestamp):
    """Stamp the batch at `at` and its row."""
    attributes: cython.longlong = row[6] | 8 if log_append_time else row[6] & ~8
    row[3] = next_offset + (row[3] - row[2])
    row[2] = next_offset
    row[4] = leader_epoch
    _put(p, at, next_offset, 8)
    _put(p, at + 12, leader_epoch, 4)
    if attributes != row[6] or max_timestamp != row[8]:
        attributes &= 0x7F  # Kafka writes the attributes that it knows; they stay as they are with the times
        row[6] = attributes
        row[8] = max_timestamp
        _put(p, at + 21, attributes, 2)
        _put(p, at + 35, max_timestamp, 8)
        row[13] = crc32c_range(p, at + 21, at + row[1])
        _put(p, at + 17, row[13], 4)


def stamp(
    buf: cython.uchar[::1],
    rows: cython.longlong[:, ::1],
    origin: cython.longlong,
    next_offset: cython.longlong,
    leader_epoch: cython.longlong,
    log_append_time: cython.longlong,
    max_timestamps: cython.longlong[::1],
) -> cython.longlong:
    """Give the batches of an append their offsets, leader epoch and time, in their bytes and in the table.

    `origin` is the position of buf's first byte. With a `log_append_time` of -1 each batch keeps its
    records' times and gets its entry of `max_timestamps` as largest (none: keeps the one it has); else all
    get that time. A checksum is made anew only where something it covers has changed. Answers the next
    offset.
    """
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = rows.shape[0]
    at: cython.longlong
    stamped: cython.longlong
    given: cython.bint = max_timestamps.shape[0] > 0
    by_log: cython.bint = log_append_time >= 0
    if rows.shape[1] != 16 or (given and max_timestamps.shape[0] != n):
        raise ValueError("a table of batches has 16 columns, and one largest timestamp a row")
    for i in range(n):
        at = rows[i, 0] - origin
        if rows[i, 5] != 2 or rows[i, 1] < 61 or at < 0 or at + rows[i, 1] > len(buf):
            raise ValueError("a row that is no v2 batch inside the buffer")
    if n == 0:
        return next_offset
    if cython.compiled:
        with cython.nogil:
            for i in range(n):
                stamped = log_append_time if by_log else (max_timestamps[i] if given else rows[i, 8])
                at = rows[i, 0] - origin
                _stamp_one(
                    cython.address(buf[0]),
                    at,
                    cython.address(rows[i, 0]),
                    next_offset,
                    leader_epoch,
                    by_log,
                    stamped,
                )
                next_offset = rows[i, 3] + 1
    else:
        for i in range(n):
            stamped = log_append_time if by_log else int(max_timestamps[i] if given else rows[i, 8])
            at = int(rows[i, 0]) - origin
            _stamp_one(buf, at, rows[i], next_offset, leader_epoch, by_log, stamped)
            next_offset = int(rows[i, 3]) + 1
    return next_offset
