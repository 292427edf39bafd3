"""Imports at first use, so that `import tidelog` and the command start fast.

A package says where its names are and hands both functions to Python, which asks them for what it has not
found (PEP 562):

    __getattr__, __dir__ = lazy_names(__name__, {"Log": "tidelog.log.log"})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["LazyModule", "lazy_names"]


def lazy_names(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are in the modules that `places` says.

    A place is a module, `module:name` where it has another name there, or the path of the name itself where
    it is a module.
    """

    def find(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        path, _, other = place.partition(":")
        module = import_module(path)
        found = module if path == f"{package}.{name}" else getattr(module, other or name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*places, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return find, names


class LazyModule:
    """A module that is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Something of the module."""
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found
