"""Makes what is released, and tries it out as a stranger would (`make dist`).

1. Build the source distribution from the files that git knows, and from it, in isolation, a wheel for each
   Python that is found.
2. Look into both: what has to be in them is, what must not be is not.
3. Install each into a blank environment and run the first steps there (tools/quickstart_check.py): every
   wheel, the source distribution, and a build without a compiler, which runs as plain Python.

Other Pythons are looked for on the path (python3.11 to python3.14) and, where there is one, in pyenv's
directory. `--this-python` leaves them out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
CHECK = ROOT / "tools" / "quickstart_check.py"


def run(command: Sequence[object], **environment: str) -> str:
    """Standard output of a command that has to end well."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("TIDELOG_")} | environment
    done = subprocess.run(
        [str(word) for word in command],
        cwd=tempfile.gettempdir(),
        env=env,
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def pythons() -> Iterator[Path]:
    """The interpreters that are found, one for each version, this one first."""
    yield Path(sys.executable)
    for version in VERSIONS:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            continue
        kept = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python{version}"))
        found = shutil.which(f"python{version}")
        places = [*kept, Path(found)] if found else kept
        working = [place for place in places if _works(place)]
        if working:
            yield working[-1]


def _works(python: Path) -> bool:
    done = subprocess.run([python, "-c", "import venv, ctypes"], capture_output=True, check=False)
    return done.returncode == 0


def blank(python: Path, where: Path) -> Path:
    """A blank environment's Python."""
    if python == Path(sys.executable):
        venv.create(where, with_pip=True)
    else:
        run([python, "-m", "venv", where])
    return where / "bin" / "python"


def build_sdist(scratch: Path) -> Path:
    """The source distribution, from a clean copy of what git knows."""
    copy = scratch / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "benchmarks/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    python = blank(Path(sys.executable), scratch / "builder")
    run([python, "-m", "pip", "install", "-q", "build"])
    run([python, "-m", "build", "--sdist", "--outdir", DIST, copy])
    return next(DIST.glob("*.tar.gz"))


def check_names(names: Sequence[str], wanted: Sequence[str], unwanted: Sequence[str]) -> None:
    """Some name ends with each of `wanted`, none with any of `unwanted`."""
    missing = [end for end in wanted if not any(name.endswith(end) for name in names)]
    strange = [name for name in names if name.endswith(tuple(unwanted))]
    if missing or strange:
        raise SystemExit(f"missing: {missing}; not wanted: {strange[:5]}")


def check_sdist(path: Path) -> None:
    """All that compiling takes, and nothing that was compiled."""
    with tarfile.open(path) as archive:
        names = archive.getnames()
    kernels = ROOT / "src" / "tidelog" / "kernels"
    sources = [f"kernels/{each.name}" for each in kernels.iterdir() if each.suffix in (".py", ".pyi", ".pxd")]
    check_names(names, [*sources, "tidelog/py.typed", "LICENSE", "README.md", "setup.py"], [".so", ".c"])


def check_wheel(path: Path) -> None:
    """Kernels compiled, stripped and as Python; types; no C."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        compiled = [name for name in names if name.endswith(".so")]
        stripped = all(b".debug_info" not in archive.read(name) for name in compiled)
    sources = [
        f"kernels/{each.name}" for each in (ROOT / "src/tidelog/kernels").iterdir() if each.suffix == ".py"
    ]
    check_names(names, [*sources, "kernels/crc.pyi", "tidelog/py.typed", "LICENSE"], [".c", ".pxd"])
    if len(compiled) < len(sources) - 2 or not stripped:
        raise SystemExit(f"{path.name} has {len(compiled)} compiled kernels; stripped: {stripped}")


def try_out(python: Path, thing: Path, scratch: Path, name: str, **environment: str) -> None:
    """Install into a blank environment and run the first steps."""
    installed = blank(python, scratch / name)
    run([installed, "-m", "pip", "install", "-q", thing], **environment)
    print(f"  {thing.name}: {run([installed, CHECK]).strip()}", flush=True)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="Build and try out what is released.")
    parser.add_argument("--this-python", action="store_true", help="no other versions of Python")
    args = parser.parse_args()
    found = [Path(sys.executable)] if args.this_python else list(pythons())
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="tidelog-dist-") as scratch:
        work = Path(scratch)
        sdist = build_sdist(work)
        check_sdist(sdist)
        for number, python in enumerate(found):
            before = set(DIST.glob("*.whl"))
            builder = blank(python, work / f"wheel-{number}")
            run(
                [builder, "-m", "pip", "wheel", "-q", "--no-deps", "-w", DIST, sdist],
                TIDELOG_REQUIRE_COMPILED="1",
            )
            (wheel,) = set(DIST.glob("*.whl")) - before
            check_wheel(wheel)
            try_out(python, wheel, work, f"from-wheel-{number}")
        try_out(found[0], sdist, work, "from-sdist")
        try_out(found[0], sdist, work, "without-compiler", CC="/nonexistent/cc")
    for path in sorted(DIST.iterdir()):
        print(f"  {path.name}: {path.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
