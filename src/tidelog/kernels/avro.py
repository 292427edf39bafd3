# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Avro datums into columns, by a compiled plan of the writer's schema.

The plan is a table of nodes, eight numbers each; node 0 is the whole value:

    0 kind      1 first child      2 count      3 out      4 valid      5 counter      6 more      7 least

    kind                 out, in which arena      count              more, least
    NULL                 nothing
    BOOLEAN              a byte, small
    INT, FLOAT           narrow
    LONG, DOUBLE         wide
    SCALED               wide: a long                                more: times this
    ENUM                 narrow                   symbols
    BYTES, STRING        ends, narrow                                more: the bytes, small
    FIXED                ends, narrow             their size         more: the bytes, small
    DECIMAL              little-endian, small     bytes of the type  more: limit in consts; least: size or -1
    RECORD                                        children
    ARRAY, MAP           ends, narrow             children (1, 2)    least: bytes of an item
    OPTION                                        branches           least: the branch that is null
    UNION                                         branches           least: the branch that is null, or -1
    SPAN                 ends, narrow             1                  more: the bytes as they are, small

`out` and `valid` are where a column begins in its arena; -1 where nothing is kept. A slot of a column is
numbered by the row, or for what is inside an array by its counter. Slots of nulls are filled.

How the bounds are kept:

1. A length is held against the end of the value before it is followed. An array may not have more items
   than the rest of the value can hold; items of no bytes are limited to 1,024 more than bytes are left.
2. `room` has the slots that each counter may count to. What needs more stops the call: the caller makes
   room, and comes again with that row.
3. The children of a node lie behind it, so a plan has an end. Nodes below a SPAN keep nothing and may form
   cycles; their depth is limited.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy, memset
    from cython.cimports.tidelog.kernels.jsonfit import _character
    from cython.cimports.tidelog.kernels.varints import Var, varint
else:
    from types import SimpleNamespace

    from tidelog.kernels.jsonfit import _character
    from tidelog.kernels.varints import varint

    Context = Var = SimpleNamespace
    _NULL, _BOOLEAN, _INT, _LONG, _SCALED, _FLOAT, _DOUBLE, _ENUM, _BYTES, _STRING = range(10)
    _FIXED, _DECIMAL, _RECORD, _ARRAY, _MAP, _OPTION, _UNION, _SPAN = range(10, 18)
    _BAD_VARINT, _ENDS_EARLY, _FULL, _BAD_BOOLEAN, _BAD_LENGTH, _BAD_BRANCH = 5, 6, 11, 20, 21, 22
    _BAD_SYMBOL, _BAD_TEXT, _TOO_MANY, _TOO_DEEP, _OUT_OF_RANGE, _LEFT_OVER = 23, 24, 25, 26, 27, 28

NULL, BOOLEAN, INT, LONG, SCALED, FLOAT, DOUBLE, ENUM, BYTES, STRING = range(10)
FIXED, DECIMAL, RECORD, ARRAY, MAP, OPTION, UNION, SPAN = range(10, 18)

BAD_VARINT, ENDS_EARLY, BAD_BOOLEAN, BAD_LENGTH, BAD_BRANCH = 5, 6, 20, 21, 22
BAD_SYMBOL, BAD_TEXT, TOO_MANY, TOO_DEEP, OUT_OF_RANGE, LEFT_OVER = 23, 24, 25, 26, 27, 28

WIDTH = 8
DEPTH = 400

_DEPTH = cython.declare(cython.Py_ssize_t, 400)
_SPARE = cython.declare(cython.Py_ssize_t, 1024)
_MAX_LONG = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


def _copy(c, to, at, n):
    """Copy bytes of the value into the small arena."""
    if cython.compiled:
        memcpy(c.small + to, c.p + at, n)
    else:
        c.small[to : to + n] = c.p[at : at + n]


def _clear(c, to, n):
    if cython.compiled:
        memset(c.small + to, 0, n)
    else:
        c.small[to : to + n] = bytes(n)


def _is_text(p, at, end):
    """Whether bytes are UTF-8."""
    seen: cython.uchar = 0
    i: cython.Py_ssize_t
    for i in range(at, end):
        seen |= p[i]
    if seen < 0x80:
        return True
    while at < end:
        if p[at] < 0x80:
            at += 1
            continue
        at = _character(p, at, end)
        if at < 0:
            return False
    return True


