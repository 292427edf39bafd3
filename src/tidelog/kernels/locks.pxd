# The C face of locks.py, for kernels that hold a lock.
cdef class Lock:
    cdef unsigned long _holder
    cdef long _depth
    cdef long _waiting
    cdef bint _opened
    cdef object _turn

    cdef int take(self) except -1
    cdef int _wait(self) except -1
    cdef int give(self) except -1
