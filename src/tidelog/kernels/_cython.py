"""The names of Cython that kernels use, for kernels that run as plain Python where Cython is not installed.

Types are only written down there: a declared value starts as 0, a cast to an integer makes an `int`, and a
struct is an object with its members as attributes. What compiled kernels alone use (`address`,
`cimports`) is not here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

__all__ = ["NAMES", "make_module"]


class _Type:
    """A C type: can be written with `[...]`, as memory views and pointers are, and called to cast."""

    def __init__(self, python: Callable[..., Any] | None = int) -> None:
        self.python = python

    def __getitem__(self, item: object) -> _Type:
        """A pointer to it, or an array of it."""
        return self

    def __call__(self, *value: Any) -> Any:
        """A value of that type."""
        return self.python(*value) if self.python else (value[0] if value else None)


class _Decorator:
    """Stays away: `@cfunc`, `@exceptval(check=False)`, `with nogil:`."""

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """What is decorated, as it is."""
        return args[0] if args and callable(args[0]) else self

    def __enter__(self) -> _Decorator:
        """Itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is to be done."""


_NOTHING = object()


def _declare(kind: Any = None, value: Any = _NOTHING, **settings: Any) -> Any:
    return kind() if value is _NOTHING else value


def _cast(kind: Any, value: Any, **settings: Any) -> Any:
    return kind(value) if isinstance(kind, _Type) else value


class _Struct:
    """A struct: called, an object with its members."""

    def __init__(self, **members: Any) -> None:
        self._members = members

    def __call__(self, **given: Any) -> SimpleNamespace:
        """One of them; members that are not given are 0."""
        return SimpleNamespace(**(dict.fromkeys(self._members, 0) | given))


_INTEGERS = "char uchar short ushort int uint long ulong longlong ulonglong size_t Py_ssize_t".split()
_OTHERS = ("p_char", "p_uchar", "void")

NAMES: dict[str, Any] = {
    "compiled": False,
    "NULL": None,
    **{name: _Type() for name in _INTEGERS},
    **{name: _Type(None) for name in _OTHERS},
    "bint": _Type(bool),
    "pointer": _Type(None),
    "const": _Type(None),
    "typedef": lambda kind, *more: kind,
    "struct": _Struct,
    "declare": _declare,
    "cast": _cast,
    **{name: _Decorator() for name in ("cfunc", "ccall", "cclass", "inline", "final", "nogil", "exceptval")},
}
"""What `cython` has for kernels."""


def make_module() -> SimpleNamespace:
    """Something to stand in for the module `cython` while kernels are imported."""
    return SimpleNamespace(**NAMES)
