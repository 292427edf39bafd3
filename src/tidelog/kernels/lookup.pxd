# The C face of lookup.py, so that an append looks at what is published, and moves it on, without Python.
cdef class LogBytes:
    cdef object _view
    cdef const unsigned char[::1] _buf
    cdef long long _base_offset
    cdef Py_ssize_t _size
    cdef Py_ssize_t _mapped

    cdef int _refusal(self, Py_ssize_t start) noexcept
