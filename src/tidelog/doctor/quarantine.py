"""Where repairs keep what they change, and the manifest of each.

    <root>/.tidelog-fix-<run>.json                        the manifest of a repair
    <root>/.tidelog-quarantine-<run>-<n>-<file>           a file of the root itself
    <partition>/.tidelog-quarantine/<run>/<n>-<file>      a file of a partition
    <root>.tidelog-quarantine/<directory>                 beside the root: what is no partition's

A broker ignores files in a root and directories in a partition; a directory in a root that is no partition
would keep it from starting. What is kept is on the same disk, so that it is moved, not copied. A partition
that is deleted takes what was kept in it along.

A manifest is written before anything changes and removed after everything is back:

    applying -> applied -> undoing -> (gone)          killed while `applying` or `undoing`: undo again
    applying -> emptying -> (gone)                    a rewrite that was killed can also be accepted
                applied -> emptying -> (gone)         what was kept is deleted
"""

from __future__ import annotations

import enum
import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from tidelog.doctor.plans import Act
from tidelog.errors import InvalidIndexError, LogError
from tidelog.storage import FileSystem, atomic_write, read_file
from tidelog.storage.attributes import Attributes
from tidelog.storage.files import parent

__all__ = [
    "QUARANTINE",
    "Kept",
    "Manifest",
    "RunState",
    "check_links",
    "find_runs",
    "new_run",
    "place_for",
    "write_manifest",
]

_MANIFEST = re.compile(r"\.tidelog-fix-([0-9a-z-]{1,64})\.json")
QUARANTINE = ".tidelog-quarantine"
"""What the names of kept files and directories begin with, and how a directory beside a root ends."""

_VERSION = 1


class RunState(enum.Enum):
    """How far a repair is."""

    APPLYING = "applying"
    APPLIED = "applied"
    UNDOING = "undoing"
    EMPTYING = "emptying"


@dataclass(slots=True)
class Kept:
    """One change, as it can be undone. Paths begin at the root, which is empty."""

    act: Act
    path: str
    place: str
    """Where what was there is kept."""
    before: Attributes | None
    """Of what was there; None if nothing was."""
    size: int = 0
    """Where a file was cut."""
    target: str = ""
    """The new name of what was renamed."""
    target_before: Attributes | None = None


@dataclass(slots=True)
class Manifest:
    """A repair of one root."""

    root: str
    run: str
    state: RunState
    kept: list[Kept]
    directories: dict[str, Attributes] = field(default_factory=dict)
    """Directories whose entries changed, as they were."""
    after: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Size and digest of what the repair left."""
    logs: dict[str, dict[str, int]] = field(default_factory=dict)
    """The logs, with their sizes, that it left in each directory of a partition."""

    @property
    def path(self) -> str:
        """The manifest's own file."""
        return f"{self.root}/.tidelog-fix-{self.run}.json"

    def at(self, path: str) -> str:
        """The path of something that the manifest names."""
        return f"{self.root}/{path}"


