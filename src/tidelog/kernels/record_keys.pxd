# The C faces of record_keys.py, so that the kernels of compaction go over records without Python.
from tidelog.kernels.keymap cimport Hash, KeyMap

cdef enum:
    CHUNK = 64
    HAS_KEY = 1
    HAS_VALUE = 2

cdef struct Keyed:
    Py_ssize_t start
    Py_ssize_t body
    Py_ssize_t limit
    long long timestamp
    long long offset
    int kind
    Hash hash

cdef const long long* row_of(const long long[:, ::1] rows, Py_ssize_t i) noexcept nogil
cdef int check_batch(
    const unsigned char* p, Py_ssize_t size, long long start, const long long* row
) noexcept nogil

cdef class Chunk:
    cdef Keyed records[64]
    cdef Py_ssize_t n
    cdef Py_ssize_t pos

    cdef int _read_body(
        self, const unsigned char* p, Py_ssize_t i, Py_ssize_t pos, Py_ssize_t limit, KeyMap keymap
    ) noexcept nogil
    cdef int read(
        self,
        const unsigned char* p,
        Py_ssize_t end,
        long long left,
        const long long* row,
        KeyMap keymap,
    ) noexcept nogil
