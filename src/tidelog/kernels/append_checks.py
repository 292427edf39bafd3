# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Checks of the batches of an append in one call: what `scan`, `appends` and `record_summary` find.

One call instead of three, because most appends are one small batch, and what is around a call costs more than
what it does.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.appends import Facts, analyze_rows
    from cython.cimports.tidelog.kernels.record_summary import Summary, sum_up_rows
    from cython.cimports.tidelog.kernels.scan import _read_header
else:
    from types import SimpleNamespace as Facts
    from types import SimpleNamespace as Summary

    from tidelog.kernels.appends import analyze_rows
    from tidelog.kernels.record_summary import sum_up_rows
    from tidelog.kernels.scan import _read_header


def check(
    buf: cython.const[cython.uchar][::1],
    rows: cython.longlong[:, ::1],
    largest: cython.longlong[::1],
    origin: cython.int,
    leader_epoch: cython.longlong,
    max_message_bytes: cython.longlong,
    target_codec: cython.int,
    log_append_time: cython.bint,
) -> tuple:
    """Read all of `buf` into `rows`, and check headers and records (see the three kernels for the numbers).

    Answers (rows filled, where the walk stopped, its fault or 0, what `analyze` answers, what `sum_up`
    answers), flat. What comes after a fault is not looked at.
    """
    n: cython.Py_ssize_t = 0
    capacity: cython.Py_ssize_t = rows.shape[0]
    end: cython.Py_ssize_t = len(buf)
    pos: cython.Py_ssize_t = 0
    stopped: cython.int = 0
    facts: Facts = Facts(
        fault=0,
        taken=0,
        last_offset=-1,
        last_epoch=-1,
        max_timestamp=-1,
        codec=0,
        size=0,
        with_producer=False,
        rewrites=0,
    )
    total: Summary = Summary(bad=-1, smallest=-1, largest=-1, keyless=0)
    if rows.shape[1] != 16 or largest.shape[0] < capacity:
        raise ValueError("a table of batches has 16 columns, and one largest timestamp a row")
    with cython.nogil:
        while n < capacity and pos < end:
            if cython.compiled:
                rows[n, 0] = pos
                stopped = _read_header(cython.address(buf[0]), pos, end, cython.address(rows[n, 0]), True)
            else:
                row = [pos] + [0] * 15
                stopped = _read_header(buf, pos, end, row, True)
                rows[n] = row
            if stopped != 0:
                break
            pos += rows[n, 1]
            n += 1
        if stopped == 0:
            facts = analyze_rows(
                rows, n, origin, leader_epoch, max_message_bytes, target_codec, log_append_time
            )
            if facts.fault == 0:
                total = sum_up_rows(buf, rows, n, 0, largest)
    return (
        n,
        pos,
        stopped,
        facts.fault,
        facts.taken,
        int(facts.last_offset),
        int(facts.last_epoch),
        int(facts.max_timestamp),
        int(facts.codec),
        int(facts.size),
        facts.with_producer,
        facts.rewrites,
        total.bad,
        int(total.smallest),
        int(total.largest),
        int(total.keyless),
    )
