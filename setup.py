"""Compiles the kernels; everything else is in pyproject.toml.

TIDELOG_CFLAGS adds compiler flags (make asan uses it); TIDELOG_PURE=1 builds without compiling.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

KERNELS = Path("src/tidelog/kernels")


def kernels():
    if os.environ.get("TIDELOG_PURE"):
        return []
    from Cython.Build import cythonize

    flags = os.environ.get("TIDELOG_CFLAGS", "").split()
    # Kernels say themselves what is to be inlined, so that loops are compiled anew for constant arguments.
    inline = [] if sys.platform == "win32" else [("CYTHON_INLINE", "inline __attribute__((always_inline))")]
    extensions = [
        Extension(
            f"tidelog.kernels.{path.stem}",
            [str(path)],
            define_macros=inline,
            extra_compile_args=["-O3", *flags],
            extra_link_args=[f for f in flags if f.startswith("-fsanitize")],
        )
        for path in sorted(KERNELS.glob("*.py"))
        if path.stem != "__init__"
    ]
    return cythonize(extensions, language_level=3, build_dir=os.environ.get("TIDELOG_BUILD_DIR", "build"))


setup(ext_modules=kernels())