def new_run() -> str:
    """The name of a run: later ones come after it."""
    now_ns = time.time_ns()
    second = time.strftime("%Y%m%dt%H%M%S", time.gmtime(now_ns // 10**9))
    return f"{second}{now_ns % 10**9:09d}-{uuid.uuid4().hex[:6]}"


def place_for(root: str, path: str, run: str, number: int) -> str:
    """Where something is kept, from the root on; `path` begins there, too."""
    directory, _, name = path.rpartition("/")
    if not directory:
        return f"{QUARANTINE}-{run}-{number}-{name}"
    return f"{directory}/{QUARANTINE}/{run}/{number}-{name}"


def write_manifest(fs: FileSystem, manifest: Manifest) -> None:
    """Write the manifest, durably; what a full disk leaves of it is removed."""
    told = {
        "version": _VERSION,
        "state": manifest.state.value,
        "kept": [{**asdict(one), "act": one.act.value} for one in manifest.kept],
        "directories": {path: asdict(one) for path, one in manifest.directories.items()},
        "after": {path: list(one) for path, one in manifest.after.items()},
        "logs": manifest.logs,
    }
    temporary = f"{manifest.path}.tmp"
    try:
        atomic_write(fs, manifest.path, json.dumps(told, indent=1).encode(), temporary=temporary)
    except OSError:
        with suppress(OSError):
            fs.unlink(temporary)
        raise


def find_runs(fs: FileSystem, root: str) -> Iterator[Manifest]:
    """The repairs of a root that can be undone, oldest first; InvalidIndexError for a damaged manifest."""
    for entry in sorted(fs.list(root)):
        match = _MANIFEST.fullmatch(entry.name)
        if match is not None and not entry.is_directory:
            yield _read(fs, root, match[1])


def _read(fs: FileSystem, root: str, run: str) -> Manifest:
    path = f"{root}/.tidelog-fix-{run}.json"
    try:
        told = json.loads(read_file(fs, path))
        if told["version"] != _VERSION:
            raise InvalidIndexError(f"{path} is of version {told['version']}, but only {_VERSION} is known")
        kept = [_kept(root, run, number, one) for number, one in enumerate(told["kept"])]
        directories = {_inside(name): Attributes(**one) for name, one in told["directories"].items()}
        after = {_inside(name): (int(one[0]), int(one[1])) for name, one in told["after"].items()}
        logs = {_inside(name): _sizes(one) for name, one in told.get("logs", {}).items()}
        return Manifest(root, run, RunState(told["state"]), kept, directories, after, logs)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidIndexError(
            f"{path} is not the manifest of a repair ({error!r}): restore it, or remove it, and look for "
            f"what it kept in {QUARANTINE} of the partitions"
        ) from None


def _sizes(told: dict[str, Any]) -> dict[str, int]:
    return {str(name): int(size) for name, size in told.items()}


def _kept(root: str, run: str, number: int, told: dict[str, Any]) -> Kept:
    before, target_before = told["before"], told["target_before"]
    act, path = Act(told["act"]), _inside(told["path"])
    if not path and act is not Act.MODE:
        raise ValueError("the root itself is neither renamed nor replaced")
    target = _inside(told["target"], beside=True) if act is Act.RENAME else ""
    ours = place_for(root, target or path, run, number)
    if told["place"] not in ({ours, ""} if act is Act.RENAME else {ours}):
        raise ValueError(f"{told['place']!r} is not a place of this repair")
    return Kept(
        act,
        path,
        told["place"],
        None if before is None else Attributes(**before),
        int(told["size"]),
        target,
        None if target_before is None else Attributes(**target_before),
    )


def _inside(path: str, *, beside: bool = False) -> str:
    """A path of a manifest, which must not lead out of the root.

    What was renamed may lie in the directory that we make beside the root.
    """
    parts = path.split("/")
    inner = parts
    if beside and len(parts) == 3 and parts[0] == ".." and parts[1].endswith(QUARANTINE):
        inner = parts[1:]
    if (path and not {"", ".", ".."}.isdisjoint(inner)) or "\0" in path or len(parts) > 8:
        raise ValueError(f"{path!r} leads out of the root")
    return path


def check_links(fs: FileSystem, manifest: Manifest) -> None:
    """LogError if a path of the manifest leads through a symbolic link: what is behind it is not ours."""
    named = [path for one in manifest.kept for path in (one.path, one.place, one.target)]
    above = {path.rpartition("/")[0] for path in (*named, *manifest.after)}
    for directory in sorted({*above, *manifest.directories, *manifest.logs}):
        parts = directory.split("/")
        for count in range(1, len(parts) + 1):
            path = manifest.at("/".join(parts[:count]))
            if parts[count - 1] not in ("", "..") and fs.is_link(path):
                raise LogError(
                    f"{path} is a symbolic link, and what is behind it is not known to be this repair's: put "
                    f"the directory back in its place, or remove {manifest.path}"
                )


def directories_of(manifest: Manifest) -> set[str]:
    """The directories, from the root on, in which something is kept."""
    return {parent(one.place) for one in manifest.kept if "/" in one.place}
