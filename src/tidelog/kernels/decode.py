# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Runs of v2 batches into columns: one call for thousands of them.

Each call goes on at the batch that `Columns.batches` names, up to `last`, and stops at the first fault: 0
or the code (see kernels/faults.py). Batches lie in `buf` at the positions of the table less `origin`.

With `check_crc` the checksum of an uncompressed batch is taken after its records were decoded, from the
cache: memory is then read while there is something to compute. If it is wrong, the records are taken back.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.columns import SLACK, Columns
    from cython.cimports.tidelog.kernels.crc import crc32c_range
    from cython.cimports.tidelog.kernels.faults import CHECKSUM, NO_ROOM, RECORD_OVERRUN
    from cython.cimports.tidelog.kernels.records import put_batch
    from cython.cimports.tidelog.kernels.scratch import Scratch
else:
    from tidelog.kernels.columns import SLACK, Columns
    from tidelog.kernels.crc import crc32c_range
    from tidelog.kernels.faults import CHECKSUM, NO_ROOM, RECORD_OVERRUN
    from tidelog.kernels.records import put_batch
    from tidelog.kernels.scratch import Scratch

_Row = cython.typedef(cython.pointer[cython.const[cython.longlong]])


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _row(columns: Columns, i: cython.Py_ssize_t) -> _Row:
    """The numbers that describe batch `i`."""
    if cython.compiled:
        return cython.address(columns.table[i, 0])
    else:
        return [columns.table[i, k] for k in range(16)]


def _take_plain(columns, p, size, origin, last, check_crc):
    start: cython.longlong
    end: cython.longlong
    fault: cython.int
    row: _Row
    while columns.batches < last:
        row = _row(columns, columns.batches)
        start = row[0] - origin
        end = start + row[1]
        if start < 0 or row[1] < 61 or end > size:
            return RECORD_OVERRUN
        fault = put_batch(columns, p, start + 61, end, size, row)
        if check_crc and fault != NO_ROOM and crc32c_range(p, start + 21, end) != row[13]:
            columns.restore()
            return CHECKSUM
        if fault != 0:
            return fault
        columns.batches += 1
    return 0


def take_plain(
    columns: Columns,
    buf: cython.const[cython.uchar][::1],
    origin: cython.longlong,
    last: cython.Py_ssize_t,
    check_crc: cython.bint,
) -> cython.int:
    """Decode uncompressed batches."""
    fault: cython.int
    if last > columns.table.shape[0]:
        raise IndexError(last)
    if cython.compiled:
        with cython.nogil:
            fault = _take_plain(columns, cython.address(buf[0]), buf.shape[0], origin, last, check_crc)
    else:
        fault = _take_plain(columns, buf, len(buf), origin, last, check_crc)
    return fault


def _take_compressed(columns, p, size, origin, last, check_crc, scratch):
    start: cython.longlong
    end: cython.longlong
    n: cython.longlong
    fault: cython.int
    row: _Row
    while columns.batches < last:
        row = _row(columns, columns.batches)
        start = row[0] - origin
        end = start + row[1]
        if start < 0 or row[1] < 61 or end > size:
            return RECORD_OVERRUN
        if check_crc and crc32c_range(p, start + 21, end) != row[13]:
            return CHECKSUM
        if row[12] != 0:
            n = scratch.decompress(p, start + 61, end, row[6] & 7)
            if n < 0:
                return -n
            columns.packed += row[1]
            columns.unpacked += n
            fault = put_batch(columns, scratch.data, 0, n, scratch.room + SLACK, row)
            if fault != 0:
                return fault
        columns.batches += 1
    return 0


def take_compressed(
    columns: Columns,
    buf: cython.const[cython.uchar][::1],
    origin: cython.longlong,
    last: cython.Py_ssize_t,
    check_crc: cython.bint,
    scratch: Scratch,
) -> cython.int:
    """Decompress batches to `scratch` and decode them, one after the other.

    Stops with SCRATCH_FULL at one that does not fit, with UNUSUAL at one that has to be decompressed another
    way; its checksum has been checked by then.
    """
    fault: cython.int
    if last > columns.table.shape[0]:
        raise IndexError(last)
    if cython.compiled:
        with cython.nogil:
            fault = _take_compressed(
                columns, cython.address(buf[0]), buf.shape[0], origin, last, check_crc, scratch
            )
    else:
        fault = _take_compressed(columns, buf, len(buf), origin, last, check_crc, scratch)
    return fault


def take_payload(columns: Columns, payload: cython.const[cython.uchar][::1]) -> cython.int:
    """Decode the decompressed records of one batch."""
    fault: cython.int
    if columns.batches >= columns.table.shape[0]:
        raise IndexError(columns.batches)
    columns.packed += columns.table[columns.batches, 1]
    columns.unpacked += len(payload)
    if cython.compiled:
        with cython.nogil:
            fault = put_batch(
                columns,
                cython.address(payload[0]),
                0,
                payload.shape[0],
                payload.shape[0],
                _row(columns, columns.batches),
            )
    else:
        fault = put_batch(columns, payload, 0, len(payload), len(payload), _row(columns, columns.batches))
    if fault == 0:
        columns.batches += 1
    return fault
