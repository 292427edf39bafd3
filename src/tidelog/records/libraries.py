"""Codec libraries: modules imported at first use, gzip's implementation, and C functions that kernels call
by address, so that they decompress without Python in between.

The C functions are those of the packages that `records.compression` uses: LZ4 blocks from `lz4`, zstd from
`zstandard`, whose cffi backend shows its library's functions. Where a wheel does not show them, the kernels
leave these codecs to `records.compression`, which is slower by a Python call or two a batch.

Libraries are loaded when the first payload of their codec comes. A package that is missing costs its codec,
and nothing else.
"""

from __future__ import annotations

import ctypes
import importlib.util
import zlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from tidelog.errors import MissingLibraryError
from tidelog.kernels import lz4 as _lz4
from tidelog.kernels import scratch as _scratch

__all__ = [
    "Library",
    "function_address",
    "gzip_compressor",
    "gzip_decompressor",
    "new_scratch",
    "open_library",
]


_GZIP_WRAPPER = 31  # zlib's way to say: a gzip member, 32 KiB window
_SLACK = 32  # kernels read in steps of as much


class Library:
    """A module that is imported when something of it is asked for; `needed_by` names the codec or feature."""

    def __init__(self, module: str, *, needed_by: str, package: str) -> None:
        self._module = module
        self._needed_by = needed_by
        self._package = package

    def __getattr__(self, name: str) -> Any:
        """Something of the module; MissingLibraryError if it is not installed."""
        try:
            found = getattr(import_module(self._module), name)
        except ImportError as error:
            package = self._package
            raise MissingLibraryError(
                f"{self._needed_by} needs the package {package}, which cannot be imported: "
                f"install it with pip install {package}"
            ) from error
        setattr(self, name, found)
        return found


@cache
def gzip_decompressor() -> tuple[Callable[[int], Any], tuple[type[Exception], ...]]:
    """What makes a decompressor, and its errors: of isal, which is about twice as fast, else of zlib."""
    try:
        isal_zlib, igzip_lib = import_module("isal.isal_zlib"), import_module("isal.igzip_lib")
    except ImportError:
        return zlib.decompressobj, (zlib.error, EOFError)
    return isal_zlib.decompressobj, (igzip_lib.IsalError, EOFError)


@cache
def gzip_compressor() -> Callable[[memoryview], bytes]:
    """The default compressor: igzip's level 2, or zlib's own default."""
    try:
        igzip_lib = import_module("isal.igzip_lib")
    except ImportError:
        return lambda data: zlib.compress(data, -1, _GZIP_WRAPPER)
    return lambda data: igzip_lib.compress(data, 2, igzip_lib.COMP_GZIP)


def open_library(module: str) -> ctypes.CDLL | None:
    """The C library that the extension `module` of a package is or links to; None if there is none."""
    try:
        import_module(module.rpartition(".")[0])  # waits for a thread that imports it: find_spec does not
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


@cache
def _lend() -> tuple[bool, bool]:
    """Give the kernels what libraries there are, once; whether there is one for LZ4 and one for zstd."""
    return _lend_lz4(), _lend_zstd()


def new_scratch(room: int) -> _scratch.Scratch:
    """Room for kernels to decompress so many bytes to."""
    _lend()
    return _scratch.Scratch(np.empty(room + _SLACK, dtype=np.uint8))
