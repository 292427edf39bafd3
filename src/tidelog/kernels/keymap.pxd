# The C faces of keymap.py, so that the kernels of compaction look keys up without Python.
cdef struct Hash:
    unsigned long long low
    unsigned long long high

cdef struct Sip:
    unsigned long long a
    unsigned long long b
    unsigned long long c
    unsigned long long d

cdef class KeyMap:
    cdef long long[:, ::1] table
    cdef long long* data
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t slots
    cdef readonly Py_ssize_t size
    cdef unsigned long long a
    cdef unsigned long long b
    cdef unsigned long long c
    cdef unsigned long long d
    cdef unsigned long long rounds[6]

    cdef object _draw_rounds(self)
    cdef Hash hash_of(self, const unsigned char* p, Py_ssize_t pos, Py_ssize_t n) noexcept nogil
    cdef Hash _siphash(self, const unsigned char* p, Py_ssize_t pos, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t _home(self, long long low) noexcept nogil
    cdef Py_ssize_t _slot(self, long long low, long long high) noexcept nogil
    cdef void expect(self, Hash h) noexcept nogil
    cdef bint has_room(self, long long entries) noexcept nogil
    cdef long long find(self, Hash h) noexcept nogil
    cdef void put(self, Hash h, long long offset) noexcept nogil
    cdef void _put(self, long long low, long long high, long long offset) noexcept nogil
    cdef bint _has(self, const long long[:, ::1] table, Py_ssize_t i) noexcept nogil
    cdef void _put_row(self, const long long[:, ::1] table, Py_ssize_t i) noexcept nogil
