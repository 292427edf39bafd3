"""`tidelog completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

from typing import Annotated

from click.shell_completion import get_completion_class

from tidelog.cli.app import Debug, app
from tidelog.cli.declare import Argument
from tidelog.cli.errors import UsageError

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_TIDELOG_COMPLETE"
"""Set by the shell that asks for completions instead of running a command; click looks at it."""


@app.command()
def completion(
    shell: Annotated[str, Argument(metavar="SHELL", help="bash, zsh or fish.")], debug: Debug = False
) -> None:
    """Print a script that completes tidelog's commands and options in a shell.

    bash:  tidelog completion bash >> ~/.bashrc

    zsh:   tidelog completion zsh > ~/.zfunc/_tidelog

    fish:  tidelog completion fish > ~/.config/fish/completions/tidelog.fish
    """
    from tidelog.cli.render.output import PlainOutput

    complete = get_completion_class(shell) if shell in _SHELLS else None
    if complete is None:
        raise UsageError(f"{shell} is not known: choose from {', '.join(_SHELLS)}")
    PlainOutput().say(complete(app, {}, "tidelog", _VARIABLE).source())
