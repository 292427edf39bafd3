# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Which index entries a run of batches makes, when it is appended or found again by recovery.

Batch by batch, over the table of `kernels.scan`, as Kafka 4.3 does it:

1. the largest timestamp so far, and the last offset of the batch that has it, are moved on;
2. where more than the interval was written since the last entry, this batch not counted, it gets an offset
   entry (its last offset, its position) and, if the largest timestamp grew since the last one, a time entry
   (largest timestamp, its offset); the count begins anew;
3. the batch's size is counted.

So a segment's first batch has no entry. The run ends early, with a fault, at the first batch whose last
offset cannot be told relative to the base offset (OFFSET_RANGE) or does not lie above the one before (ORDER).
"""

import cython

OFFSET_RANGE = 1
ORDER = 2

_OFFSET_RANGE = cython.declare(cython.int, 1)
_ORDER = cython.declare(cython.int, 2)
_MAX_RELATIVE = cython.declare(cython.longlong, 0x7FFFFFFF)


def index_entries(
    rows: cython.const[cython.longlong][:, ::1],
    base_offset: cython.longlong,
    interval: cython.longlong,
    state: cython.longlong[::1],
    offset_entries: cython.longlong[:, ::1],
    time_entries: cython.longlong[:, ::1],
) -> tuple:
    """Make the entries of `rows`: (rows taken, fault or 0, offset entries, time entries).

    `state` is (position of the first batch, last offset, bytes since the last entry, largest timestamp, its
    offset, timestamp of the last time entry), and is moved on. The entries go into the columns of two arrays
    of two rows, which have room for one each a batch: offsets and positions, timestamps and offsets.
    """
    i: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = rows.shape[0]
    offsets: cython.Py_ssize_t = 0
    times: cython.Py_ssize_t = 0
    fault: cython.int = 0
    last: cython.longlong
    if rows.shape[1] != 16 or state.shape[0] != 6:
        raise ValueError("a table of batches has 16 columns, and the state six numbers")
    if offset_entries.shape[0] != 2 or time_entries.shape[0] != 2:
        raise ValueError("entries have two fields")
    if offset_entries.shape[1] < n or time_entries.shape[1] < n:
        raise ValueError("no room for an entry a batch")
    position: cython.longlong = state[0]
    last_offset: cython.longlong = state[1]
    since: cython.longlong = state[2]
    max_timestamp: cython.longlong = state[3]
    max_offset: cython.longlong = state[4]
    last_time: cython.longlong = state[5]
    with cython.nogil:
        while i < n:
            last = rows[i, 3]
            if last < base_offset or last - base_offset > _MAX_RELATIVE:
                fault = _OFFSET_RANGE
                break
            if last <= last_offset:
                fault = _ORDER
                break
            last_offset = last
            if rows[i, 8] > max_timestamp:
                max_timestamp = rows[i, 8]
                max_offset = last
            if since > interval:
                offset_entries[0, offsets] = last
                offset_entries[1, offsets] = position
                offsets += 1
                if max_timestamp > last_time:
                    time_entries[0, times] = max_timestamp
                    time_entries[1, times] = max_offset
                    times += 1
                    last_time = max_timestamp
                since = 0
            position += rows[i, 1]
            since += rows[i, 1]
            i += 1
    state[0] = position
    state[1] = last_offset
    state[2] = since
    state[3] = max_timestamp
    state[4] = max_offset
    state[5] = last_time
    return i, fault, offsets, times
