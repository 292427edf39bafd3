"""Hot loops, in Cython's pure-Python mode: each `.py` here also runs uncompiled, slowly, under the same
tests.

Rules: a coarse call (a buffer in, arrays out); the GIL is released; every bound is checked before it is used;
nothing is raised for bad bytes: a kernel returns a fault code and where it stood, and `records` makes the
error.
"""

import sys
import warnings
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["COMPILED"]

_HERE = Path(__file__).parent


def _compiled() -> bool:
    return any((_HERE / f"scan{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


def _import_without_cython() -> None:
    """Import all kernels as plain Python, with a stand-in for Cython that nobody else gets to see."""
    modules: dict[str, Any] = sys.modules
    modules["cython"] = import_module(f"{__name__}._cython").make_module()
    try:
        for path in sorted(_HERE.glob("[!_]*.py")):
            import_module(f"{__name__}.{path.stem}")
    finally:
        del modules["cython"]


COMPILED = _compiled()
"""True when the kernels run as machine code."""

if not COMPILED:
    warnings.warn(
        "tidelog's kernels are not compiled and run as plain Python, about a hundred times slower; "
        "install a C compiler and reinstall tidelog to compile them",
        RuntimeWarning,
        stacklevel=2,
    )
    if find_spec("cython") is None:
        _import_without_cython()
