# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What readers see of a log, in a form that an append can move on without making an object.

A view is a named tuple: (segments, (log start, first unstable offset, high watermark, log end)); an offset
with its place is (offset, base offset of its segment, position there). Every append has another log end, and
most of them are looked at by nobody before the next. So an append notes numbers (`advance`), and whoever asks
for the view makes it of them, once.

Invariant: `view` is always of one moment. Making one can run the garbage collector and with it other code,
even other appends. So the numbers are read before anything is made, and what was made is kept only if no
`advance` and no other view came in between.
"""

import cython

if cython.compiled:
    from cython.cimports.cpython.object import PyTypeObject
    from cython.cimports.cpython.ref import Py_INCREF
    from cython.cimports.cpython.tuple import PyTuple_SET_ITEM


def named(kind, n, a, b, c, d, e, f):
    """A named tuple of this type with the first `n` values; its own way takes three times as long."""
    if cython.compiled:
        made: tuple = cython.cast(
            tuple, PyType_GenericAlloc(cython.cast(cython.pointer[PyTypeObject], kind), n)
        )
        Py_INCREF(a)
        PyTuple_SET_ITEM(made, 0, a)
        Py_INCREF(b)
        PyTuple_SET_ITEM(made, 1, b)
        if n > 2:
            Py_INCREF(c)
            PyTuple_SET_ITEM(made, 2, c)
        if n > 3:
            Py_INCREF(d)
            PyTuple_SET_ITEM(made, 3, d)
        if n > 4:
            Py_INCREF(e)
            PyTuple_SET_ITEM(made, 4, e)
        if n > 5:
            Py_INCREF(f)
            PyTuple_SET_ITEM(made, 5, f)
        return made
    else:
        return tuple.__new__(kind, (a, b, c, d, e, f)[:n])


@cython.cclass
class Published:
    """What readers see of a log, and what an append has to know of its state.

    `active` is the segment that takes appends; what lies below `recovery_point` is on the disk;
    `truncations` counts how often the end was cut off; `_closed` says whether the log was closed, and
    `_offline` why its disk failed, or None.
    """

    def __init__(self, point_type: type, offsets_type: type, view_type: type, view):
        """Show `view`. The types are those of an offset with its place, of the offsets, and of a view."""
        self.active = None
        self.recovery_point = 0
        self.truncations = 0
        self._closed = False
        self._offline = None
        self._point_type = point_type
        self._offsets_type = offsets_type
        self._view_type = view_type
        self._view = view
        self._behind = False
        self._version = 0
        self._segments = self._log_start = self._unstable = self._mark = self._base_offset = None
        self._replicated = False
        self._end_offset = self._position = 0

    @property
    def view(self):
        """The segments and the offsets of one moment."""
        return self.now()

    @view.setter
    def view(self, view):
        """Show this one from now on."""
        self._view = view
        self._behind = False
        self._version += 1

    def now(self):
        """`view`, for a kernel."""
        return self._current() if self._behind else self._view

    def _current(self):
        """The view, made of what the last append noted."""
        version: cython.longlong = self._version
        segments = self._segments
        log_start = self._log_start
        unstable = self._unstable
        mark = self._mark
        base_offset = self._base_offset
        replicated: cython.bint = self._replicated
        end_offset: cython.longlong = self._end_offset
        position: cython.longlong = self._position
        end = named(self._point_type, 3, end_offset, base_offset, position, None, None, None)
        offsets = named(
            self._offsets_type, 4, log_start, unstable, end if replicated else mark, end, None, None
        )
        view = named(self._view_type, 2, segments, offsets, None, None, None, None)
        if version == self._version:
            self._view = view
            self._behind = False
        return view

    def load(self, replicated):
        """Make sure that the numbers are those of the view, for an append; with the log's lock held.

        `replicated`: whether the high watermark will follow the append.
        """
        view: tuple
        offsets: tuple
        end: tuple
        if self._behind:
            if replicated or not self._replicated:
                return 0
            self._current()  # the high watermark stays where the last append has moved it
        view = cython.cast(tuple, self._view)  # indexing a named tuple as an object is slow
        offsets = cython.cast(tuple, view[1])
        end = cython.cast(tuple, offsets[3])
        self._segments = view[0]
        self._log_start = offsets[0]
        self._unstable = offsets[1]
        self._mark = offsets[2]
        self._end_offset = end[0]
        return 0

    def advance(self, base_offset, end_offset, position, replicated, unstable):
        """Show another log end; `load` came before."""
        self._base_offset = base_offset
        self._end_offset = end_offset
        self._position = position
        self._replicated = replicated
        self._unstable = unstable
        self._version += 1
        self._behind = True
        return 0
