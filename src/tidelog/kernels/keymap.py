# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The last offset of every key, in memory of a fixed size: a hash table with open addressing.

A slot is 24 bytes, three numbers: 0 hash (low 64 bits), 1 hash (high 64 bits), 2 offset + 1, or 0 for an
empty slot. Keys themselves are not kept: two keys with one hash would be taken for one, and the older one's
record lost. A hash has 128 bits and a secret key:

    up to 15 bytes   the key itself and its length, mixed in three rounds that could be undone (a Feistel
                     network of multiplications): no two keys have one hash. The secret keeps anyone from
                     choosing keys that all have one home slot
    longer           SipHash-2-4: without the secret nobody can make two keys meet, and by chance it does not
                     happen (2^64 keys for even odds)

A key's home slot follows from the low half of its hash; from there the slots are tried one after the other.
At least one slot stays empty, so that each search ends.

Only the first `slots` of the memory are in use, twice as many as there are entries while there is room for
that: few keys stay in the processor's cache, however large the memory is. `grow` takes more into use. The
home slots of keys keep their order then, so that entries are put back from front to back.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.kernels.arithmetic import fold
    from cython.cimports.tidelog.kernels.prefetching import prefetch
else:
    from types import SimpleNamespace

    Hash = Sip = SimpleNamespace

    def fold(a: int, b: int) -> int:
        """The two halves of a product of 128 bits, one laid upon the other."""
        product = a * b
        return (product ^ product >> 64) & 0xFFFFFFFFFFFFFFFF


_Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])

_A = cython.declare(cython.ulonglong, 0x736F6D6570736575)  # SipHash's constants
_B = cython.declare(cython.ulonglong, 0x646F72616E646F6D)
_C = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_D = cython.declare(cython.ulonglong, 0x7465646279746573)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _u64(n: cython.ulonglong) -> cython.ulonglong:
    """n as 64 bits: what C does by itself."""
    if cython.compiled:
        return n
    else:
        return n & 0xFFFFFFFFFFFFFFFF


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _signed(n: cython.ulonglong) -> cython.longlong:
    if cython.compiled:
        return cython.cast(cython.longlong, n)
    else:
        return n - (1 << 64) if n >> 63 else n


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _rotate(n: cython.ulonglong, by: cython.int) -> cython.ulonglong:
    return _u64(n << by) | (n >> (64 - by))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _round(s: Sip) -> Sip:
    s.a = _u64(s.a + s.b)
    s.c = _u64(s.c + s.d)
    s.b = _rotate(s.b, 13) ^ s.a
    s.d = _rotate(s.d, 16) ^ s.c
    s.a = _rotate(s.a, 32)
    s.c = _u64(s.c + s.b)
    s.a = _u64(s.a + s.d)
    s.b = _rotate(s.b, 17) ^ s.c
    s.d = _rotate(s.d, 21) ^ s.a
    s.c = _rotate(s.c, 32)
    return s


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _mixed(s: Sip, word: cython.ulonglong) -> Sip:
    s.d ^= word
    s = _round(_round(s))
    s.a ^= word
    return s


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word(p: _Bytes, pos: cython.Py_ssize_t, n: cython.Py_ssize_t) -> cython.ulonglong:
    """The n <= 8 bytes at p[pos] as a little-endian number."""
    word: cython.ulonglong = 0
    start: cython.uint = 0
    end: cython.uint = 0
    if not cython.compiled:
        return int.from_bytes(p[pos : pos + n], "little")
    if n == 8:
        memcpy(cython.address(word), p + pos, 8)
        return word
    if n >= 4:  # two halves that overlap
        memcpy(cython.address(start), p + pos, 4)
        memcpy(cython.address(end), p + pos + n - 4, 4)
        return start | cython.cast(cython.ulonglong, end) << (8 * (n - 4))
    while n > 0:
        n -= 1
        word = word << 8 | p[pos + n]
    return word


