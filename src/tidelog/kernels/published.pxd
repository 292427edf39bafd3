# The C face of published.py, so that an append looks at a log's state and moves it on without Python.
from cpython.object cimport PyTypeObject

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* type, Py_ssize_t items)

cdef object named(type kind, Py_ssize_t n, object a, object b, object c, object d, object e, object f)

cdef class Published:
    cdef public object active
    cdef public object recovery_point
    cdef public long long truncations
    cdef public object _closed
    cdef public object _offline
    cdef type _point_type
    cdef type _offsets_type
    cdef type _view_type
    cdef object _view
    cdef bint _behind
    cdef long long _version
    cdef object _segments
    cdef object _log_start
    cdef object _unstable
    cdef object _mark
    cdef bint _replicated
    cdef object _base_offset
    cdef long long _end_offset
    cdef long long _position

    cdef object now(self)
    cdef object _current(self)
    cdef int load(self, bint replicated) except -1
    cdef int advance(
        self, object base_offset, long long end_offset, long long position, bint replicated, object unstable
    ) except -1