def _little(p, at, n):
    """Four or eight bytes as a signed number."""
    value: cython.ulonglong = 0
    i: cython.Py_ssize_t
    if not cython.compiled:
        return int.from_bytes(p[at : at + n], "little", signed=True)
    for i in range(n):
        value |= cython.cast(cython.ulonglong, p[at + i]) << (8 * i)
    if n == 4:
        return cython.cast(cython.int, value)
    return cython.cast(cython.longlong, value)


def _bytes(c, o, at, i):
    """A length and so many bytes; minus the fault."""
    v: Var = varint(c.p, at, c.end, 63)
    if v.pos < 0:
        return v.pos
    at = v.pos
    if v.value < 0:
        return -_BAD_LENGTH
    if v.value > c.end - at:
        return -_ENDS_EARLY
    if c.nodes[o] == _STRING and not _is_text(c.p, at, at + v.value):
        return -_BAD_TEXT
    return at + v.value if c.nodes[o + 3] < 0 else _keep(c, o, at, v.value, i)


def _keep(c, o, at, n, i):
    """Bytes into a column; where they end, or minus the fault."""
    d: cython.longlong = c.nodes[o + 5]
    k: cython.longlong = c.counters[d]
    if n > c.room[d] - k:
        c.full = d
        c.need = k + n
        return -_FULL
    _copy(c, c.nodes[o + 6] + k, at, n)
    c.counters[d] = k + n
    c.narrow[c.nodes[o + 3] + i + 1] = k + n
    return at + n


def _decimal(c, o, at, i):
    """A big-endian number within the limit, little-endian into its column; minus the fault."""
    n: cython.longlong = c.nodes[o + 7]
    width: cython.longlong = c.nodes[o + 2]
    out: cython.longlong = c.nodes[o + 3]
    limit: cython.longlong = c.nodes[o + 6]
    v: Var
    j: cython.longlong
    b: cython.int
    sign: cython.int = 0
    carry: cython.int
    above: cython.bint = False
    if n < 0:
        v = varint(c.p, at, c.end, 63)
        if v.pos < 0:
            return v.pos
        at = v.pos
        n = v.value
        if n < 0:
            return -_BAD_LENGTH
    if n > c.end - at:
        return -_ENDS_EARLY
    if out < 0:
        return at + n
    if n > 0 and c.p[at] >= 0x80:
        sign = 0xFF
    for j in range(n - width):
        if c.p[at + j] != sign:
            return -_OUT_OF_RANGE
    carry = sign & 1
    for j in range(width):
        b = c.p[at + n - 1 - j] if j < n else sign
        c.small[out + i * width + j] = b
        b = (b ^ sign) + carry
        carry = b >> 8
        b &= 0xFF
        if b != c.consts[limit + j]:
            above = b > c.consts[limit + j]
    if above or carry != 0 or (n > width and (c.small[out + i * width + width - 1] ^ sign) >= 0x80):
        return -_OUT_OF_RANGE
    return at + n


def _items(c, o, at, i):
    """The blocks of an array or map; minus the fault."""
    first: cython.longlong = c.nodes[o + 1]
    children: cython.longlong = c.nodes[o + 2]
    out: cython.longlong = c.nodes[o + 3]
    d: cython.longlong = c.nodes[o + 5]
    least: cython.longlong = c.nodes[o + 7]
    count: cython.longlong
    k: cython.longlong = 0
    v: Var
    while True:
        v = varint(c.p, at, c.end, 63)
        if v.pos < 0:
            return v.pos
        at = v.pos
        count = v.value
        if count == 0:
            break
        if count < 0:
            if count < -_MAX_LONG:
                return -_BAD_LENGTH
            count = -count
            v = varint(c.p, at, c.end, 63)
            if v.pos < 0:
                return v.pos
            at = v.pos
            if v.value < 0 or v.value > c.end - at:
                return -_BAD_LENGTH
        if least > 0 and count > (c.end - at) // least:
            return -_ENDS_EARLY
        if least == 0:
            c.spare -= count
            if c.spare < 0:
                return -_TOO_MANY
        while count > 0:
            count -= 1
            if out >= 0:
                k = c.counters[d]
                if k >= c.room[d]:
                    c.full = d
                    c.need = k + 1
                    return -_FULL
            at = _decode(c, first, at, k)
            if at >= 0 and children == 2:
                at = _decode(c, first + 1, at, k)
            if at < 0:
                return at
            if out >= 0:
                c.counters[d] = k + 1
    if out >= 0:
        c.narrow[out + i + 1] = c.counters[d]
    return at