@cython.final
@cython.cclass
class KeyMap:
    """Offsets by the hashes of their keys. `table` has three columns; it is all there is but for `size`."""

    def __cinit__(
        self, table: cython.longlong[:, ::1], key_low: cython.ulonglong, key_high: cython.ulonglong
    ):
        """Take over `table`, which is all zeros."""
        if table.shape[0] < 2 or table.shape[1] != 3:
            raise ValueError("a map has at least two slots, of three numbers each")
        self.table = table
        self.capacity = self.slots = table.shape[0]
        self.a = key_low ^ _A
        self.b = key_high ^ _B ^ 0xEE
        self.c = key_low ^ _C
        self.d = key_high ^ _D
        self.size = 0
        self._draw_rounds()
        if cython.compiled:
            self.data = cython.address(table[0, 0])
        else:
            self.data = memoryview(table).cast("B").cast("q")

    if not cython.compiled:
        __init__ = __cinit__

    def _draw_rounds(self):
        """The numbers that short keys are mixed with, out of the secret."""
        i: cython.int
        h: Hash
        if not cython.compiled:
            self.rounds = [0] * 6
        for i in range(3):
            h = self._siphash(_start(b"\0\1\2"), i, 1)
            self.rounds[2 * i] = h.low
            self.rounds[2 * i + 1] = h.high | 1

    def hash_of(self, p, pos, n):
        """128 bits for the key p[pos:pos+n]."""
        h: Hash
        if n > 15:
            return self._siphash(p, pos, n)
        if cython.compiled:
            pass
        else:
            h = Hash()
        h.low = _word(p, pos, n if n < 8 else 8)
        h.high = cython.cast(cython.ulonglong, n) << 56
        if n > 8:
            h.high |= _word(p, pos + 8, n - 8)
        h.low ^= fold(h.high ^ self.rounds[0], self.rounds[1])
        h.high ^= fold(h.low ^ self.rounds[2], self.rounds[3])
        h.low ^= fold(h.high ^ self.rounds[4], self.rounds[5])
        return h

    def _siphash(self, p, pos, n):
        """SipHash-2-4, 128 bits, of p[pos:pos+n]."""
        h: Hash
        s: Sip
        end: cython.Py_ssize_t = pos + (n & ~7)
        word: cython.ulonglong
        if cython.compiled:
            pass
        else:
            h, s = Hash(), Sip()
        s.a, s.b, s.c, s.d = self.a, self.b, self.c, self.d
        while pos < end:
            s = _mixed(s, _word(p, pos, 8))
            pos += 8
        word = _u64(cython.cast(cython.ulonglong, n) << 56)
        if n & 7:
            word |= _word(p, pos, n & 7)
        s = _mixed(s, word)
        s.c ^= 0xEE
        s = _round(_round(_round(_round(s))))
        h.low = s.a ^ s.b ^ s.c ^ s.d
        s.b ^= 0xDD
        s = _round(_round(_round(_round(s))))
        h.high = s.a ^ s.b ^ s.c ^ s.d
        return h

    def _home(self, low):
        """The first slot to try: as many 2^32ths of all slots as the upper half of `low` says."""
        return ((_u64(low) >> 32) * cython.cast(cython.ulonglong, self.slots)) >> 32

    def _slot(self, low, high):
        """The slot of the hash of these halves, or the empty one where it would go."""
        slot: cython.Py_ssize_t = self._home(low)
        while self.data[3 * slot + 2] != 0:
            if self.data[3 * slot] == low and self.data[3 * slot + 1] == high:
                break
            slot += 1
            if slot == self.slots:
                slot = 0
        return slot

    def expect(self, h):
        """Have the processor bring the slot of this hash."""
        if cython.compiled:
            at: cython.Py_ssize_t = 3 * self._home(_signed(h.low))
            prefetch(self.data + at)
            prefetch(self.data + at + 2)  # the other end: slots do not keep to cache lines

    def has_room(self, entries):
        """Whether so many more entries keep within the slots in use, or those cannot become more."""
        return self.slots == self.capacity or entries <= self.slots // 2 - self.size

    def find(self, h):
        """The offset of this hash, or -1."""
        return self.data[3 * self._slot(_signed(h.low), _signed(h.high)) + 2] - 1

    def put(self, h, offset):
        """Note the offset of this hash, unless there is a later one; the caller sees that there is room."""
        self._put(_signed(h.low), _signed(h.high), offset)

    def _put(self, low, high, offset):
        slot: cython.Py_ssize_t = self._slot(low, high)
        if self.data[3 * slot + 2] == 0:
            self.data[3 * slot] = low
            self.data[3 * slot + 1] = high
            self.data[3 * slot + 2] = offset + 1
            self.size += 1
        elif self.data[3 * slot + 2] <= offset:
            self.data[3 * slot + 2] = offset + 1

    def siphash(self, data: cython.const[cython.uchar][::1]) -> bytes:
        """SipHash-2-4 of any bytes with this map's secret, 16 bytes."""
        return _bytes(self._siphash(_start(data), 0, len(data)))

    def digest(self, key: cython.const[cython.uchar][::1]) -> bytes:
        """The hash of a key, 16 bytes."""
        return _bytes(self.hash_of(_start(key), 0, len(key)))

    def find_key(self, key: cython.const[cython.uchar][::1]) -> cython.longlong:
        """The offset of one key, or -1."""
        return self.find(self.hash_of(_start(key), 0, len(key)))

    def put_key(self, key: cython.const[cython.uchar][::1], offset: cython.longlong) -> None:
        """Note the offset of one key."""
        h: Hash = self.hash_of(_start(key), 0, len(key))
        if offset < 0 or (self.size >= self.slots - 1 and self.find(h) < 0):
            raise ValueError("a negative offset, or no slot left")
        self.put(h, offset)

    def clear(self) -> None:
        """Forget all entries."""
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = 3 * self.slots
        if self.size:
            with cython.nogil:
                for i in range(n):
                    self.data[i] = 0
        self.size = 0

    def resize(self, slots: cython.Py_ssize_t) -> None:
        """Take another number of slots into use, while there are no entries."""
        if self.size != 0 or slots < 2 or slots > self.capacity:
            raise ValueError("there are entries, or no such slots")
        self.slots = slots

    def grow(self, slots: cython.Py_ssize_t, kept: cython.longlong[:, ::1]) -> None:
        """Take more slots into use. `kept` is memory for the entries that there are, and one more."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = 0
        if kept.shape[0] <= self.size or kept.shape[1] != 3 or not self.slots <= slots <= self.capacity:
            raise ValueError("too little memory for the entries, or no such slots")
        with cython.nogil:
            for i in range(self.slots):
                for k in range(3):
                    kept[n, k] = self.data[3 * i + k]
                    self.data[3 * i + k] = 0
                if kept[n, 2] != 0:
                    n += 1
            self.slots = slots
            self.size = 0
            for i in range(n):
                self._put_row(kept, i)

    def _has(self, table, i):
        """Whether there is an entry of the hash in this row of a table."""
        low: cython.longlong = cython.cast(cython.longlong, table[i, 0])
        high: cython.longlong = cython.cast(cython.longlong, table[i, 1])
        return self.data[3 * self._slot(low, high) + 2] != 0

    def _put_row(self, table, i):
        """Note the entry in this row of a table."""
        low: cython.longlong = cython.cast(cython.longlong, table[i, 0])
        high: cython.longlong = cython.cast(cython.longlong, table[i, 1])
        self._put(low, high, cython.cast(cython.longlong, table[i, 2]) - 1)

    def add_all(
        self, table: cython.const[cython.longlong][:, ::1], limit: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Take over the entries of another table with the same key, later offsets winning.

        Stops before there are more than `limit`; answers the first slot that was not taken over.
        """
        i: cython.Py_ssize_t = 0
        n: cython.Py_ssize_t = table.shape[0]
        if table.shape[1] != 3 or limit >= self.capacity or not self.has_room(n):
            raise ValueError("a map has three columns, and needs more slots")
        with cython.nogil:
            while i < n:
                if table[i, 2] != 0:
                    if self.size >= limit and not self._has(table, i):
                        break
                    self._put_row(table, i)
                i += 1
        return i


def _bytes(h: Hash) -> bytes:
    return int(h.low).to_bytes(8, "little") + int(h.high).to_bytes(8, "little")


@cython.cfunc
def _start(key: cython.const[cython.uchar][::1]) -> _Bytes:
    """Where the bytes are; those of an empty key are never looked at."""
    if cython.compiled:
        return cython.address(key[0]) if len(key) else cython.NULL
    else:
        return memoryview(key).cast("B")
