"""Hot loops, in Cython's pure-Python mode: each `.py` here also runs uncompiled, slowly, under the same
tests.

Rules: a coarse call (a buffer in, arrays out); the GIL is released; every bound is checked before it is used;
nothing is raised for bad bytes: a kernel returns a fault code and where it stood, and `records` makes the
error.
"""

import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

__all__ = ["COMPILED"]


def _compiled() -> bool:
    here = Path(__file__).parent
    return any((here / f"scan{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


COMPILED = _compiled()
"""True when the kernels run as machine code."""

if not COMPILED:
    warnings.warn(
        "tidelog's kernels are not compiled and run as plain Python, about a hundred times slower; "
        "install a C compiler and reinstall tidelog to compile them",
        RuntimeWarning,
        stacklevel=2,
    )
