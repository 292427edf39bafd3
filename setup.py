"""Compiles the kernels; everything else is in pyproject.toml.

Cython's memoryview code is compiled once, into `tidelog.kernels._memoryviews`, and shared by all kernels.

Where compiling fails (no compiler, no headers of Python), the build says so and goes on without: the kernels
then run as plain Python.

    TIDELOG_PURE=1               do not compile
    TIDELOG_REQUIRE_COMPILED=1   fail where compiling fails
    TIDELOG_CFLAGS               more flags for the compiler (make asan uses it)
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

KERNELS = Path("src/tidelog/kernels")
SHARED = "tidelog.kernels._memoryviews"
NOT_COMPILED = """
tidelog: the kernels cannot be compiled ({}).
They are installed as plain Python, which works but is about a hundred times slower. Install a C compiler and
Python's headers (Debian: apt install gcc python3-dev) and install tidelog again.
"""


class ParallelBuild(build_ext):
    """Compiles on all cores unless told otherwise."""

    def finalize_options(self):
        if not {"sdist", "egg_info", "dist_info"} & set(sys.argv):  # these only ask what there is
            self.distribution.ext_modules[:] = compiled_to_c(self.distribution.ext_modules)
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()

    def run(self):
        try:
            super().run()
        except (CCompilerError, ExecError, PlatformError, OSError) as error:
            if os.environ.get("TIDELOG_REQUIRE_COMPILED"):
                raise
            print(NOT_COMPILED.format(error), file=sys.stderr)
            self._drop()

    def _drop(self):
        """Leave no kernel compiled where others are not."""
        for extension in self.extensions:
            for built in (self.get_ext_fullpath(extension.name), self._in_lib(extension)):
                Path(built).unlink(missing_ok=True)
        self.extensions = []

    def _in_lib(self, extension):
        return str(Path(self.build_lib) / self.get_ext_filename(extension.name))


def kernels():
    if os.environ.get("TIDELOG_PURE"):
        return []
    flags = os.environ.get("TIDELOG_CFLAGS", "").split()
    # Kernels say themselves what is to be inlined, so that loops are compiled anew for constant arguments.
    inline = [] if sys.platform == "win32" else [("CYTHON_INLINE", "inline __attribute__((always_inline))")]
    options = {
        "define_macros": inline,
        "extra_compile_args": ["-O3", "-g0", "-Wno-unused-function", *flags],
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
    return [shared, *extensions]


def compiled_to_c(extensions):
    """From Python to C; only when something is to be compiled."""
    if not extensions:
        return []
    from Cython.Build import cythonize

    return cythonize(
        extensions,
        language_level=3,
        build_dir=os.environ.get("TIDELOG_BUILD_DIR", "build"),
        shared_utility_qualified_name=SHARED,
        nthreads=os.cpu_count() or 1,
    )


setup(ext_modules=kernels(), cmdclass={"build_ext": ParallelBuild})
