# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Which JSON texts are one object that surely fits a schema.

The schema is a table of nodes, six numbers each; node 0 is the object itself:

    0 kind      1 first child      2 children      3 limit      4 start of its name      5 end of it

    kind            limit                                   text that surely fits
    STRUCT, LIST                                            children lie side by side; a list has one
    BOOL                                                    true, false
    INT             bits                                    at most 18 digits, within the bits
    FLOAT           bits                                    at most 30 digits, an exponent of two at most
    STRING                                                  UTF-8; \\u without surrogates
    DATE                                                    2026-11-15
    TIMESTAMP       1: an instant, a zone may follow        2026-11-15T10:00:00.123456+02:00
    DECIMAL         digits before the point << 8 | after    a number without an exponent
    OTHER                                                   nothing but null

Null fits everywhere, under unknown names too. What is not sure (names with escapes, repeated names, large
numbers, deep texts) is left to others: the answer is that it does not fit.
"""

import cython

STRUCT, LIST, BOOL, INT, FLOAT, STRING, DATE, TIMESTAMP, DECIMAL, OTHER = range(10)
DEPTH = 64

_STRUCT = cython.declare(cython.longlong, 0)
_LIST = cython.declare(cython.longlong, 1)
_BOOL = cython.declare(cython.longlong, 2)
_INT = cython.declare(cython.longlong, 3)
_FLOAT = cython.declare(cython.longlong, 4)
_STRING = cython.declare(cython.longlong, 5)
_DATE = cython.declare(cython.longlong, 6)
_TIMESTAMP = cython.declare(cython.longlong, 7)
_DECIMAL = cython.declare(cython.longlong, 8)
_DEPTH = cython.declare(cython.Py_ssize_t, 64)


def _skip(p, at, end):
    """Past white space."""
    while at < end and (p[at] == 32 or p[at] == 10 or p[at] == 13 or p[at] == 9):
        at += 1
    return at


def _hex4(p, at):
    """Four hexadecimal digits as a number; -1 where they are none."""
    value: cython.longlong = 0
    i: cython.Py_ssize_t
    for i in range(4):
        c: cython.longlong = p[at + i]
        if 48 <= c <= 57:
            value = value * 16 + c - 48
        elif 97 <= c <= 102 or 65 <= c <= 70:
            value = value * 16 + (c & 7) + 9
        else:
            return -1
    return value


def _character(p, at, end):
    """Past a character of two to four bytes in UTF-8; -1 where it is none."""
    c: cython.longlong = p[at]
    n: cython.Py_ssize_t = 0
    least: cython.longlong = 0
    i: cython.Py_ssize_t
    if 0xC2 <= c <= 0xDF:
        n = 1
        least = 0x80
        c &= 0x1F
    elif 0xE0 <= c <= 0xEF:
        n = 2
        least = 0x800
        c &= 0x0F
    elif 0xF0 <= c <= 0xF4:
        n = 3
        least = 0x10000
        c &= 0x07
    if n == 0 or end - at <= n:
        return -1
    for i in range(1, n + 1):
        if p[at + i] & 0xC0 != 0x80:
            return -1
        c = c << 6 | (p[at + i] & 0x3F)
    if c < least or c > 0x10FFFF or 0xD800 <= c <= 0xDFFF:
        return -1
    return at + n + 1


def _string(p, at, end):
    """Past the closing quote of a string that begins at `at`; -1 where it is none, or not sure."""
    c: cython.longlong
    while at < end:
        c = p[at]
        if c == 34:
            return at + 1
        if c < 32:
            return -1
        if c == 92:
            if end - at < 2:
                return -1
            c = p[at + 1]
            if c == 117:
                if end - at < 6:
                    return -1
                c = _hex4(p, at + 2)
                if c < 0 or 0xD800 <= c <= 0xDFFF:
                    return -1
                at += 6
            elif c == 34 or c == 92 or c == 47 or c == 98 or c == 102 or c == 110 or c == 114 or c == 116:
                at += 2
            else:
                return -1
        elif c < 0x80:
            at += 1
        else:
            at = _character(p, at, end)
            if at < 0:
                return -1
    return -1


def _digits(p, at, end):
    """Past digits."""
    while at < end and 48 <= p[at] <= 57:
        at += 1
    return at


def _number(p, at, end, kind, limit):
    """Past a number that fits; -1 where it is none, or not sure."""
    negative: cython.bint = p[at] == 45
    start: cython.Py_ssize_t = at + 1 if negative else at
    stop: cython.Py_ssize_t = _digits(p, start, end)
    whole: cython.Py_ssize_t = stop - start
    fraction: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    value: cython.longlong = 0
    if whole == 0 or (whole > 1 and p[start] == 48):
        return -1
    at = stop
    if at < end and p[at] == 46:
        if kind == _INT:
            return -1
        stop = _digits(p, at + 1, end)
        fraction = stop - at - 1
        if fraction == 0:
            return -1
        at = stop
    if at < end and (p[at] == 69 or p[at] == 101):
        if kind != _FLOAT or limit != 64:
            return -1
        at += 1
        if at < end and (p[at] == 43 or p[at] == 45):
            at += 1
        stop = _digits(p, at, end)
        if stop == at or stop - at > 2:
            return -1
        at = stop
    if kind == _FLOAT:
        return at if whole + fraction <= 30 else -1
    if kind == _DECIMAL:
        if p[start] == 48:
            whole = 0
        return at if whole <= limit >> 8 and fraction <= (limit & 255) else -1
    if whole > 18:
        return -1
    for i in range(start, start + whole):
        value = value * 10 + p[i] - 48
    if limit < 64 and value - (1 if negative else 0) >= cython.cast(cython.longlong, 1) << (limit - 1):
        return -1
    return at


def _two(p, at):
    """Two digits as a number; -1 where they are none."""
    if 48 <= p[at] <= 57 and 48 <= p[at + 1] <= 57:
        return (p[at] - 48) * 10 + p[at + 1] - 48
    return -1


def _date(p, at, end):
    """Past a date of the calendar, ten bytes; -1 where it is none."""
    century: cython.longlong
    year: cython.longlong
    month: cython.longlong
    day: cython.longlong
    most: cython.longlong = 31
    if end - at < 10 or p[at + 4] != 45 or p[at + 7] != 45:
        return -1
    century = _two(p, at)
    year = _two(p, at + 2)
    month = _two(p, at + 5)
    day = _two(p, at + 8)
    if century < 0 or year < 0 or century + year == 0 or month < 1 or month > 12 or day < 1:
        return -1
    year += century * 100
    if month == 2:
        most = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    elif month == 4 or month == 6 or month == 9 or month == 11:
        most = 30
    return at + 10 if day <= most else -1


def _timestamp(p, at, end, zoned):
    """Past a date and a time; -1 where they are none, or not sure."""
    hour: cython.longlong
    minute: cython.longlong
    second: cython.longlong
    stop: cython.Py_ssize_t
    at = _date(p, at, end)
    if at < 0 or end - at < 9 or (p[at] != 84 and p[at] != 32) or p[at + 3] != 58 or p[at + 6] != 58:
        return -1
    hour = _two(p, at + 1)
    minute = _two(p, at + 4)
    second = _two(p, at + 7)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return -1
    at += 9
    if at < end and p[at] == 46:
        stop = _digits(p, at + 1, end)
        if stop == at + 1 or stop - at > 7:
            return -1
        at = stop
    if zoned and at < end and p[at] == 90:
        at += 1
    elif zoned and end - at >= 6 and (p[at] == 43 or p[at] == 45) and p[at + 3] == 58:
        hour = _two(p, at + 1)
        minute = _two(p, at + 4)
        if hour < 0 or hour > 23 or minute < 0 or minute > 59:
            return -1
        at += 6
    return at


def _scalar(p, at, end, kind, limit):
    """Past a value that is neither object nor array nor null; -1 where it does not surely fit."""
    if kind == _INT or kind == _FLOAT or kind == _DECIMAL:
        return _number(p, at, end, kind, limit)
    if kind == _BOOL:
        if end - at >= 4 and p[at] == 116 and p[at + 1] == 114 and p[at + 2] == 117 and p[at + 3] == 101:
            return at + 4
        if end - at >= 5 and p[at] == 102 and p[at + 1] == 97 and p[at + 2] == 108 and p[at + 3] == 115:
            return at + 5 if p[at + 4] == 101 else -1
        return -1
    if p[at] != 34:
        return -1
    if kind == _STRING:
        return _string(p, at + 1, end)
    if kind == _DATE:
        at = _date(p, at + 1, end)
    elif kind == _TIMESTAMP:
        at = _timestamp(p, at + 1, end, limit)
    else:
        return -1
    return at + 1 if 0 <= at < end and p[at] == 34 else -1


def _null(p, at, end):
    """Past a null; -1 where there is none."""
    if end - at >= 4 and p[at] == 110 and p[at + 1] == 117 and p[at + 2] == 108 and p[at + 3] == 108:
        return at + 4
    return -1


def _child(p, start, stop, nodes, names, first, count, hint):
    """The child of a name, looked for from `hint` on; -1 where there is none."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    child: cython.Py_ssize_t
    at: cython.Py_ssize_t
    for i in range(count):
        child = hint + i
        if child >= count:
            child -= count
        child += first
        at = nodes[6 * child + 4]
        if nodes[6 * child + 5] - at != stop - start:
            continue
        j = start
        while j < stop and p[j] == names[at]:
            j += 1
            at += 1
        if j == stop:
            return child
    return -1


