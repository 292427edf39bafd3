"""Sending objects to executors, with a clear error if an executor has no tidelog.

Spark pickles what a task needs. Our classes are pickled by name, so an executor without the package would
fail deep inside the unpickler. Instead they travel as bytes, in the hand of one small function that Spark
pickles with its code (as it does with every function made inside another): it opens them, or says what is
missing and how to bring it there.

A worker process runs many tasks, and PySpark has it look for garbage after each of them, in all that was ever
imported: 30 ms. `settle` takes what is there at a worker's first task out of that search.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

__all__ = ["Shipped", "settle", "ship"]

_settled = False


def settle() -> None:
    """Called in a worker when it has got its first task: what was imported stays."""
    global _settled
    if not _settled:
        _settled = True
        gc.freeze()


def _make_receiver() -> Callable[[bytes], Any]:
    def receive(payload: bytes) -> Any:
        import pickle
        import sys

        try:
            received = pickle.loads(payload)
            from tidelog.spark.runtime.shipping import settle
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"the Python of this Spark worker, {sys.executable}, has no module {error.name!r}: install "
                "tidelog on every worker (pip install 'tidelog[spark]') in the Python that "
                "spark.pyspark.python or PYSPARK_PYTHON names; the source and the sink run in the one that "
                "PYSPARK_DRIVER_PYTHON names, on the workers too",
                name=error.name,
            ) from error
        settle()
        return received

    return receive


_receive = _make_receiver()


class Shipped:
    """An object whose class an executor may lack."""

    STAYS: ClassVar[frozenset[str]] = frozenset()
    """Attributes that do not travel; the class has to do without them there."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        """Travel as bytes."""
        state = {name: value for name, value in self.__dict__.items() if name not in self.STAYS}
        return _receive, (pickle.dumps(_Parcel(type(self), state)),)


class _Parcel:
    """Pickles as what makes the object again."""

    def __init__(self, kind: type, state: dict[str, Any]) -> None:
        self._kind = kind
        self._state = state

    def __reduce__(self) -> tuple[Callable[[type, dict[str, Any]], Any], tuple[type, dict[str, Any]]]:
        return _restore, (self._kind, self._state)


def _restore(kind: type, state: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    made.__dict__.update(state)
    return made


def ship(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`work`, a picklable callable of ours, as a function to give to Spark's `mapInArrow` and the like."""
    payload, receive = pickle.dumps(work), _receive

    def run(given: Any) -> Any:
        return receive(payload)(given)

    return run
