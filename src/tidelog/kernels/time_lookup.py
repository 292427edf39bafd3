# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Look-ups by time in a log, in one call.

A look-up takes 2 us, and the Python calls from a log to the bytes of its segment were a third of that. What
the first look-up in a segment found out is kept with it (`lookup.TimePath`). Everything out of the ordinary
is left to the long way (`log.read.lookups`): questions that are no timestamps, times that no segment reaches,
segments not looked at yet or closed, compressed batches, damage.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.lookup import TimePath
    from cython.cimports.tidelog.kernels.published import Published
    from cython.cimports.tidelog.kernels.record_lookup import Record, make_pair
    from cython.cimports.tidelog.kernels.shared import SegmentFields, SegmentsFields
else:
    from tidelog.kernels.lookup import TimePath
    from tidelog.kernels.published import Published
    from tidelog.kernels.record_lookup import Record, make_pair
    from tidelog.kernels.shared import SegmentFields, SegmentsFields


@cython.cfunc
def _path_to(segments: SegmentsFields, timestamp: cython.longlong):
    """The way to the first segment whose largest timestamp is not below this; None if it is not known."""
    largest: list = segments._largest
    sealed: cython.Py_ssize_t = len(segments._all) - 1
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = sealed
    middle: cython.Py_ssize_t
    if len(largest) < sealed:
        return None
    while low < high:
        middle = (low + high) >> 1
        if cython.cast(cython.longlong, largest[middle]) < timestamp:
            low = middle + 1
        else:
            high = middle
    segment: SegmentFields = segments._all[low]
    path: TimePath = segment._time_path
    if path is None or (low == sealed and not path.reaches(timestamp)):
        return None
    return path


def find_by_time(state: Published, timestamp, kind: type, names: tuple):
    """An object of data class `kind` with the timestamp and offset of the first record that is not older, in
    the first segment that has one, at or after the log start; None where the long way has to tell.

    The answer is one of the view that it was looked for in: where the log was truncated meanwhile, the bytes
    that were read may have been others.
    """
    target: cython.longlong
    r: Record
    try:
        target = timestamp
    except (OverflowError, TypeError):
        return None
    if target < 0:
        return None
    truncations: cython.longlong = state.truncations
    view: tuple = cython.cast(tuple, state.now())
    path: TimePath = _path_to(view[0], target)
    if path is None:
        return None
    r = path.find(target, cython.cast(tuple, view[1])[0])
    if r.code != 0 or state.truncations != truncations:
        return None
    return make_pair(kind, names, r.timestamp, r.offset)
