"""Setting aside what belongs to no topic, and giving names back; both only rename directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidelog.cli.actions.directories import check_root, existing_directory
from tidelog.cli.actions.loading import RootOptions, check_ready, opened_root
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import are, counted
from tidelog.layout.roots import check_holdable, hold_root, look_at
from tidelog.manager.metadata.files import look_at_metadata
from tidelog.manager.store.directories import find_unknown
from tidelog.manager.store.tidying import plan_return, take_back
from tidelog.storage import LOCAL

__all__ = ["tidy_root", "unstray_root"]

_COLUMNS = (
    Column("directory", "DIRECTORY"),
    Column("name", "BECOMES"),
    Column("reason", "WHY"),
)


def tidy_root(root: Path, output: Output, *, dry_run: bool, force: bool, properties: Path | None) -> None:
    """Set aside the directories of a root that belong to no topic, or show them."""
    directory = existing_directory(root)
    check_root(directory)
    options = RootOptions(properties, force=force)
    unknown = find_unknown(LOCAL, options.roots(directory))
    if not force:
        unknown.check_home()
    if unknown.found:
        check_ready(directory, options)
    rows: list[Sequence[Cell]] = [(path, f"{path}.<id>-stray", why) for path, why in unknown.found]
    if not dry_run and unknown.found:
        with opened_root(directory, output, options, topics=()) as store:
            reasons = {one.path: one.reason for one in store.skipped}
            rows = [(old, new, reasons.get(old)) for old, new in store.tidy().items()]
    output.table(_COLUMNS, rows)
    output.say(
        f"{counted(len(rows), 'directory', 'directories')} {are(len(rows), dry_run=dry_run)} set aside"
    )


def unstray_root(root: Path, output: Output, *, dry_run: bool) -> None:
    """Give the strays of a root their names back, or show which."""
    directory = existing_directory(root)
    check_root(directory)
    facts, image = look_at(LOCAL, directory), look_at_metadata(LOCAL, directory).image
    check_holdable(facts)
    planned = list(plan_return(LOCAL, facts, image))
    if not dry_run:
        with hold_root(directory, LOCAL) as held:
            planned = list(plan_return(LOCAL, held.facts, image))
            for one in planned:
                take_back(LOCAL, held, one)
    output.table(_COLUMNS, [(one.path, one.name, one.reason) for one in planned])
    done = sum(one.name is not None for one in planned)
    output.say(f"{counted(done, 'directory', 'directories')} {are(done, dry_run=dry_run)} renamed back")
