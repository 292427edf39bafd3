"""The entry point; importing a command's module registers it."""

from __future__ import annotations

import signal
import sys

from tidelog.cli.app import INTERRUPTED, app
from tidelog.cli.commands import (
    append,
    cat,
    compact,
    completion,
    config,
    copy,
    describe,
    dump,
    export,
    find,
    ingest,
    ls,
    pipeline,
    profile,
    recover,
    reindex,
    retention,
    search,
    tail,
    trim,
    verify,
)

__all__ = ["main"]

COMMANDS = (
    ls,
    describe,
    dump,
    cat,
    tail,
    search,
    find,
    append,
    copy,
    ingest,
    export,
    pipeline,
    profile,
    verify,
    recover,
    reindex,
    retention,
    trim,
    config,
    compact,
    completion,
)
"""The modules of all commands."""


def main() -> None:
    """Run the command line; ends the process."""
    try:
        app(prog_name="tidelog")
    except KeyboardInterrupt:  # before or after a command ran
        sys.exit(INTERRUPTED)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        what = f"{type(error).__name__}: {error}"
        sys.exit(
            f"tidelog: this is a bug in tidelog ({what}): run it again with --debug and report what it says"
        )
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, or said
