"""Compiles the kernels; everything else is in pyproject.toml.

Cython's memoryview code is compiled once, into `tidelog.kernels._memoryviews`, and shared by all kernels.

TIDELOG_CFLAGS adds compiler flags (make asan uses it); TIDELOG_PURE=1 builds without compiling.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = Path("src/tidelog/kernels")
SHARED = "tidelog.kernels._memoryviews"


class ParallelBuild(build_ext):
    """Compiles on all cores unless told otherwise."""

    def finalize_options(self):
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()


def kernels():
    if os.environ.get("TIDELOG_PURE"):
        return []
    from Cython.Build import cythonize

    flags = os.environ.get("TIDELOG_CFLAGS", "").split()
    # Kernels say themselves what is to be inlined, so that loops are compiled anew for constant arguments.
    inline = [] if sys.platform == "win32" else [("CYTHON_INLINE", "inline __attribute__((always_inline))")]
    options = {
        "define_macros": inline,
        "extra_compile_args": ["-O3", "-g0", *flags],
        "extra_link_args": ["-s", *(f for f in flags if f.startswith("-fsanitize"))],
    }
    if flags:  # a sanitizer's report needs the lines
        options["extra_compile_args"].remove("-g0")
        options["extra_link_args"].remove("-s")
    sources = sorted(path for path in KERNELS.glob("*.py") if not path.stem.startswith("_"))
    extensions = [Extension(f"tidelog.kernels.{path.stem}", [str(path)], **options) for path in sources]
    build_dir = os.environ.get("TIDELOG_BUILD_DIR", "build")
    shared = Extension(
        SHARED,
        [f"{build_dir}/{SHARED.replace('.', '/')}.c"],
        extra_compile_args=["-O2", "-g0"],
        extra_link_args=["-s"],
    )
    return cythonize(
        [shared, *extensions],
        language_level=3,
        build_dir=build_dir,
        shared_utility_qualified_name=SHARED,
        nthreads=os.cpu_count() or 1,
    )


setup(ext_modules=kernels(), cmdclass={"build_ext": ParallelBuild})
