"""Roots and partition directories as they are given to commands, and `--config KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidelog.cli.errors import UsageError
from tidelog.storage import LOCAL
from tidelog.storage.names import (
    META_PROPERTIES_FILE,
    DirectoryState,
    FileKind,
    parse_partition_directory,
)
from tidelog.types import TopicPartition

__all__ = [
    "check_root",
    "check_target",
    "existing_directory",
    "live_partition",
    "log_bytes",
    "parse_settings",
]


def parse_settings(settings: Sequence[str], option: str = "--config") -> dict[str, str]:
    """What an option was given: KEY=VALUE, any number of times."""
    pairs = [setting.partition("=") for setting in settings]
    if any(not equals for _, equals, _ in pairs):
        raise UsageError(f"{option} takes KEY=VALUE, not {' '.join(settings)!r}")
    return {key.strip(): value for key, _, value in pairs}


def existing_directory(path: Path) -> str:
    """A directory's path as text; UsageError if it is none."""
    found = str(path.absolute())
    if not path.is_dir():
        raise UsageError(
            f"{found} is not a directory: name a root (log.dirs) or a partition's directory in it"
        )
    return found


def live_partition(directory: str) -> TopicPartition:
    """The partition in a directory; UsageError unless it is in use: a root's commands go by the partition's
    name, which the one in use has, too.
    """
    found = parse_partition_directory(Path(directory).name)
    if found.state is not DirectoryState.LIVE:
        raise UsageError(
            f"{directory} is not in use, as its name says ({found.state.value}): name "
            f"{found.topic_partition}, which is, if that is meant. tidelog cat and copy read this one"
        )
    return found.topic_partition


def check_root(directory: str) -> None:
    """UsageError where a directory is no root: to open one makes it one."""
    if not LOCAL.exists(f"{directory}/{META_PROPERTIES_FILE}"):
        raise UsageError(
            f"{directory} is not the root of a broker or store (it has no {META_PROPERTIES_FILE})"
        )


def check_target(path: Path | None, sources: Sequence[Path] = ()) -> None:
    """UsageError where a new directory would lie in a root, which no broker starts on any more then, or in
    one of the `sources`, which are only read.
    """
    given = {source.resolve() for source in sources}
    for above in path.resolve().parents if path is not None else ():
        if above in given or LOCAL.exists(f"{above}/{META_PROPERTIES_FILE}"):
            raise UsageError(f"{path} lies in the root {above}, which no broker would start on then")


def log_bytes(directory: str) -> int:
    """How many bytes the log files in a root or partition have."""
    found = (path for path in Path(directory).rglob(f"*{FileKind.LOG.value}"))
    return sum(path.stat().st_size for path in found if path.is_file())
