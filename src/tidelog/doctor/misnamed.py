"""Files in a partition's directory that Kafka takes for its own by the suffix, with a name that is no offset.

backup.log, backup.index, backup.snapshot, any .cleaned, any .swap    it takes what is before the first dot
                      for an offset (`LogFileUtils.offsetFromFile`); if that is no number, it ends
5.log                 the number is enough: it makes the segment 00000000000000000005, empty
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidelog.doctor.findings import Finding, Kind, Severity
from tidelog.storage import FileSystem
from tidelog.storage.names import FileKind, Transient, parse_segment_file

__all__ = ["examine_names"]

_TAKEN = (*(kind.value for kind in FileKind), Transient.CLEANED.value, Transient.SWAP.value)
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_ADVICE = "tidelog fix moves it aside; or move it out of the directory"


def examine_names(fs: FileSystem, path: str) -> Iterator[Finding]:
    """What keeps a broker from loading the partition at `path`, or gives it segments that nobody wrote."""
    for entry in sorted(fs.list(path)):
        if (
            entry.is_directory
            or not entry.name.endswith(_TAKEN)
            or parse_segment_file(entry.name) is not None
        ):
            continue
        offset = entry.name.partition(".")[0]
        if _NUMBER.fullmatch(offset) is None or abs(int(offset)) >= 2**63:
            yield Finding(
                Severity.FATAL,
                Kind.SEGMENTS,
                f"{path}/{entry.name}",
                "a file with one of Kafka's suffixes, whose name is not an offset",
                "it stops: it parses the name as a number",
                _ADVICE,
            )
        elif entry.name.endswith(FileKind.LOG.value):
            yield Finding(
                Severity.DAMAGE,
                Kind.SEGMENTS,
                f"{path}/{entry.name}",
                "a log whose name does not have 20 digits",
                f"it creates an empty segment {int(offset):020d}.log, and never reads this",
                _ADVICE,
            )
