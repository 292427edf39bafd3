# The C face of search.py, for the kernel that appends.
cdef class Entries:
    cdef const unsigned char[::1] _read
    cdef unsigned char[::1] _write
    cdef Py_ssize_t _size
    cdef Py_ssize_t _count
    cdef Py_ssize_t _capacity
    cdef bint _writable
    cdef public Py_ssize_t room

    cdef bint fits(self, long long key, long long value, Py_ssize_t slots) noexcept
    cpdef bint append(self, long long key, long long value) noexcept
    cdef void _store(self, Py_ssize_t slot, long long key, long long value) noexcept
    cdef long long _key(self, Py_ssize_t slot) noexcept
    cdef long long _value(self, Py_ssize_t slot) noexcept
    cdef Py_ssize_t _halve(
        self, long long target, bint by_value, bint upper, Py_ssize_t lo, Py_ssize_t hi
    ) noexcept
    cdef Py_ssize_t _search(self, long long target, bint by_value, bint upper) noexcept
