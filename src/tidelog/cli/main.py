"""The entry point of the command `tidelog`."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

from tidelog.cli.app import INTERRUPTED, app

__all__ = ["main"]

_OBJECTS_A_COLLECTION = 50_000  # a start makes as many, and none of them is garbage
_NO_ROOM = "failed to map segment"
"""What the loader says of a compiled module for which there is no memory."""


def main() -> None:
    """Run the command line; ends the process."""
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    try:
        _run()
    except SystemExit as leaving:
        atexit.register(_leave, leaving.code)  # the last to be registered is the first to be called
        raise


def _leave(code: str | int | None) -> None:
    """End the process without taking the interpreter apart, which takes as long as many a command.

    Threads have been waited for by now; whatever else was registered for the end is done before. Where
    something cannot be written any more, Python ends in its own way, and says so.
    """
    atexit.unregister(_leave)
    try:
        _flush()
        atexit._run_exitfuncs()
        _flush()
    except (OSError, ValueError):
        return
    os._exit(code if isinstance(code, int) else int(code is not None))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _run() -> None:
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # numpy's threads take time to start, and do nothing here
    try:
        app(prog_name="tidelog")
    except KeyboardInterrupt:  # before or after a command ran
        sys.exit(INTERRUPTED)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        if isinstance(error, MemoryError) or (isinstance(error, ImportError) and _NO_ROOM in str(error)):
            sys.exit(
                "tidelog: there is not enough memory for this (ulimit -v): give it more, or ask for less"
            )
        what = f"{type(error).__name__}: {error}"
        sys.exit(
            f"tidelog: this is a bug in tidelog ({what}): run it again with --debug and report what it says"
        )
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, or said
