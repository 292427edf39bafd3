"""The command's frame: the group that commands register with, options they share, and what becomes of errors.

Exit codes: 0 done, 1 found something wrong (damage, a failing disk), 2 bad usage (also files that cannot be
opened), 130 interrupted. An error is one sentence on standard error; `--debug` adds the traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tidelog import __version__
from tidelog.cli.errors import explain
from tidelog.errors import TidelogError

__all__ = ["INTERRUPTED", "Debug", "Json", "app", "report"]

_DEBUG = "tidelog.debug"
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def report(ctx: typer.Context, error: Exception) -> int:
    """Tell the error in a sentence, after all that was found before it; the exit code."""
    sys.stdout.flush()
    if ctx.meta.get(_DEBUG):
        traceback.print_exception(error)
    sentence, code = explain(error)
    print(f"tidelog: {sentence}", file=sys.stderr)
    return code


class _Commands(TyperGroup):
    """Runs commands and turns their errors into a sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _abandon_stdout()
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except (TidelogError, OSError) as error:
            raise typer.Exit(report(ctx, error)) from None
        return result


def _abandon_stdout() -> None:
    """Whoever read our output has gone (`| head`): keep the interpreter from flushing to it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _set_debug(ctx: typer.Context, value: bool) -> bool:
    if value:
        ctx.meta[_DEBUG] = True
    return value


def _show_version(value: bool) -> None:
    if value:
        print(f"tidelog {__version__}")
        raise typer.Exit


Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_set_debug)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]

app = typer.Typer(
    name="tidelog",
    cls=_Commands,
    help="Look into and work on Kafka's log files, without a broker.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would take longer to import than everything else together
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(
    debug: Debug = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    pass
