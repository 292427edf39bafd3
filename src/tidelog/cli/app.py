"""The command's frame: the group that commands register with, options they share, and what becomes of errors.

Exit codes: 0 done, 1 found something wrong (damage, a failing disk), 2 bad usage (also files that cannot be
opened), 130 interrupted. An error is one sentence on standard error; `--debug` adds the traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import click

from tidelog.cli.declare import Argument, Command, Context, Exit, Option, make_parameters
from tidelog.cli.errors import explain
from tidelog.cli.names import COMMANDS, TASKS
from tidelog.errors import TidelogError
from tidelog.version import __version__

__all__ = [
    "INTERRUPTED",
    "Adopt",
    "Debug",
    "Force",
    "Json",
    "OnSpark",
    "RootOrPartition",
    "RootPath",
    "ServerProperties",
    "app",
    "config_override",
    "report",
]

_DEBUG = "tidelog.debug"

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def report(ctx: Context, error: Exception) -> int:
    """Tell the error in a sentence, after all that was found before it; the exit code."""
    sys.stdout.flush()
    if ctx.meta.get(_DEBUG):
        traceback.print_exception(error)
    sentence, code = explain(error)
    print(f"tidelog: {sentence}", file=sys.stderr)
    return code


class _Commands(click.Group):
    """Imports the command that is asked for, and turns its errors into a sentence and an exit code.

    Importing all of them at every start would take longer than many a command.
    """

    command_class = Command

    def list_commands(self, ctx: Context) -> list[str]:
        """The names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None if there is none."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            import_module(f"tidelog.cli.commands.{cmd_name}")
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by task, without importing them."""
        for task, commands in TASKS.items():
            with formatter.section(task):
                formatter.write_dl(list(commands.items()))

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _abandon_stdout()
            raise Exit(0) from None
        except KeyboardInterrupt:
            raise Exit(INTERRUPTED) from None
        except (TidelogError, OSError) as error:
            raise Exit(report(ctx, error)) from None
        return result


def _abandon_stdout() -> None:
    """Whoever read our output has gone (`| head`): keep the interpreter from flushing to it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _set_debug(ctx: Context, value: bool) -> bool:
    if value:
        ctx.meta[_DEBUG] = True
    return value


def _show_version(ctx: Context, value: bool) -> None:
    if value:
        print(f"tidelog {__version__}")
        raise Exit


RootPath = Annotated[Path, Argument(help="A root (log.dirs).")]
RootOrPartition = Annotated[Path, Argument(help="A root (log.dirs) or one partition's directory.")]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.", callback=_set_debug)]
Json = Annotated[bool, Option("--json", help="Print JSON lines.")]
OnSpark = Annotated[
    str | None, Option("--spark", metavar="MASTER", help="Run on this Spark master, such as 'local[*]'.")
]


def config_override(example: str) -> Option:
    """The option `--config`, where it overrides the topic configs in the metadata."""
    help = f"A topic config to use instead of the metadata's, such as {example}."
    return Option("--config", metavar="KEY=VALUE", help=help)


ServerProperties = Annotated[
    Path | None,
    Option(
        "--server-properties",
        metavar="FILE",
        help="The broker's server.properties, for its topic defaults and log.dirs.",
    ),
]
Adopt = Annotated[bool, Option("--adopt", help="Register partitions that the root's metadata does not know.")]
Force = Annotated[
    bool, Option("--force", help="Append even if other brokers hold replicas; a follower may truncate it.")
]


def _options(
    debug: Debug = False,
    version: Annotated[
        bool, Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


app = _Commands(
    name="tidelog",
    callback=_options,
    params=make_parameters(_options),
    help="Look into and work on Kafka's log files, without a broker.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
