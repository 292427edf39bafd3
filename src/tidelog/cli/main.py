"""The entry point; importing a command's module registers it."""

from __future__ import annotations

import sys

from tidelog.cli import dump
from tidelog.cli.app import app

__all__ = ["main"]

COMMANDS = (dump,)
"""The modules of all commands."""


def main() -> None:
    """Run the command line; ends the process."""
    try:
        app(prog_name="tidelog")
    except KeyboardInterrupt:  # before or after a command ran
        sys.exit(130)
