"""CRC-32C and CRC-32 for bytes at rest, and the one place that gives the kernels their hardware CRC.

google-crc32c ships Google's crc32c library, which chooses the processor's instructions at run time. Its C function
`crc32c_extend` is handed to the kernels by address, so that a kernel checks thousands of batches in one call
without a Python call for each.
"""

from __future__ import annotations

import ctypes

import google_crc32c

from tidelog.kernels import crc as _kernel

__all__ = ["HARDWARE", "crc32", "crc32c"]


def _library_address() -> int:
    """Address of crc32c_extend, or 0 where google-crc32c runs without its C library."""
    try:
        from google_crc32c import _crc32c

        library = ctypes.CDLL(_crc32c.__file__)
        return ctypes.cast(library.crc32c_extend, ctypes.c_void_p).value or 0
    except (ImportError, OSError, AttributeError):
        return 0


_address = _library_address()
HARDWARE = _address != 0
"""True when the kernels use the processor's CRC instructions; else they walk tables (about 2 GB/s)."""

if HARDWARE:
    _kernel.use_library(_address, google_crc32c.value)

crc32c = _kernel.crc32c
crc32 = _kernel.crc32
