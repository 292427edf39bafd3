"""Only `storage` touches the operating system's files; modules and functions are short enough to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "tidelog"

GUARDED = {"os", "mmap", "shutil", "fcntl"}
HARMLESS = {
    "os.PathLike",
    "os.cpu_count",
    "os.environ",
    "os.fspath",
    "os.getpid",
    "os.strerror",
    "os.urandom",
    "shutil.get_terminal_size",
    "shutil.which",
}
"""These open, change and remove nothing."""

KNOWN = {
    "cli/app.py": {"os.open", "os.dup2", "os.devnull", "os.O_WRONLY"},  # standard output that nobody reads
    "testing/inode.py": {
        "mmap.mmap",
        "mmap.MAP_ANONYMOUS",
        "mmap.MAP_PRIVATE",
    },  # a file system that is made up
}

SCRATCH = "spark/"
"""Spark's tasks have scratch files of their own."""


def uses(path: Path) -> Iterator[str]:
    """What a module takes from the guarded ones, as `module.name`."""
    tree = ast.parse(path.read_text())
    called: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.partition(".")[0] in GUARDED:
                    called[one.asname or one.name.partition(".")[0]] = one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in GUARDED:
            yield from (f"{node.module}.{one.name}" for one in node.names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in called:
            yield f"{called[node.value.id]}.{node.attr}"


def test_only_storage_touches_files_itself() -> None:
    found: dict[str, set[str]] = {}
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        if name.startswith(("storage/", SCRATCH)):
            continue
        taken = set(uses(path)) - HARMLESS - KNOWN.get(name, set())
        if taken:
            found[name] = taken
    assert not found, f"use tidelog.storage instead: {found}"


def test_what_is_known_is_still_there() -> None:
    for name, taken in KNOWN.items():
        assert taken <= set(uses(SOURCES / name)), name


def test_the_check_sees_every_way_to_import(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import os as system\nfrom shutil import rmtree\nimport os.path\nsystem.remove\nos.path"
    )
    assert set(uses(module)) == {"os.remove", "shutil.rmtree", "os.path"}


MAX_MODULE_LINES, MAX_BODY_LINES = 500, 60
"""A body does not count the signature (the options of a command) and the docstring."""


def bodies(path: Path) -> Iterator[tuple[str, int]]:
    """The functions of a module and how many lines each one's body has."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            work = node.body[1:] if ast.get_docstring(node) is not None else node.body
            end = node.end_lineno
            if work and end is not None:
                yield node.name, end - work[0].lineno + 1


def test_modules_and_functions_are_short() -> None:
    for path in SOURCES.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= MAX_MODULE_LINES, path
        long = {name: lines for name, lines in bodies(path) if lines > MAX_BODY_LINES}
        assert not long, f"{path}: split {long}"
