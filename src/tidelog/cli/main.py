"""The entry point of the command `tidelog`."""

from __future__ import annotations

import os
import signal
import sys

from tidelog.cli.app import INTERRUPTED, app

__all__ = ["main"]


def main() -> None:
    """Run the command line; ends the process."""
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # numpy's threads take time to start, and do nothing here
    try:
        app(prog_name="tidelog")
    except KeyboardInterrupt:  # before or after a command ran
        sys.exit(INTERRUPTED)
    except MemoryError:
        if "--debug" in sys.argv:
            raise
        sys.exit("tidelog: there is not enough memory for this (ulimit -v): give it more, or ask for less")
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        what = f"{type(error).__name__}: {error}"
        sys.exit(
            f"tidelog: this is a bug in tidelog ({what}): run it again with --debug and report what it says"
        )
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, or said