def _enter(scratch, depth, node, stamp):
    """Note that a struct or list begins: its node, its stamp, and where to look for its next name."""
    scratch[3 * depth] = node
    scratch[3 * depth + 1] = stamp
    scratch[3 * depth + 2] = 0


def _member(p, at, end, nodes, names, scratch, depth):
    """Past the name of a member and its colon, to its value; `scratch` then tells the child, counted from 1.

    -1 where it does not fit. If the name is unknown, its value must be null: the answer is then
    -2 - the position behind the null.
    """
    node: cython.Py_ssize_t = scratch[3 * depth]
    start: cython.Py_ssize_t = at + 1
    stop: cython.Py_ssize_t = start
    child: cython.Py_ssize_t
    if at >= end or p[at] != 34:
        return -1
    while stop < end and p[stop] != 34 and p[stop] != 92:
        stop += 1
    if stop >= end or p[stop] != 34:
        return -1
    at = _skip(p, stop + 1, end)
    if at >= end or p[at] != 58:
        return -1
    at = _skip(p, at + 1, end)
    child = _child(
        p, start, stop, nodes, names, nodes[6 * node + 1], nodes[6 * node + 2], scratch[3 * depth + 2]
    )
    if child < 0:
        at = -1 if _string(p, start, end) < 0 else _null(p, at, end)
        return -1 if at < 0 else -2 - at
    if scratch[3 * _DEPTH + child] == scratch[3 * depth + 1]:
        return -1
    scratch[3 * _DEPTH + child] = scratch[3 * depth + 1]
    scratch[3 * depth + 2] = child - nodes[6 * node + 1] + 1
    return at


