# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Where a chunk of batches ends, and the runs in it that are decoded alike; from the headers alone.

A chunk is as many whole batches as fit its bounds, one at least. A record takes seven bytes, so a count
that an uncompressed batch cannot hold is not added up: the batch is refused when it is decoded.

Runs: 0 v2, uncompressed; 1 v2, in a codec that a kernel decompresses; 2 v2, in any other codec; 3 magic 0
and 1, uncompressed; 4 magic 0 and 1, compressed.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.codecs import LARGEST, SNAPPY
else:
    from types import SimpleNamespace as Chunk

    from tidelog.kernels.codecs import LARGEST, SNAPPY


def _kind(magic, codec):
    if magic < 2:
        return 4 if codec else 3
    if codec == 0:
        return 0
    return 1 if SNAPPY <= codec <= LARGEST else 2


def _cut(table, start, max_rows, max_bytes, expansion, origin, buffer_size):
    out: Chunk = Chunk(stop=start, rows=0, size=0, compressed=False, wrappers=False, kind=-3)
    rows: cython.longlong
    size: cython.longlong
    codec: cython.longlong
    kind: cython.longlong
    while out.stop < table.shape[0]:
        rows = table[out.stop, 12]
        size = table[out.stop, 1]
        codec = table[out.stop, 6] & 7
        if table[out.stop, 0] < origin or table[out.stop, 0] - origin > buffer_size - table[out.stop, 1]:
            out.stop = -1
            return out
        if codec != 0:
            size = size * expansion // 16
        elif rows > size // 7:
            rows = size // 7
        if rows < 0:
            rows = 0
        if out.stop > start and (rows > max_rows - out.rows or size > max_bytes - out.size):
            break
        if codec != 0:
            out.compressed = True
            if table[out.stop, 5] < 2:
                out.wrappers = True
        kind = -1 if table[out.stop, 5] == 0 else (table[out.stop, 6] >> 3) & 1
        if out.stop == start:
            out.kind = kind
        elif kind != out.kind:
            out.kind = -2
        out.rows += rows
        out.size += size
        out.stop += 1
    return out


def cut(
    table: cython.const[cython.longlong][:, ::1],
    start: cython.Py_ssize_t,
    max_rows: cython.longlong,
    max_bytes: cython.longlong,
    expansion: cython.longlong,
    origin: cython.longlong,
    buffer_size: cython.longlong,
) -> tuple:
    """The chunk of `table` that begins at `start`, which is one of its batches:

    (end, rows, bytes, is something compressed, are there wrappers, timestamp type or -2 if they differ).
    Compressed batches are taken to expand `expansion` sixteenths.
    A batch outside of `buffer_size` bytes from `origin` on is answered with an end of -1.
    """
    out: Chunk
    if start < 0 or start >= table.shape[0] or table.shape[1] != 16:
        raise IndexError(start)
    if cython.compiled:
        with cython.nogil:
            out = _cut(table, start, max_rows, max_bytes, expansion, origin, buffer_size)
    else:
        out = _cut(memoryview(table), start, max_rows, max_bytes, expansion, origin, buffer_size)
    return out.stop, out.rows, out.size, out.compressed, out.wrappers, out.kind


def run(table: cython.const[cython.longlong][:, ::1], first: cython.Py_ssize_t) -> tuple:
    """Where the run that begins at `first` ends, and its kind."""
    last: cython.Py_ssize_t = first + 1
    kind: cython.int
    if first < 0 or first >= table.shape[0] or table.shape[1] != 16:
        raise IndexError(first)
    with cython.nogil:
        kind = _kind(table[first, 5], table[first, 6] & 7)
        while last < table.shape[0] and _kind(table[last, 5], table[last, 6] & 7) == kind:
            last += 1
    return last, kind
