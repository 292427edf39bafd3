"""The command's frame: the group that commands register with, options they share, and what becomes of errors.

Exit codes: 0 done, 1 found something wrong (damage, a failing disk), 2 bad usage (also files that cannot be
opened), 130 interrupted. An error is one sentence on standard error; `--debug` adds the traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info, get_command_name
from typer.models import CommandInfo

from tidelog import __version__
from tidelog.cli.errors import explain
from tidelog.errors import TidelogError

__all__ = ["INTERRUPTED", "Debug", "Json", "OnSpark", "app", "report"]

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


class _App(typer.Typer):
    """Keeps commands as they were registered: what their options are is found out when one is asked for.

    Typer would do so for all of them at every start, which takes longer than many a command.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.waiting: dict[str, CommandInfo] = {}

    def command(self, *args: Any, **settings: Any) -> Callable[[Any], Any]:
        """Register a command, as in Typer."""
        register = super().command(*args, **settings)

        def keep(function: Any) -> Any:
            registered = register(function)
            info = self.registered_commands.pop()
            self.waiting[info.name or get_command_name(function.__name__)] = info
            return registered

        return keep


class _Commands(TyperGroup):
    """Makes the command that is asked for, and turns its errors into a sentence and an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(app.waiting)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None, and all others for suggestions, where there is none."""
        for name in [cmd_name] if cmd_name in app.waiting else app.waiting:
            if name not in self.commands:
                self.commands[name] = get_command_from_info(
                    app.waiting[name], pretty_exceptions_short=True, rich_markup_mode=None
                )
        return self.commands.get(cmd_name)

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
OnSpark = Annotated[
    str | None,
    typer.Option(
        "--spark", metavar="MASTER", help="Let Spark do it, such as 'local[*]'.", show_default=False
    ),
]

app = _App(
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
