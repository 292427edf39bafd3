"""Functions of C libraries, lent to the kernels by address, so that they decompress without Python in
between.

They are those of the packages that `records.compression` uses: LZ4 blocks from `lz4`, zstd from
`zstandard`, whose cffi backend shows its library's functions. Where a wheel does not show them, the kernels
leave these codecs to `records.compression`, which is slower by a Python call or two a batch.
"""

from __future__ import annotations

import ctypes
import importlib.util

import numpy as np

from tidelog.kernels import lz4 as _lz4
from tidelog.kernels import scratch as _scratch

__all__ = ["LZ4", "ZSTD", "function_address", "new_scratch", "open_library"]


_SLACK = 32  # kernels read in steps of as much


def open_library(module: str) -> ctypes.CDLL | None:
    """The C library that the extension `module` is or links to; None where there is none."""
    try:
        spec = importlib.util.find_spec(module)
        return ctypes.CDLL(spec.origin) if spec and spec.origin else None
    except (ImportError, OSError):
        return None


def function_address(library: ctypes.CDLL | None, name: str) -> int:
    """Where the function `name` of the library is, 0 if it does not show it."""
    function = getattr(library, name, None)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def _lend_lz4() -> bool:
    address = function_address(open_library("lz4.block._block"), "LZ4_decompress_safe")
    if address:
        _lz4.use_library(address)
    return bool(address)


def _lend_zstd() -> bool:
    library = open_library("zstandard._cffi")
    names = ("ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_decompressDCtx")
    create, free, decompress = (function_address(library, name) for name in names)
    if create and free and decompress:
        _scratch.use_zstd(create, free, decompress)
        return True
    return False


LZ4 = _lend_lz4()
"""True when a kernel decompresses LZ4."""

ZSTD = _lend_zstd()
"""True when a kernel decompresses zstd."""


def new_scratch(room: int) -> _scratch.Scratch:
    """Room for kernels to decompress so many bytes to."""
    return _scratch.Scratch(np.empty(room + _SLACK, dtype=np.uint8))
