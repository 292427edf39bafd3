"""`tidelog fix`: repairs that can be undone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, ServerProperties, app
from tidelog.cli.declare import Argument, Exit, Option

__all__ = ["fix"]


@app.command()
def fix(
    paths: Annotated[list[Path], Argument(help="The roots (log.dirs) of one broker.", metavar="PATH")],
    apply: Annotated[bool, Option("--apply", help="Carry out the repairs.")] = False,
    plan: Annotated[
        Path | None,
        Option("--plan", metavar="FILE", help="Save the plan; with --apply, carry out exactly this one."),
    ] = None,
    undo: Annotated[bool, Option("--undo", help="Undo the last repairs.")] = False,
    empty: Annotated[
        bool, Option("--empty-quarantine", help="Delete what repairs have kept: they become final.")
    ] = False,
    server_properties: ServerProperties = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Plan repairs for what tidelog doctor finds: which files, what would be lost, how to undo them.

    Nothing is changed without --apply. What is changed or removed is kept in the root, where brokers ignore
    it, until --undo puts it back or --empty-quarantine deletes it. No broker may be running. The exit code is
    1 if something is left that cannot be repaired here.
    """
    from tidelog.cli.actions.fix import empty_roots, fix_roots, undo_roots
    from tidelog.cli.errors import UsageError
    from tidelog.cli.render.output import make_output

    output = make_output(json=json)
    if apply + undo + empty > 1:
        raise UsageError("--apply, --undo and --empty-quarantine cannot be combined")
    if plan is not None and (undo or empty):
        raise UsageError("--plan cannot be combined with --undo or --empty-quarantine")
    if undo:
        raise Exit(undo_roots(paths, output, properties=server_properties))
    if empty:
        raise Exit(empty_roots(paths, output, properties=server_properties))
    raise Exit(fix_roots(paths, output, apply=apply, file=plan, properties=server_properties))
