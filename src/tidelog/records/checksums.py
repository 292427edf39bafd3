"""CRC-32C and CRC-32 for bytes at rest, and the one place that gives the kernels their hardware checksums.

Functions of C libraries are handed to the kernels by address, so that a kernel checks thousands of batches
in one call without a Python call for each. Both libraries choose the processor's instructions at run time:

1. ISA-L, which the `isal` package ships, has both polynomials; with AVX-512 its CRC-32C is twice as fast as
   the CRC instruction alone. Without, its choice among its own functions is half as fast as the one that
   runs the CRC instruction on three streams (12 against 24 GB/s on an AMD Zen 3): that one is taken then.
2. Google's crc32c, which `google-crc32c` ships, where `isal` does not show its functions.
3. Tables in the kernel, where neither does (about 2 GB/s).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module

from tidelog.kernels import COMPILED
from tidelog.kernels import crc as _kernel
from tidelog.records.libraries import function_address, open_library

__all__ = ["HARDWARE", "crc32", "crc32c"]

_PROBE = b"123456789"  # its checksums are in every catalogue
_PROBE_CRC32C = 0xE3069283
_PROBE_CRC32 = 0xCBF43926
_ONES = 0xFFFFFFFF

_u32, _u64, _data = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p


def _address(
    library: ctypes.CDLL | None, name: str, kinds: list[type], probe: tuple[object, ...], answer: int
) -> int:
    """Where the function `name` is, 0 unless it is there and answers `probe` as it should."""
    address = function_address(library, name)
    if address:
        function = getattr(library, name)
        function.argtypes, function.restype = kinds, _u32
        address = address if function(*probe) == answer else 0
    return address


def _lend_libraries() -> bool:
    """Give the kernels what libraries there are; whether one of them has CRC-32C."""
    isal, google = open_library("isal.igzip_lib"), open_library("google_crc32c._crc32c")
    size = len(_PROBE)
    names = ["crc32_iscsi_01"] if _kernel.prefers_instruction() else []
    iscsi = 0
    for name in (*names, "crc32_iscsi"):
        iscsi = iscsi or _address(
            isal, name, [_data, ctypes.c_int, _u32], (_PROBE, size, _ONES), _PROBE_CRC32C ^ _ONES
        )
    extend = _address(
        google, "crc32c_extend", [_u32, _data, ctypes.c_size_t], (0, _PROBE, size), _PROBE_CRC32C
    )
    gzip = _address(isal, "crc32_gzip_refl", [_u32, _data, _u64], (0, _PROBE, size), _PROBE_CRC32)
    _kernel.use_libraries(iscsi, extend, gzip, _function())
    return bool(iscsi or extend)


def _function() -> Callable[[bytes], int] | None:
    """CRC-32C for kernels that are not compiled; None if the package is missing."""
    if COMPILED:
        return None
    try:
        value: Callable[[bytes], int] = import_module("google_crc32c").value
    except ImportError:
        return None
    return value


HARDWARE = _lend_libraries()
"""True when the kernels use the processor's own instructions; else they walk tables."""

crc32c = _kernel.crc32c
crc32 = _kernel.crc32