def _branch(c, o, at, i):
    """A union: its branch, and what is in it; minus the fault."""
    first: cython.longlong = c.nodes[o + 1]
    null: cython.longlong = c.nodes[o + 7]
    chosen: cython.longlong
    j: cython.longlong
    v: Var = varint(c.p, at, c.end, 63)
    if v.pos < 0:
        return v.pos
    chosen = v.value
    if chosen < 0 or chosen >= c.nodes[o + 2]:
        return -_BAD_BRANCH
    if chosen == null:
        _null(c, o // 8, i)
        return v.pos
    if null >= 0 and chosen > null:
        chosen -= 1
    if c.nodes[o] == _UNION:
        for j in range(c.nodes[o + 2] - (null >= 0)):
            if j != chosen:
                _null(c, first + j, i)
    return _decode(c, first + chosen, v.pos, i)


def _scalar(c, o, at, i):
    """A number or a truth value; minus the fault."""
    kind: cython.longlong = c.nodes[o]
    out: cython.longlong = c.nodes[o + 3]
    more: cython.longlong = c.nodes[o + 6]
    n: cython.longlong
    v: Var
    if kind == _BOOLEAN:
        if at >= c.end:
            return -_ENDS_EARLY
        if c.p[at] > 1:
            return -_BAD_BOOLEAN
        if out >= 0:
            c.small[out + i] = c.p[at]
        return at + 1
    if kind == _FLOAT or kind == _DOUBLE:
        n = 4 if kind == _FLOAT else 8
        if n > c.end - at:
            return -_ENDS_EARLY
        if out >= 0:
            if kind == _FLOAT:
                c.narrow[out + i] = _little(c.p, at, 4)
            else:
                c.wide[out + i] = _little(c.p, at, 8)
        return at + n
    v = varint(c.p, at, c.end, 63)
    if v.pos < 0:
        return v.pos
    n = v.value
    if kind == _LONG:
        if out >= 0:
            c.wide[out + i] = n
    elif kind == _SCALED:
        if out >= 0:
            if n > _MAX_LONG // more or n < -(_MAX_LONG // more):
                return -_OUT_OF_RANGE
            c.wide[out + i] = n * more
    elif kind == _INT:
        if n > 0x7FFFFFFF or n < -0x80000000:
            return -_OUT_OF_RANGE
        if out >= 0:
            c.narrow[out + i] = n
    else:
        if n < 0 or n >= c.nodes[o + 2]:
            return -_BAD_SYMBOL
        if out >= 0:
            c.narrow[out + i] = n
    return v.pos


def _decode(c, node, at, i):
    """A value of a node at `at` into slot `i`; where it ends, or minus the fault."""
    o: cython.longlong = 8 * node
    kind: cython.longlong = c.nodes[o]
    out: cython.longlong = c.nodes[o + 3]
    j: cython.longlong
    end: cython.Py_ssize_t
    if c.nodes[o + 4] >= 0:
        c.small[c.nodes[o + 4] + i] = 1
    if kind <= _ENUM:
        return at if kind == _NULL else _scalar(c, o, at, i)
    if kind <= _STRING:
        return _bytes(c, o, at, i)
    if kind == _FIXED:
        if c.nodes[o + 2] > c.end - at:
            return -_ENDS_EARLY
        return at + c.nodes[o + 2] if out < 0 else _keep(c, o, at, c.nodes[o + 2], i)
    if kind == _DECIMAL:
        return _decimal(c, o, at, i)
    if c.depth >= _DEPTH:
        return -_TOO_DEEP
    c.depth += 1
    if kind == _RECORD:
        for j in range(c.nodes[o + 2]):
            at = _decode(c, c.nodes[o + 1] + j, at, i)
            if at < 0:
                return at
    elif kind == _ARRAY or kind == _MAP:
        at = _items(c, o, at, i)
    elif kind == _SPAN:
        end = _decode(c, c.nodes[o + 1], at, 0)
        at = end if end < 0 or out < 0 else _keep(c, o, at, end - at, i)
    else:
        at = _branch(c, o, at, i)
    c.depth -= 1
    return at


def _null(c, node, i):
    """Fill slot `i` of a node, and mark it as null where it can be."""
    o: cython.longlong = 8 * node
    kind: cython.longlong = c.nodes[o]
    out: cython.longlong = c.nodes[o + 3]
    j: cython.longlong
    if c.nodes[o + 4] >= 0:
        c.small[c.nodes[o + 4] + i] = 0
    if kind == _RECORD or kind == _UNION or kind == _OPTION:
        if c.nodes[o + 6] < 0:  # below a SPAN nothing is filled
            return
        for j in range(c.nodes[o + 2] - (kind != _RECORD and c.nodes[o + 7] >= 0)):
            _null(c, c.nodes[o + 1] + j, i)
    elif out < 0 or kind == _NULL:
        return
    elif kind == _BOOLEAN:
        c.small[out + i] = 0
    elif kind == _INT or kind == _FLOAT or kind == _ENUM:
        c.narrow[out + i] = 0
    elif kind == _LONG or kind == _SCALED or kind == _DOUBLE:
        c.wide[out + i] = 0
    elif kind == _DECIMAL:
        _clear(c, out + i * c.nodes[o + 2], c.nodes[o + 2])
    else:
        c.narrow[out + i + 1] = c.counters[c.nodes[o + 5]]


def _run(c, starts, ends, faults, kept, size, row, rows):
    """Decode rows from `row` on; the row that found no room, or `rows`."""
    at: cython.Py_ssize_t
    j: cython.Py_ssize_t
    while row < rows:
        if faults[row] == 0:
            for j in range(size):
                kept[j] = c.counters[j]
            c.end = ends[row]
            c.depth = 0
            c.spare = _SPARE + c.end - starts[row]
            at = _decode(c, 0, starts[row], row)
            if at != c.end:
                for j in range(size):
                    c.counters[j] = kept[j]
                if at == -_FULL:
                    return row
                faults[row] = -at if at < 0 else _LEFT_OVER
        if faults[row] != 0:
            _null(c, 0, row)
        row += 1
    return row


def decode(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    ends: cython.const[cython.longlong][::1],
    faults: cython.int[::1],
    nodes: cython.const[cython.longlong][::1],
    consts: cython.const[cython.uchar][::1],
    arenas: tuple,
    counters: cython.longlong[::1],
    room: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
) -> tuple:
    """Decode data[starts[i]:ends[i]] for each i from `row` on where faults[i] is 0; the others are null.

    Sets faults[i]. Answers the row that found no room, the counter that was full, and what it needs; `rows`,
    -1 and 0 at the end. `arenas` are wide, narrow and small: int64, int32 and bytes. The plan is trusted; its
    columns lie within the arenas.
    """
    wide: cython.longlong[::1]
    narrow: cython.int[::1]
    small: cython.uchar[::1]
    wide, narrow, small = arenas
    rows: cython.Py_ssize_t = len(faults)
    size: cython.Py_ssize_t = len(counters)
    i: cython.Py_ssize_t
    c: Context
    if len(starts) != rows or len(ends) != rows or len(room) != size or size == 0 or row < 0:
        raise ValueError("there is a start and an end for each row, and room for each counter")
    if len(data) == 0 or len(nodes) < 8 or not (len(wide) and len(narrow) and len(small) and len(consts)):
        raise ValueError("nothing is empty")
    for i in range(row, rows):
        if faults[i] == 0 and (starts[i] < 0 or starts[i] > ends[i] or ends[i] > len(data)):
            raise ValueError("rows lie within the data")
    if cython.compiled:
        kept: cython.longlong[::1] = counters.copy()
        c.p = cython.address(data[0])
        c.nodes = cython.address(nodes[0])
        c.consts = cython.address(consts[0])
        c.wide = cython.address(wide[0])
        c.narrow = cython.address(narrow[0])
        c.small = cython.address(small[0])
        c.counters = cython.address(counters[0])
        c.room = cython.address(room[0])
        c.full = -1
        c.need = 0
        if rows == 0:
            return row, -1, 0
        with cython.nogil:
            row = _run(
                cython.address(c),
                cython.address(starts[0]),
                cython.address(ends[0]),
                cython.address(faults[0]),
                cython.address(kept[0]),
                size,
                row,
                rows,
            )
    else:
        c = Context(p=memoryview(data), nodes=nodes.tolist(), consts=consts.tolist(), full=-1, need=0)
        c.wide, c.narrow, c.small = memoryview(wide), memoryview(narrow), memoryview(small)
        c.counters, c.room = memoryview(counters), room.tolist()
        begin, end = starts.tolist(), ends.tolist()
        row = _run(c, begin, end, memoryview(faults), [0] * size, size, row, rows)
    if row == rows:
        return row, -1, 0
    return row, int(c.full), int(c.need)
