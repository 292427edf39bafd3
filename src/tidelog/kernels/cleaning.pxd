# The C faces of cleaning.py.
from tidelog.kernels.record_keys cimport Chunk, Keyed
from tidelog.kernels.keymap cimport KeyMap
from tidelog.kernels.scratch cimport Scratch

cdef enum:
    DELETE = 1
    RETAIN_EMPTY = 2
    DISCARD = 4
    KEEP_ALL = 8
    MARKER = 16
    LEGACY_DELETES = 32

cdef struct Kept:
    long long body
    long long limit
    long long timestamp
    long long offset

cdef struct Verdict:
    long long kept
    long long keyless
    long long tombstones
    long long first_timestamp
    long long first_offset
    long long last_offset
    long long max_timestamp
    bint with_tombstones
    int fault

cdef class Filter:
    cdef KeyMap keymap
    cdef Chunk chunk
    cdef Py_ssize_t ahead
    cdef Py_ssize_t next_record
    cdef long long latest
    cdef long long now
    cdef long long horizon
    cdef unsigned char[::1] out_memory
    cdef unsigned char* out
    cdef Py_ssize_t room
    cdef long long[:, ::1] keep_memory
    cdef Kept* keep
    cdef Py_ssize_t keep_room
    cdef long long[:, ::1] made_rows
    cdef readonly Py_ssize_t used
    cdef readonly Py_ssize_t made
    cdef readonly Py_ssize_t batches
    cdef readonly long long wanted
    cdef readonly long long read
    cdef readonly long long kept
    cdef readonly long long keyless
    cdef readonly long long tombstones
    cdef readonly long long markers
    cdef readonly long long copied
    cdef readonly long long rewritten
    cdef readonly long long emptied
    cdef readonly long long dropped
    cdef readonly long long unsealed

    cdef int _stays(self, Keyed record, bint keep_all, bint keep_deletes) noexcept nogil
    cdef Verdict _decide(
        self,
        const unsigned char* p,
        Py_ssize_t pos,
        Py_ssize_t end,
        const long long* row,
        int flags,
    ) noexcept nogil
    cdef Verdict _judge(
        self, Verdict v, Py_ssize_t first, Py_ssize_t last, const long long* row, int flags
    ) noexcept nogil
    cdef void _look_ahead(
        self,
        const unsigned char* p,
        Py_ssize_t size,
        const long long[:, ::1] rows,
        const unsigned char[::1] flags,
        long long origin,
    ) noexcept nogil
    cdef int _copy(
        self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end, const long long* row
    ) noexcept nogil
    cdef int _empty(self, const long long* row) noexcept nogil
    cdef int _rewrite(
        self,
        const unsigned char* p,
        const long long* row,
        Verdict verdict,
        long long horizon,
    ) noexcept nogil
    cdef Py_ssize_t _put_records(
        self,
        const unsigned char* p,
        const long long* row,
        Py_ssize_t kept,
        long long base_offset,
        long long base_timestamp,
    ) noexcept nogil
    cdef Py_ssize_t _put_record(
        self,
        const unsigned char* p,
        Kept record,
        Py_ssize_t at,
        long long base_offset,
        long long base_timestamp,
    ) noexcept nogil
    cdef int _batch(
        self,
        const unsigned char* p,
        Py_ssize_t start,
        Py_ssize_t end,
        const unsigned char* q,
        Py_ssize_t pos,
        Py_ssize_t limit,
        const long long* row,
        int flags,
    ) noexcept nogil
    cdef void _count(self, const long long* row, int flags, Verdict verdict) noexcept nogil
    cdef int _run(
        self,
        const unsigned char* p,
        Py_ssize_t size,
        const long long[:, ::1] rows,
        const unsigned char[::1] flags,
        long long origin,
        Scratch scratch,
    ) noexcept nogil
