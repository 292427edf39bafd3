"""The import contracts know every package; modules and functions are short enough to read."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).parents[1]
SOURCES = TREE / "src" / "tidelog"


def test_contracts_know_every_package() -> None:
    """What is not in a contract may import anything: `make check` would not see it."""
    found = {
        f"tidelog.{path.stem}" for path in SOURCES.iterdir() if re.fullmatch(r"[a-z]+(\.py)?", path.name)
    }
    settings = tomllib.loads((TREE / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers, files = settings["contracts"]
    assert {name for layer in layers["layers"] for name in layer.split(" | ")} == found
    assert {*files["source_modules"], "tidelog.storage"} == found


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
