"""Apache Kafka's storage layer as a Python library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.log import Log
    from tidelog.manager import Store, open
    from tidelog.scanning import scan

__version__ = "0.1.0"

__all__ = ["Log", "Store", "__version__", "open", "scan"]

# Imported at first use: `import tidelog` and the command's start-up stay light.
_LAZY = {
    "Log": "tidelog.log",
    "Store": "tidelog.manager",
    "open": "tidelog.manager",
    "scan": "tidelog.scanning",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
