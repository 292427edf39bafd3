"""Runs the decode tests on kernels compiled under AddressSanitizer; arguments go to pytest (`make asan`).

1. Copy the sources into a temporary directory; the kernels compiled in the tree stay as they are.
2. Compile the kernels there with the sanitizer.
3. Run tests/records on the copy, the sanitizer's library loaded before everything else.

A read or write outside a buffer ends the run with the sanitizer's report. The exit code is 0 when all is
well, that of pytest when tests fail, 77 where the compiler has no AddressSanitizer. Leaks are not looked
for: Python itself has too many.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNAVAILABLE = 77
"""The exit code that test harnesses know as "skipped"."""

CFLAGS = "-fsanitize=address -fno-omit-frame-pointer -g -O1"
COMPILED = ("*.so", "*.c", "__pycache__", "*.egg-info")


# The sanitizer keeps freed memory for a while, which is all that this test would measure.
_MEASURES_MEMORY = "tests/records/test_bounds.py::test_anonymous_memory_stays_flat"


def sanitizer_library() -> Path | None:
    """The compiler's libasan, None where it has none."""
    compiler = os.environ.get("CC", "gcc").split()
    try:
        found = subprocess.run(
            [*compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    library = Path(found.stdout.strip())
    return library.resolve() if library.is_absolute() and library.exists() else None


def build(copy: Path) -> None:
    """Copies the sources and compiles the kernels in place there."""
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns(*COMPILED))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy)
    env = os.environ | {"TIDELOG_CFLAGS": CFLAGS, "TIDELOG_BUILD_DIR": str(copy / "build")}
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=copy,
        env=env,
        check=True,
        timeout=900,
    )


def run_tests(copy: Path, library: Path, args: list[str]) -> int:
    """Runs pytest on the copy's package; its exit code."""
    env = os.environ | {
        "PYTHONPATH": str(copy / "src"),
        "LD_PRELOAD": str(library),
        "ASAN_OPTIONS": "detect_leaks=0",
        # Python's and Arrow's allocators hand out pieces of larger blocks; malloc's are guarded each.
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    probe = [sys.executable, "-c", "import tidelog.kernels.scan as kernel; print(kernel.__file__)"]
    loaded = subprocess.run(probe, cwd=ROOT, env=env, check=True, capture_output=True, text=True, timeout=120)
    kernel = Path(loaded.stdout.strip())
    if not (kernel.is_relative_to(copy) and b"__asan_report_load" in kernel.read_bytes()):
        raise RuntimeError(f"the tests would not run on the sanitized kernels but on {kernel}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow and not oracle"]
    command += ["--deselect", _MEASURES_MEMORY]
    return subprocess.run([*command, *(args or ["tests/records"])], cwd=ROOT, env=env, check=False).returncode


def main() -> int:
    """The exit code."""
    library = sanitizer_library()
    if library is None:
        print("the compiler has no AddressSanitizer (libasan)", file=sys.stderr)
        return UNAVAILABLE
    with tempfile.TemporaryDirectory(prefix="tidelog-asan-") as scratch:
        copy = Path(scratch)
        build(copy)
        return run_tests(copy, library, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
