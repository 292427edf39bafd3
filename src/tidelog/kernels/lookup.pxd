# The C face of lookup.py, so that an append looks at what is published, and moves it on, without Python.
from tidelog.kernels.record_lookup cimport Record
from tidelog.kernels.progress cimport Progress
from tidelog.kernels.search cimport Entries

cdef struct _Start:
    Py_ssize_t position
    long long bound

cdef class LogBytes:
    cdef object _view
    cdef const unsigned char[::1] _buf
    cdef long long _base_offset
    cdef Py_ssize_t _size
    cdef Py_ssize_t _mapped

    cdef int _refusal(self, Py_ssize_t start) noexcept
    cdef _Start _time_start(self, Entries times, Entries offsets, long long timestamp, long long offset) noexcept
    cpdef tuple find_time(self, Py_ssize_t start, long long bound, long long timestamp, long long offset)
    cdef Record _try_time(self, Entries times, Entries offsets, long long timestamp, long long offset)

cdef class TimePath:
    cdef LogBytes _log
    cdef Entries _times
    cdef Entries _offsets
    cdef Progress _progress

    cdef bint reaches(self, long long timestamp) noexcept
    cdef Record find(self, long long timestamp, long long offset)
