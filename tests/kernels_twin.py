"""The kernels uncompiled, so that the same tests run on both twins."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import google_crc32c
import pytest

import tidelog.kernels
from tidelog.records.libraries import new_scratch

__all__ = ["TWINS", "twin", "use_twin"]

TWINS = ("compiled", "plain Python")

_PACKAGE = tidelog.kernels.__name__
_HERE = Path(tidelog.kernels.__file__).parent


class _Sources:
    """Finds a kernel's `.py` even where its compiled twin stands beside it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, stem = name.rpartition(".")
        if package != _PACKAGE:
            return None
        return importlib.util.spec_from_file_location(name, _HERE / f"{stem}.py")


@cache
def twin(name: str) -> ModuleType:
    """Kernel `name` as plain Python; the kernels that it imports are plain Python too."""
    return _twins()[name]


@cache
def _twins() -> dict[str, ModuleType]:
    """All kernels as plain Python, by name; those that the package itself uses stay as they are."""
    names = sorted(path.stem for path in _HERE.glob("*.py") if path.stem != "__init__")
    kept = {key: value for key, value in sys.modules.items() if key.startswith(f"{_PACKAGE}.")}
    attributes = {name: value for name in names if (value := vars(tidelog.kernels).get(name))}
    finder = _Sources()
    for key in kept:
        del sys.modules[key]
    for name in attributes:
        delattr(tidelog.kernels, name)
    sys.meta_path.insert(0, finder)
    try:
        twins = {name: importlib.import_module(f"{_PACKAGE}.{name}") for name in names}
    finally:
        sys.meta_path.remove(finder)
        for name in names:
            sys.modules.pop(f"{_PACKAGE}.{name}", None)
            vars(tidelog.kernels).pop(name, None)
        vars(tidelog.kernels).update(attributes)
        sys.modules.update(kept)
    twins["crc"].use_libraries(0, 0, 0, google_crc32c.value)  # as records.checksums does
    return twins


@contextmanager
def use_twin(which: str) -> Iterator[None]:
    """Have `tidelog.records` and `tidelog.cleanup` use the kernels called `which`, one of TWINS."""
    if which == "compiled":
        yield
        return
    new_scratch(1 << 20)  # which lends the compiled kernels their libraries, once in a process
    with pytest.MonkeyPatch.context() as patch:
        users = ("tidelog.records.", "tidelog.cleanup.")
        for module in [value for key, value in sys.modules.items() if key.startswith(users)]:
            for attribute, value in list(vars(module).items()):
                if isinstance(value, ModuleType) and value.__name__.startswith(f"{_PACKAGE}."):
                    patch.setattr(module, attribute, twin(value.__name__.rpartition(".")[2]))
                elif (getattr(value, "__module__", None) or "").startswith(f"{_PACKAGE}."):
                    owner = twin(value.__module__.rpartition(".")[2])
                    patch.setattr(module, attribute, getattr(owner, value.__name__))
        yield
