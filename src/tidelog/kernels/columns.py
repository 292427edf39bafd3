# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Where decoded records go: Arrow's own layout, allocated by the caller, filled by the other kernels.

A column of bytes is `ends` (n + 1 of them, the first 0), validity bits (all set beforehand) and the bytes
one after the other. Its data has SLACK bytes more than may be used, so that a loop can copy in whole steps
and overshoot.

Invariants: `rows`, `headers` and `batches` count what is whole; a batch that fails leaves them as they
were, so that what came before it can be used. `batches` is also where the next call goes on, and so names
the batch at fault.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
else:
    SLACK, NO_HEADERS, HEADERS_UNSEEN, HEADERS = 32, 0, 1, 2


@cython.final
@cython.cclass
class Bytes:
    """A growing column of byte strings."""

    def __init__(
        self,
        ends: cython.int[::1],
        valid: cython.uchar[::1],
        data: cython.uchar[::1],
    ):
        if ends.shape[0] < 1 or 8 * valid.shape[0] < ends.shape[0] - 1 or data.shape[0] < SLACK:
            raise ValueError("a column's buffers are too small")
        self.buffers = (ends, valid, data)
        self.capacity = ends.shape[0] - 1
        self.room = data.shape[0] - SLACK
        self.used = 0
        self.nulls = 0
        if cython.compiled:
            self.ends = cython.address(ends[0])
            self.valid = cython.address(valid[0]) if valid.shape[0] else cython.NULL
            self.data = cython.address(data[0])
        else:
            self.ends, self.valid, self.data = ends, valid, memoryview(data)
        self.ends[0] = 0

    def keep(self):
        """Remember how far the column is."""
        self.kept_used, self.kept_nulls = self.used, self.nulls

    def restore(self):
        """Go back to what was kept."""
        self.used, self.nulls = self.kept_used, self.kept_nulls

    def put(self, row, p, pos, n):
        """Row `row` is p[pos:pos+n], or null if n < 0; the caller has checked that there is room."""
        if n < 0:
            self.valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.nulls += 1
        else:
            if cython.compiled:
                memcpy(self.data + self.used, p + pos, n)
            else:
                self.data[self.used : self.used + n] = p[pos : pos + n]
            self.used += n
        self.ends[row + 1] = self.used


@cython.final
@cython.cclass
class Columns:
    """The columns of one chunk; every one may be None.

    `headers` is None when they are not wanted, () while none were seen (the first one is then answered with
    NO_ROOM), or (ends, validity bits (none set), keys, values).
    """

    def __init__(
        self,
        table: cython.longlong[:, ::1],
        capacity: cython.Py_ssize_t,
        offsets: cython.longlong[::1] = None,
        timestamps: cython.longlong[::1] = None,
        microseconds: cython.bint = False,
        keys: Bytes = None,
        values: Bytes = None,
        headers: object = None,
    ):
        self.table = table if cython.compiled else memoryview(table)
        self.buffers = (offsets, timestamps, headers)
        self.capacity = capacity
        self.microseconds = microseconds
        self.has_offsets = offsets is not None
        self.has_timestamps = timestamps is not None
        self.has_keys = keys is not None
        self.has_values = values is not None
        self.keys = keys
        self.values = values
        self.rows = 0
        self.headers = 0
        self.batches = 0
        self.packed = 0
        self.unpacked = 0
        self.pos = 0
        if (
            (offsets is not None and offsets.shape[0] < capacity)
            or (timestamps is not None and timestamps.shape[0] < capacity)
            or (keys is not None and keys.capacity < capacity)
            or (values is not None and values.capacity < capacity)
        ):
            raise ValueError("a column is shorter than the capacity")
        if table.shape[1] != 16:
            raise ValueError("a batch is described by 16 numbers")
        if cython.compiled:
            self.offsets = cython.address(offsets[0]) if self.has_offsets and capacity else cython.NULL
            self.timestamps = (
                cython.address(timestamps[0]) if self.has_timestamps and capacity else cython.NULL
            )
        else:
            self.offsets, self.timestamps = offsets, timestamps
        self._take_headers(headers)

    def _take_headers(self, headers):
        ends: cython.int[::1]
        valid: cython.uchar[::1]
        if not headers:
            self.headers_mode = NO_HEADERS if headers is None else HEADERS_UNSEEN
            return
        ends, valid = headers[0], headers[1]
        self.header_keys, self.header_values = headers[2], headers[3]
        if ends.shape[0] <= self.capacity or 8 * valid.shape[0] < self.capacity:
            raise ValueError("a column is shorter than the capacity")
        if self.header_keys.capacity != self.header_values.capacity:
            raise ValueError("header keys and values differ in capacity")
        self.headers_mode = HEADERS
        if cython.compiled:
            self.header_ends = cython.address(ends[0])
            self.header_valid = cython.address(valid[0]) if valid.shape[0] else cython.NULL
        else:
            self.header_ends, self.header_valid = ends, valid
        self.header_ends[0] = 0

    def keep(self):
        """Remember how far the columns are, to `restore` it."""
        self.kept_rows, self.kept_headers = self.rows, self.headers
        if self.has_keys:
            self.keys.keep()
        if self.has_values:
            self.values.keep()
        if self.headers_mode == HEADERS:
            self.header_keys.keep()
            self.header_values.keep()

    def restore(self):
        """Forget what was put in since `keep`, but for validity bits: no more rows may follow."""
        self.rows, self.headers = self.kept_rows, self.kept_headers
        if self.has_keys:
            self.keys.restore()
        if self.has_values:
            self.values.restore()
        if self.headers_mode == HEADERS:
            self.header_keys.restore()
            self.header_values.restore()

    def has_room(self, records, size):
        """Is there room for so many records in so many bytes, whatever they hold?"""
        if records > self.capacity - self.rows:
            return False
        if self.has_keys and size > self.keys.room - self.keys.used:
            return False
        if self.has_values and size > self.values.room - self.values.used:
            return False
        if self.headers_mode != HEADERS:
            return True
        return (
            size <= self.header_keys.room - self.header_keys.used
            and size <= self.header_values.room - self.header_values.used
        )