def _value(p, at, end, nodes, names, scratch, stamp):
    """Whether a text is one object that surely fits; `stamp` is above all that `scratch` has seen."""
    depth: cython.Py_ssize_t = 0
    node: cython.Py_ssize_t = 0
    child: cython.Py_ssize_t
    kind: cython.longlong
    is_first: cython.bint = True
    closing: cython.uchar
    at = _skip(p, at, end)
    if at >= end or p[at] != 123:
        return 0
    at += 1
    _enter(scratch, 0, 0, stamp)
    while depth >= 0:
        node = scratch[3 * depth]
        closing = 125 if nodes[6 * node] == _STRUCT else 93
        at = _skip(p, at, end)
        if at >= end:
            return 0
        if p[at] == closing:
            at += 1
            depth -= 1
            is_first = False
            continue
        if not is_first:
            if p[at] != 44:
                return 0
            at = _skip(p, at + 1, end)
        is_first = False
        child = nodes[6 * node + 1]
        if closing == 125:
            at = _member(p, at, end, nodes, names, scratch, depth)
            if at == -1:
                return 0
            if at < 0:
                at = -2 - at
                continue
            child += scratch[3 * depth + 2] - 1
        if at >= end:
            return 0
        if p[at] == 110:
            at = _null(p, at, end)
            if at < 0:
                return 0
            continue
        kind = nodes[6 * child]
        if kind == _STRUCT or kind == _LIST:
            if p[at] != (123 if kind == _STRUCT else 91) or depth + 1 >= _DEPTH:
                return 0
            at += 1
            depth += 1
            stamp += 1
            _enter(scratch, depth, child, stamp)
            is_first = True
            continue
        at = _scalar(p, at, end, kind, nodes[6 * child + 3])
        if at < 0:
            return 0
    if _skip(p, at, end) != end:
        return 0
    return 1


def fit(
    data: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.longlong][::1],
    nodes: cython.const[cython.longlong][::1],
    names: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
    scratch: cython.longlong[::1],
) -> cython.Py_ssize_t:
    """Set out[i] to 1 where data[offsets[i]:offsets[i+1]] surely fits, else to 0; how many do.

    `scratch` has 3 * DEPTH numbers and one for each node, all 0. Neither `data` nor `names` is empty.
    """
    i: cython.Py_ssize_t
    rows: cython.Py_ssize_t = len(out)
    size: cython.Py_ssize_t = len(data)
    found: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = len(nodes) // 6
    stamp: cython.longlong = 1
    if len(offsets) != rows + 1 or size == 0 or len(names) == 0 or count == 0:
        raise ValueError("there is one offset more than rows, and nothing is empty")
    if len(scratch) < 3 * DEPTH + count:
        raise ValueError("the scratch is too small")
    for i in range(count):
        if nodes[6 * i] <= 1 and (nodes[6 * i + 1] <= i or nodes[6 * i + 1] + nodes[6 * i + 2] > count):
            raise ValueError("children lie behind their parents, within the table")
        if nodes[6 * i + 4] < 0 or nodes[6 * i + 4] > nodes[6 * i + 5] or nodes[6 * i + 5] > len(names):
            raise ValueError("names lie within their bytes")
    for i in range(rows):
        if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > size:
            raise ValueError("offsets do not fit the data")
    if cython.compiled:
        with cython.nogil:
            for i in range(rows):
                out[i] = _value(
                    cython.address(data[0]),
                    offsets[i],
                    offsets[i + 1],
                    cython.address(nodes[0]),
                    cython.address(names[0]),
                    cython.address(scratch[0]),
                    stamp,
                )
                found += out[i]
                stamp += offsets[i + 1] - offsets[i] + 1
    else:
        view, table, words = memoryview(data), memoryview(nodes), memoryview(names)
        for i in range(rows):
            begin, end = int(offsets[i]), int(offsets[i + 1])
            out[i] = _value(view, begin, end, table, words, scratch, stamp)
            found += int(out[i])
            stamp += end - begin + 1
    return found
