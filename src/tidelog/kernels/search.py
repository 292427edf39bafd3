# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Index entries in a mapped buffer: append, truncate, and the bounds search.

An entry is a key and a value, big-endian and signed; its size tells which of the two layouts it has:

    8 bytes   offset index   key i32 relative offset   value i32 position
    12 bytes  time index     key i64 timestamp         value i32 relative offset

The search (Kafka's, step for step, so that even entries out of order give Kafka's answer):

1. no entries: none;
2. the warm section is the last entry and the 8192 bytes of entries before it: where its first one is below
   the target, halve in there, so that what the newest readers ask for touches the same few pages;
3. the very first entry is above the target: none (lower bound) or slot 0 (upper bound);
4. halve in the rest.

Halving ends early at an equal entry. Without one, a lower bound is the slot found and an upper bound the next
slot; there is none behind the last. (An upper bound equal to the very first entry is missed: the answer is
the second. It is an upper bound still, and Kafka's.)

`Entries` methods hold the GIL: each takes tens of nanoseconds and is one step for every other thread, so that
readers see whole entries only, and never a buffer that was swapped for another meanwhile. Bulk work gets a
copy of the keys and runs without the GIL (`floor_many`). Uncompiled, a question is many steps: one thread.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.scan import i32
else:
    from tidelog.kernels.scan import i32

_LOW32 = cython.declare(cython.longlong, 0xFFFFFFFF)
_WARM_BYTES = cython.declare(cython.Py_ssize_t, 8192)
_LANES = cython.declare(cython.Py_ssize_t, 16)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _i32(p: cython.const[cython.uchar][::1], i: cython.Py_ssize_t) -> cython.longlong:
    if cython.compiled:
        return i32(cython.address(p[i]), 0)  # one load; four bytes by their index are four
    else:
        return i32(p, i)


@cython.cclass
class Entries:
    """The entries in `buffer`; the first `count` of its slots are in use.

    `room` says for how many more the disk has promised space; whoever has asked the disk sets it.
    """

    def __init__(
        self, buffer, entry_size: cython.Py_ssize_t, count: cython.Py_ssize_t, writable: cython.bint
    ):
        if entry_size != 8 and entry_size != 12:
            raise ValueError("an entry has 8 or 12 bytes")
        self._size = entry_size
        self.swap(buffer, count, writable)

    def swap(self, buffer, count: cython.Py_ssize_t, writable: cython.bint):
        """Look at another buffer from now on."""
        view = memoryview(buffer)
        size: cython.Py_ssize_t = view.nbytes
        if count < 0 or count > size // self._size:
            raise ValueError("more entries than the buffer has room for")
        self._read = view
        self._write = view if writable else None
        self._writable = writable
        self._capacity = size // self._size
        self._count = count
        self.room = 0

    @property
    def count(self):
        """How many slots are in use."""
        return self._count

    @property
    def capacity(self):
        """How many slots there are."""
        return self._capacity

    def truncate(self, count: cython.Py_ssize_t):
        """Forget the entries from slot `count` on."""
        if count < 0 or count > self._count:
            raise ValueError("cannot truncate to more entries than there are")
        self._count = count
        self.room = 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def fits(self, key: cython.longlong, value: cython.longlong, slots: cython.Py_ssize_t) -> cython.bint:
        """Whether there is room for `slots` entries and this one continues the last one."""
        if not self._writable or self.room < slots or self._capacity - self._count < slots:
            return False
        last: cython.Py_ssize_t = self._count - 1
        return last < 0 or (key > self._key(last) and value >= self._value(last))

    @cython.ccall
    @cython.exceptval(check=False)
    def append(self, key: cython.longlong, value: cython.longlong) -> cython.bint:
        """Store an entry in the next slot, then count it; False where there is no slot."""
        if not self._writable or self._count >= self._capacity:
            return False
        self._store(self._count, key, value)
        self._count += 1
        self.room -= 1
        return True

    def append_many(
        self, keys: cython.const[cython.longlong][::1], values: cython.const[cython.longlong][::1]
    ):
        """Store entries in the next slots; False, and nothing stored, where they do not fit."""
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = keys.shape[0]
        if values.shape[0] != n:
            raise ValueError("as many values as keys")
        if not self._writable or n > self._capacity - self._count:
            return False
        for i in range(n):
            self._store(self._count + i, keys[i], values[i])
        self._count += n
        self.room -= n
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _store(self, slot: cython.Py_ssize_t, key: cython.longlong, value: cython.longlong) -> cython.void:
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = self._size - 4
        p: cython.Py_ssize_t = slot * self._size
        for i in range(n):
            self._write[p + i] = cython.cast(cython.uchar, (key >> (8 * (n - 1 - i))) & 0xFF)
        for i in range(4):
            self._write[p + n + i] = cython.cast(cython.uchar, (value >> (8 * (3 - i))) & 0xFF)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _key(self, slot: cython.Py_ssize_t) -> cython.longlong:
        p: cython.Py_ssize_t = slot * self._size
        if self._size == 8:
            return _i32(self._read, p)
        return (_i32(self._read, p) << 32) | (_i32(self._read, p + 4) & _LOW32)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _value(self, slot: cython.Py_ssize_t) -> cython.longlong:
        return _i32(self._read, slot * self._size + self._size - 4)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _halve(
        self,
        target: cython.longlong,
        by_value: cython.bint,
        upper: cython.bint,
        lo: cython.Py_ssize_t,
        hi: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        mid: cython.Py_ssize_t
        found: cython.longlong
        while lo < hi:
            mid = (lo + hi + 1) >> 1
            found = self._value(mid) if by_value else self._key(mid)
            if found > target:
                hi = mid - 1
            elif found < target:
                lo = mid
            else:
                return mid
        if not upper:
            return lo
        return -1 if lo == self._count - 1 else lo + 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _search(
        self, target: cython.longlong, by_value: cython.bint, upper: cython.bint
    ) -> cython.Py_ssize_t:
        count: cython.Py_ssize_t = self._count
        warm: cython.Py_ssize_t = count - 1 - _WARM_BYTES // self._size
        if count == 0:
            return -1
        if warm < 0:
            warm = 0
        if (self._value(warm) if by_value else self._key(warm)) < target:
            return self._halve(target, by_value, upper, warm, count - 1)
        if (self._value(0) if by_value else self._key(0)) > target:
            return 0 if upper else -1
        return self._halve(target, by_value, upper, 0, warm)

    def entry(self, slot: cython.Py_ssize_t):
        """Key and value in a slot in use; None for any other."""
        if slot < 0 or slot >= self._count:
            return None
        return self._key(slot), self._value(slot)

    def last(self):
        """Key and value in the last slot in use; None where there is none."""
        return self.entry(self._count - 1)

    def floor(self, target: cython.longlong):
        """Key and value of the lower bound by key: the largest key <= target; None below the first."""
        return self.entry(self._search(target, False, False))

    def floor_slot(self, target: cython.longlong, by_value: cython.bint) -> cython.Py_ssize_t:
        """Slot of the lower bound by key or by value; -1 below the first."""
        return self._search(target, by_value, False)

    def ceiling_by_value(self, target: cython.longlong):
        """Key and value of the upper bound by value: the smallest value >= target; None behind the last."""
        return self.entry(self._search(target, True, True))

    def floor_each(
        self,
        targets: cython.const[cython.longlong][::1],
        keys: cython.longlong[::1],
        values: cython.longlong[::1],
        key_below: cython.longlong,
        value_below: cython.longlong,
    ):
        """`floor` of each target into the arrays; `key_below` and `value_below` where there is none."""
        i: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        if keys.shape[0] != targets.shape[0] or values.shape[0] != targets.shape[0]:
            raise ValueError("as many keys and values as targets")
        for i in range(targets.shape[0]):
            slot = self._search(targets[i], False, False)
            keys[i] = self._key(slot) if slot >= 0 else key_below
            values[i] = self._value(slot) if slot >= 0 else value_below

    def decode(self, keys: cython.longlong[::1], values: cython.longlong[::1]) -> cython.Py_ssize_t:
        """Fill the arrays from slot 0 on, as far as they and the entries go; how many that were."""
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = self._count
        if keys.shape[0] < n:
            n = keys.shape[0]
        if values.shape[0] < n:
            n = values.shape[0]
        for i in range(n):
            keys[i] = self._key(i)
            values[i] = self._value(i)
        return n


def floor_many(
    keys: cython.const[cython.longlong][::1],
    values: cython.const[cython.longlong][::1],
    targets: cython.const[cython.longlong][::1],
    found_keys: cython.longlong[::1],
    found_values: cython.longlong[::1],
    key_below: cython.longlong,
    value_below: cython.longlong,
):
    """For each target the largest key <= target and its value; `key_below` and `value_below` for none.

    The keys grow strictly. Sixteen targets are halved in step, without branches, to overlap memory accesses.
    """
    n: cython.Py_ssize_t = keys.shape[0]
    m: cython.Py_ssize_t = targets.shape[0]
    t: cython.Py_ssize_t = 0
    lane: cython.Py_ssize_t
    lanes: cython.Py_ssize_t
    length: cython.Py_ssize_t
    half: cython.Py_ssize_t
    slot: cython.longlong
    low: cython.longlong[16]
    if values.shape[0] != n or found_keys.shape[0] != m or found_values.shape[0] != m:
        raise ValueError("as many values as keys, and as many answers as targets")
    if not cython.compiled:
        low = [0] * 16
    with cython.nogil:
        while t < m:
            lanes = m - t if m - t < _LANES else _LANES
            for lane in range(lanes):
                low[lane] = 0
            length = n
            while length > 1:
                half = length >> 1
                for lane in range(lanes):
                    low[lane] += half * (keys[low[lane] + half] <= targets[t + lane])
                length -= half
            for lane in range(lanes):
                slot = low[lane]
                if n > 0 and keys[slot] <= targets[t + lane]:
                    found_keys[t + lane] = keys[slot]
                    found_values[t + lane] = values[slot]
                else:
                    found_keys[t + lane] = key_below
                    found_values[t + lane] = value_below
            t += lanes
