"""The kernels uncompiled, so that the same tests run on both twins."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import tidelog.kernels

_HERE = Path(tidelog.kernels.__file__).parent
_BELOW: dict[str, tuple[str, ...]] = {"crc": (), "encode": ("crc", "seal")}


@cache
def twin(name: str) -> ModuleType:
    """Kernel `name` as plain Python; kernels that it imports are plain Python too."""
    spec = importlib.util.spec_from_file_location(f"tidelog_twin_{name}", _HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    below = {f"tidelog.kernels.{kernel}": twin(kernel) for kernel in _BELOW.get(name, ("crc",))}
    kept = {key: sys.modules.get(key) for key in below}
    sys.modules.update(below)
    try:
        spec.loader.exec_module(module)
    finally:
        for key, old in kept.items():
            if old is None:
                del sys.modules[key]
            else:
                sys.modules[key] = old
    return module
