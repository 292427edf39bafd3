# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Messages of magic 0 and 1 as records of a v2 batch, so that what is done to records is written once.

A message is laid out as `kernels.messages` says, a record as `kernels.records` does. The batch that the
records are meant for begins at the first message's offset and has the base timestamp 0: deltas are times.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.kernels.faults import BAD_OFFSET, NO_ROOM, RECORD_OVERRUN
    from cython.cimports.tidelog.kernels.scan import i32, i64, wrapping_add
    from cython.cimports.tidelog.kernels.varints import put_varint, varint_size
else:
    from types import SimpleNamespace as Lifted

    from tidelog.kernels.faults import BAD_OFFSET, NO_ROOM, RECORD_OVERRUN
    from tidelog.kernels.scan import i32, i64, wrapping_add
    from tidelog.kernels.varints import put_varint, varint_size

_MAX_DELTA = cython.declare(cython.longlong, 0x7FFFFFFF)


def _uplift(p, end, messages, base, out, room):
    done: Lifted = Lifted(used=0, first=-1, last=-1, fault=0)
    k: cython.longlong
    pos: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    limit: cython.Py_ssize_t
    key_at: cython.Py_ssize_t
    size: cython.longlong
    key: cython.longlong
    value: cython.longlong
    timestamp: cython.longlong
    for k in range(messages):
        done.fault = RECORD_OVERRUN
        if end - pos < 26:
            return done
        size = i32(p, pos + 8)
        if size < 14 or size > end - pos - 12 or (p[pos + 16] == 1 and size < 22):
            return done
        limit = pos + 12 + size
        timestamp = i64(p, pos + 18) if p[pos + 16] == 1 else -1
        at = pos + (26 if p[pos + 16] == 1 else 18)
        key = i32(p, at)
        key_at = at + 4
        if key > limit - key_at - 4:
            return done
        at = key_at + (key if key > 0 else 0)
        if limit - at < 4:
            return done
        value = i32(p, at)
        at += 4
        if value > limit - at:
            return done
        if key < -1:
            key = -1
        if value < -1:
            value = -1
        base_offset: cython.longlong = wrapping_add(base, i64(p, pos))
        if k == 0:
            done.first = base_offset
        if (k != 0 and base_offset <= done.last) or base_offset < 0 or base_offset - done.first > _MAX_DELTA:
            done.fault = BAD_OFFSET
            return done
        done.last = base_offset
        size = 2 + varint_size(timestamp) + varint_size(done.last - done.first)
        size += varint_size(key) + varint_size(value) + (key if key > 0 else 0) + (value if value > 0 else 0)
        if room - done.used < size + 5:
            done.fault = NO_ROOM
            return done
        done.used = put_varint(out, done.used, size)
        out[done.used] = 0
        done.used = put_varint(out, done.used + 1, timestamp)
        done.used = put_varint(out, done.used, done.last - done.first)
        done.used = put_varint(out, done.used, key)
        if key > 0:
            if cython.compiled:
                memcpy(out + done.used, p + key_at, key)
            else:
                out[done.used : done.used + key] = p[key_at : key_at + key]
            done.used += key
        done.used = put_varint(out, done.used, value)
        if value > 0:
            if cython.compiled:
                memcpy(out + done.used, p + at, value)
            else:
                out[done.used : done.used + value] = p[at : at + value]
            done.used += value
        out[done.used] = 0
        done.used += 1
        done.fault = 0
        pos = limit
    return done


def uplift(
    payload: cython.const[cython.uchar][::1],
    messages: cython.longlong,
    base: cython.longlong,
    out: cython.uchar[::1],
) -> tuple:
    """Write the first `messages` of a message set as records into `out`; `base` is added to their offsets.

    Answers (bytes written, first offset, last offset, fault or 0).
    """
    done: Lifted
    if len(payload) == 0 or len(out) == 0:
        return 0, -1, -1, RECORD_OVERRUN
    if cython.compiled:
        with cython.nogil:
            done = _uplift(
                cython.address(payload[0]), len(payload), messages, base, cython.address(out[0]), len(out)
            )
    else:
        done = _uplift(payload, len(payload), messages, base, memoryview(out), len(out))
    return done.used, done.first, done.last, done.fault
