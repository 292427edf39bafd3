# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Numbers and bytes as text, for kernels that write lines.

    put_word        a literal                                     as long as it is
    put_int         decimal                                       20 bytes at most
    put_base64      RFC 4648, with padding                        4 for each 3 bytes begun
    put_json_text   UTF-8 inside a JSON string                    6 for each byte at most
    put_visible     any bytes, readable and harmless on one line  4 for each byte at most

Each writes from out[at] on and answers where it ended; the caller has made the room.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy, strlen
else:
    _pairs = bytearray(8192)
    _digits = bytearray(200)

_BACKSLASH = cython.declare(cython.uchar, 92)
_QUOTE = cython.declare(cython.uchar, 34)
_PAD = cython.declare(cython.uchar, 61)


def _fill():
    """Base64 of every 12 bits, and every number of two digits: half the look-ups of one at a time."""
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for i in range(4096):
        _pairs[2 * i] = alphabet[i >> 6]
        _pairs[2 * i + 1] = alphabet[i & 63]
    for i in range(100):
        _digits[2 * i] = 48 + i // 10
        _digits[2 * i + 1] = 48 + i % 10


_fill()


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _two(
    out: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
) -> cython.void:
    """The pair `i` of a table to out[at:at+2]."""
    if cython.compiled:
        memcpy(out + at, p + 2 * i, 2)
    else:
        out[at : at + 2] = p[2 * i : 2 * i + 2]


def put_word(out, at, word):
    """A literal, which ends with its first zero byte."""
    if cython.compiled:
        n: cython.Py_ssize_t = strlen(word)
        memcpy(out + at, word, n)
        return at + n
    else:
        out[at : at + len(word)] = word
        return at + len(word)


def _eight_digits(out, at, value):
    """A number below 10^8 in eight digits."""
    high: cython.uint = value // 10000
    low: cython.uint = value % 10000
    _two(out, at, _digits, high // 100)
    _two(out, at + 2, _digits, high % 100)
    _two(out, at + 4, _digits, low // 100)
    _two(out, at + 6, _digits, low % 100)
    return at + 8


def _few_digits(out, at, value):
    """A number below 10^8 in as many digits as it has."""
    n: cython.int = 1
    end: cython.Py_ssize_t
    n += (value >= 10) + (value >= 100) + (value >= 1000) + (value >= 10000)
    n += (value >= 100000) + (value >= 1000000) + (value >= 10000000)
    end = at + n
    at = end
    while n >= 2:
        at -= 2
        n -= 2
        _two(out, at, _digits, value % 100)
        value = value // 100
    if n:
        out[at - 1] = 48 + value
    return end


def put_int(out, at, value):
    """A signed 64-bit number in decimal."""
    rest: cython.ulonglong
    high: cython.ulonglong
    if value < 0:
        out[at] = 45
        at += 1
        rest = cython.cast(cython.ulonglong, -(value + 1)) + 1
    else:
        rest = cython.cast(cython.ulonglong, value)
    high = rest // 100000000
    if high == 0:
        return _few_digits(out, at, cython.cast(cython.uint, rest))
    if high < 100000000:
        at = _few_digits(out, at, cython.cast(cython.uint, high))
    else:
        at = _few_digits(out, at, cython.cast(cython.uint, high // 100000000))
        at = _eight_digits(out, at, cython.cast(cython.uint, high % 100000000))
    return _eight_digits(out, at, cython.cast(cython.uint, rest % 100000000))


def put_base64(out, at, p, pos, n):
    """p[pos:pos+n] in base64, 12 bits at a time."""
    bits: cython.uint
    end: cython.Py_ssize_t = pos + n - n % 3
    while pos < end:
        bits = (p[pos] << 16) | (p[pos + 1] << 8) | p[pos + 2]
        _two(out, at, _pairs, bits >> 12)
        _two(out, at + 2, _pairs, bits & 0xFFF)
        pos += 3
        at += 4
    if n % 3 == 0:
        return at
    bits = p[pos] << 16
    if n % 3 == 2:
        bits |= p[pos + 1] << 8
    _two(out, at, _pairs, bits >> 12)
    out[at + 2] = _pairs[2 * (bits & 0xFFF)] if n % 3 == 2 else _PAD
    out[at + 3] = _PAD
    return at + 4


def _hex(out, at, byte):
    """A byte as two hexadecimal digits."""
    high: cython.uchar = byte >> 4
    low: cython.uchar = byte & 15
    out[at] = high + (48 if high < 10 else 87)
    out[at + 1] = low + (48 if low < 10 else 87)
    return at + 2


def put_json_text(out, at, p, pos, n):
    """p[pos:pos+n], which is UTF-8, within a JSON string: quotes, backslashes, control characters escaped."""
    i: cython.Py_ssize_t
    byte: cython.uchar
    for i in range(pos, pos + n):
        byte = p[i]
        if byte < 32:
            out[at] = _BACKSLASH
            out[at + 1] = 117
            out[at + 2] = 48
            out[at + 3] = 48
            at = _hex(out, at + 4, byte)
            continue
        if byte == _QUOTE or byte == _BACKSLASH:
            out[at] = _BACKSLASH
            at += 1
        out[at] = byte
        at += 1
    return at


def _printable(p, pos, end):
    """Length of the well-formed, harmless UTF-8 sequence at p[pos]; 0 if there is none.

    Shortest form only, no surrogates, nothing above U+10FFFF, no control characters (C1 included).
    """
    a: cython.uchar = p[pos]
    b: cython.uchar
    n: cython.int
    k: cython.int
    if a < 0x80:
        return 32 <= a < 127
    n = 2 if a < 0xE0 else 3 if a < 0xF0 else 4
    if a < 0xC2 or a > 0xF4 or end - pos < n:
        return 0
    for k in range(1, n):
        if p[pos + k] & 0xC0 != 0x80:
            return 0
    b = p[pos + 1]
    if (a == 0xC2 and b < 0xA0) or (a == 0xE0 and b < 0xA0) or (a == 0xED and b > 0x9F):
        return 0
    if (a == 0xF0 and b < 0x90) or (a == 0xF4 and b > 0x8F):
        return 0
    return n


def put_visible(out, at, p, pos, n):
    """p[pos:pos+n] as text on one line: what is not printable UTF-8 comes out as \\n, \\r, \\t or \\xNN."""
    end: cython.Py_ssize_t = pos + n
    size: cython.int
    k: cython.int
    byte: cython.uchar
    while pos < end:
        if 32 <= p[pos] < 127:  # most text is
            out[at] = p[pos]
            at += 1
            pos += 1
            continue
        size = _printable(p, pos, end)
        if size:
            for k in range(size):
                out[at + k] = p[pos + k]
            at += size
            pos += size
            continue
        byte = p[pos]
        pos += 1
        out[at] = _BACKSLASH
        at += 2
        if byte == 9:
            out[at - 1] = 116
        elif byte == 10:
            out[at - 1] = 110
        elif byte == 13:
            out[at - 1] = 114
        else:
            out[at - 1] = 120
            at = _hex(out, at, byte)
    return at
