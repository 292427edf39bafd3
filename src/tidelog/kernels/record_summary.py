# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A summary of the records of an append, without decoding them: times, keys, and whether they are sound.

A record (see `kernels.records`): length varint | attributes i8 | timestamp delta varlong | offset delta
varint | key length varint, key | value length varint, value | header count varint, { key length, key, value
length, value }.

Each field must end inside its record, each record must fill its length, and the records their batch. Nothing
is read outside of the range given, whatever the varints say. The smallest timestamp is that of records which
have one (2^63 - 1 where none has), the largest is -1 where none has.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.varints import Var, varint
else:
    from types import SimpleNamespace as Said
    from types import SimpleNamespace as Summary

    from tidelog.kernels.varints import Var, varint

_MAX = cython.declare(cython.longlong, 9223372036854775807)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _plus(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """a + b as Java adds longs."""
    if cython.compiled:
        return cython.cast(
            cython.longlong, cython.cast(cython.ulonglong, a) + cython.cast(cython.ulonglong, b)
        )
    else:
        return ((int(a) + int(b) + 2**63) & (2**64 - 1)) - 2**63


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _headers_end(
    p: cython.pointer[cython.const[cython.uchar]],
    pos: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    count: cython.longlong,
) -> cython.Py_ssize_t:
    """Where `count` headers end, -1 where they do not within `limit`."""
    _k: cython.longlong
    v: Var
    for _k in range(count):
        v = varint(p, pos, limit, 28)
        if v.pos < 0 or v.value < 0 or v.value > limit - v.pos:
            return -1
        v = varint(p, v.pos + v.value, limit, 28)
        if v.pos < 0 or v.value > limit - v.pos:
            return -1
        pos = v.pos + v.value if v.value > 0 else v.pos
    return pos


def _walk(p, pos, end, count, base_timestamp, all_at):
    """Sum up the `count` records in p[pos:end]. `all_at` >= 0 is the time of all of them."""
    said: Said = Said(sound=False, in_order=True, smallest=_MAX, largest=-1, keyless=0)
    time: cython.longlong
    limit: cython.Py_ssize_t
    k: cython.longlong
    v: Var
    for k in range(count):
        v = varint(p, pos, end, 28)
        if v.pos < 0 or v.value < 1 or v.value > end - v.pos:
            return said
        limit = v.pos + v.value
        v = varint(p, v.pos + 1, limit, 63)
        if v.pos < 0:
            return said
        time = all_at if all_at >= 0 else _plus(base_timestamp, v.value)
        if time > said.largest:
            said.largest = time
        if time < said.smallest and time != -1:
            said.smallest = time
        v = varint(p, v.pos, limit, 28)
        if v.pos < 0:
            return said
        if v.value != k:
            said.in_order = False
        v = varint(p, v.pos, limit, 28)
        if v.pos < 0 or v.value > limit - v.pos:
            return said
        if v.value < 0:
            said.keyless += 1
        else:
            v.pos += v.value
        v = varint(p, v.pos, limit, 28)
        if v.pos < 0 or v.value > limit - v.pos:
            return said
        if v.value > 0:
            v.pos += v.value
        v = varint(p, v.pos, limit, 28)
        if v.pos < 0 or v.value < 0 or v.value > limit - v.pos:
            return said
        pos = v.pos if v.value == 0 else _headers_end(p, v.pos, limit, v.value)
        if pos != limit:
            return said
    said.sound = pos == end
    return said


def sum_up_rows(buf, rows, n, origin, largest):
    """`sum_up` for other kernels: the first `n` rows, which lie in the buffer."""
    i: cython.Py_ssize_t
    at: cython.longlong
    said: Said
    total: Summary = Summary(bad=-1, smallest=_MAX, largest=-1, keyless=0)
    for i in range(n):
        if rows[i, 5] != 2 or (rows[i, 6] & 7) != 0:
            continue
        at = rows[i, 0] - origin
        said = _walk(
            cython.address(buf[0]) if cython.compiled else buf,
            at + 61,
            at + rows[i, 1],
            rows[i, 12],
            rows[i, 7],
            rows[i, 8] if (rows[i, 6] & 8) != 0 else -1,
        )
        if rows[i, 1] < 61 or not said.sound:
            total.bad = i
            break
        largest[i] = said.largest
        total.keyless += said.keyless
        if said.largest > total.largest:
            total.largest = said.largest
        if said.smallest < total.smallest:
            total.smallest = said.smallest
    return total


def sum_up(
    buf: cython.const[cython.uchar][::1],
    rows: cython.longlong[:, ::1],
    origin: cython.longlong,
    largest: cython.longlong[::1],
) -> tuple:
    """Sum up the uncompressed v2 batches of the table `rows`; other rows are passed over.

    `origin` is the position of buf's first byte; `largest` takes the largest timestamp of each batch. Answers
    (the first row whose records are not sound or -1, smallest timestamp, largest, records without a key).
    """
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = rows.shape[0]
    at: cython.longlong
    total: Summary
    if rows.shape[1] != 16 or largest.shape[0] != n:
        raise ValueError("a table of batches has 16 columns, and one largest timestamp a row")
    for i in range(n):
        at = rows[i, 0] - origin
        if at < 0 or rows[i, 1] > len(buf) - at:
            raise ValueError("a batch of the table lies outside the buffer")
    with cython.nogil:
        total = sum_up_rows(buf, rows, n, origin, largest)
    return total.bad, int(total.smallest), int(total.largest), int(total.keyless)


def sum_up_payload(
    payload: cython.const[cython.uchar][::1],
    count: cython.longlong,
    base_timestamp: cython.longlong,
    all_at: cython.longlong,
) -> tuple:
    """The same for the decompressed records of one batch.

    `all_at` is the time of all records if the log has stamped them, else -1. Answers (whether the records are
    sound, smallest timestamp, largest, records without a key, whether their offsets count on from 0).
    """
    said: Said
    if len(payload) == 0:
        return False, 0, 0, 0, False
    with cython.nogil:
        said = _walk(
            cython.address(payload[0]) if cython.compiled else payload,
            0,
            len(payload),
            count,
            base_timestamp,
            all_at,
        )
    return said.sound, int(said.smallest), int(said.largest), int(said.keyless), said.in_order
