"""Checksums: the libraries' and the tables' answers, whatever the length and wherever the bytes lie."""

from __future__ import annotations

import ctypes
import mmap
import random
import zlib

import google_crc32c
import numpy as np
import pytest

from tests.kernels_twin import TWINS, twin
from tidelog.kernels import crc as compiled
from tidelog.records.checksums import HARDWARE, crc32, crc32c

_BYTES = random.Random(5).randbytes(9_000)
_LENGTHS = (*range(70), 255, 256, 1_023, 1_024, 3_071, 3_072, 8_191)


@pytest.mark.parametrize("start", [0, 1, 7, 8, 63])
def test_every_length_at_any_alignment(start: int) -> None:
    view = memoryview(_BYTES)
    for n in _LENGTHS:
        data = view[start : start + n]
        assert crc32c(data) == google_crc32c.value(bytes(data)), n
        assert crc32(data) == zlib.crc32(data), n
        assert crc32c(view[: start + n], start) == crc32c(data), n


@pytest.mark.parametrize("which", TWINS)
def test_checksums_of_pieces_make_that_of_the_whole(which: str) -> None:
    kernel = compiled if which == "compiled" else twin("crc")
    for cut in (0, 1, 7, 8, 9, 100, 2_999, 3_000):
        head, tail = _BYTES[:cut], _BYTES[cut:3_000]
        assert kernel.extend_crc32c(google_crc32c.value(head), tail) == google_crc32c.value(_BYTES[:3_000])


@pytest.mark.skipif(not HARDWARE, reason="no library has the processor's instructions")
def test_nothing_is_read_after_the_bytes() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    array = np.frombuffer(memory, np.uint8)
    address = array.ctypes.data + mmap.PAGESIZE
    page = ctypes.c_size_t(mmap.PAGESIZE)
    assert libc.mprotect(ctypes.c_void_p(address), page, 0) == 0  # whoever touches it is killed
    for n in range(1, 70):
        data = array[mmap.PAGESIZE - n : mmap.PAGESIZE].data
        assert crc32c(data) == google_crc32c.value(bytes(n))
        assert crc32(data) == zlib.crc32(bytes(n))
    assert libc.mprotect(ctypes.c_void_p(address), page, mmap.PROT_READ | mmap.PROT_WRITE) == 0
