"""`tidelog completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script

from tidelog.cli.app import Debug, app
from tidelog.cli.errors import UsageError

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_TIDELOG_COMPLETE"

if _VARIABLE in os.environ:  # a shell asks for completions instead of running a command
    completion_init()


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
    debug: Debug = False,
) -> None:
    """Print a script that completes tidelog's commands and options in a shell.

    bash:  tidelog completion bash >> ~/.bashrc

    zsh:   tidelog completion zsh > ~/.zfunc/_tidelog

    fish:  tidelog completion fish > ~/.config/fish/completions/tidelog.fish
    """
    from tidelog.cli.render.output import PlainOutput

    if shell not in _SHELLS:
        raise UsageError(f"{shell} is not known: there are {', '.join(_SHELLS)}")
    script = get_completion_script(prog_name="tidelog", complete_var=_VARIABLE, shell=shell)
    PlainOutput().say(script)
