"""The package as it is built and installed: what is in it, and that it works without Cython or a compiler."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import tidelog

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "tidelog"

BLOCK_CYTHON = """
import importlib.util, runpy, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "cython" else found(name, *more)
main = runpy.run_path(sys.argv[1])["main"]  # which imports tidelog, and counts the warnings
import tidelog.kernels
assert "cython" not in sys.modules and not tidelog.kernels.COMPILED, sys.modules.get("cython")
main()
"""


def _plain_copy(where: Path) -> Path:
    """The sources without anything compiled."""
    copy = where / "src"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    return copy


def test_kernels_run_without_a_compiler_and_without_cython(tmp_path: Path) -> None:
    copy = _plain_copy(tmp_path)
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", BLOCK_CYTHON, ROOT / "tools" / "quickstart_check.py"],
        env={"PYTHONPATH": str(copy), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "kernels plain Python: all is well" in done.stdout


def test_the_stand_in_for_cython_has_what_kernels_use() -> None:
    from tidelog.kernels._cython import NAMES

    only_compiled = {"address", "cimports"}
    used = set()
    for path in (SOURCES / "kernels").glob("[!_]*.py"):
        words = path.read_text().replace("(", " ").replace("[", " ").replace(",", " ").split()
        used |= {word.split(".")[1].rstrip(")]:") for word in words if word.startswith("cython.")}
    assert used - only_compiled <= NAMES.keys()


def test_one_place_has_the_version() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert f'"{tidelog.__version__}"' not in project.split("[project.optional-dependencies]")[0]
    assert 'version = { attr = "tidelog.version.__version__" }' in project


@pytest.mark.slow
def test_the_source_distribution_has_every_file_of_the_package(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    _plain_copy(tree)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tree)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "-d", tmp_path],
        cwd=tree,
        capture_output=True,
        timeout=240,
        check=True,
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    wanted = {path.relative_to(tree).as_posix() for path in (tree / "src").rglob("*") if path.is_file()}
    wanted = {name for name in wanted if ".egg-info/" not in name}
    assert wanted | {"setup.py", "pyproject.toml", "LICENSE"} <= names
    assert not [name for name in names if name.endswith((".so", ".c"))]


@pytest.mark.slow
def test_a_build_without_a_compiler_says_so_and_goes_on(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    _plain_copy(tree)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=tree,
        env={"CC": "/nonexistent/cc", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the kernels cannot be compiled" in done.stderr
    assert not list(tree.rglob("*.so"))
