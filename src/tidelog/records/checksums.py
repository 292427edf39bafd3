"""CRC-32C and CRC-32 for bytes at rest, and the one place that gives the kernels their hardware checksums.

Functions of C libraries are handed to the kernels by address, so that a kernel checks thousands of batches
in one call without a Python call for each. Both libraries choose the processor's instructions at run time:

1. ISA-L, which the `isal` package ships, has both polynomials; with AVX-512 its CRC-32C is twice as fast as
   the CRC instruction alone.
2. Google's crc32c, which `google-crc32c` ships, where `isal` does not show its functions.
3. Tables in the kernel, where neither does (about 2 GB/s).
"""

from __future__ import annotations

import ctypes
import importlib

import google_crc32c

from tidelog.kernels import crc as _kernel

__all__ = ["HARDWARE", "crc32", "crc32c"]

_PROBE = b"123456789"  # its checksums are in every catalogue
_PROBE_CRC32C = 0xE3069283
_PROBE_CRC32 = 0xCBF43926
_ONES = 0xFFFFFFFF

_u32, _u64, _data = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p


def _address(
    library: ctypes.CDLL | None, name: str, kinds: list[type], probe: tuple[object, ...], answer: int
) -> int:
    """Where the C function `name` is, 0 unless it is there and answers `probe` as it should."""
    function = getattr(library, name, None)
    if function is None:
        return 0
    function.argtypes, function.restype = kinds, _u32
    if function(*probe) != answer:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _library(module: str) -> ctypes.CDLL | None:
    """The C library that the extension `module` is or links to."""
    try:
        return ctypes.CDLL(importlib.import_module(module).__file__ or "")
    except (ImportError, OSError):
        return None


def _lend_libraries() -> bool:
    """Give the kernels what libraries there are; whether one of them has CRC-32C."""
    isal, google = _library("isal.igzip_lib"), _library("google_crc32c._crc32c")
    size = len(_PROBE)
    iscsi = _address(
        isal, "crc32_iscsi", [_data, ctypes.c_int, _u32], (_PROBE, size, _ONES), _PROBE_CRC32C ^ _ONES
    )
    extend = _address(
        google, "crc32c_extend", [_u32, _data, ctypes.c_size_t], (0, _PROBE, size), _PROBE_CRC32C
    )
    gzip = _address(isal, "crc32_gzip_refl", [_u32, _data, _u64], (0, _PROBE, size), _PROBE_CRC32)
    _kernel.use_libraries(iscsi, extend, gzip, google_crc32c.value)
    return bool(iscsi or extend)


HARDWARE = _lend_libraries()
"""True when the kernels use the processor's own instructions; else they walk tables."""

crc32c = _kernel.crc32c
crc32 = _kernel.crc32
