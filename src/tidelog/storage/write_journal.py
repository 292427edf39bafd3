"""A root's journal of bulk writes: what is being published, and what was published last.

    <root>/tidelog-journal        a plain file, which brokers pass over; replaced whole (`atomic`)
        1                         version
        8f3a01bc                  CRC-32 of the line below
        {"sequence": 7, "committed": {...}, "pending": null}

`pending` is there from before a write's first change until after its last. It says where each partition ended
and started before, and where the staged data is: whoever opens the root next finishes the write or takes it
back, and whoever reads without opening sees each partition as it was. `committed` is the last batch of each
query, so that a batch that is written again adds nothing. `sequence` grows with every publication: a reader
who finds the same number before and after a look has looked between two.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidelog.errors import InvalidIndexError
from tidelog.storage.atomic import atomic_write
from tidelog.storage.files import FileSystem, read_file
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = [
    "JOURNAL_FILE",
    "PendingPartition",
    "PendingWrite",
    "WriteJournal",
    "format_journal",
    "parse_journal",
    "read_journal",
    "write_journal",
]

JOURNAL_FILE = "tidelog-journal"

_VERSION = "1"


@dataclass(frozen=True, slots=True)
class PendingPartition:
    """A partition of a write that is being published."""

    topic_partition: TopicPartition
    base_offset: int
    """Where the log ended before."""
    records: int
    leader_epoch: int
    """The epoch that is stamped into what is added."""
    log_start: int
    """Where the log started before."""
    new_log_start: int
    """Where it is to start."""


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write that is being published."""

    query: str
    """Whose it is; empty for nobody's, which is not remembered."""
    batch: int
    staging: str
    """The directory with the staged files."""
    manifests: tuple[str, ...]
    """The manifests in it, in order."""
    partitions: tuple[PendingPartition, ...]
    goes_back: bool = False
    """Whether it was given up: what is there of it has to go."""


@dataclass(frozen=True, slots=True)
class WriteJournal:
    """What the journal says."""

    sequence: int = 0
    committed: Mapping[str, int] = field(default_factory=dict)
    pending: PendingWrite | None = None

    def has(self, query: str, batch: int) -> bool:
        """Whether this batch of a query was published."""
        return bool(query) and self.committed.get(query, -1) >= batch


def format_journal(journal: WriteJournal) -> bytes:
    """The file's bytes."""
    pending = journal.pending
    content: dict[str, Any] = {
        "sequence": journal.sequence,
        "committed": dict(journal.committed),
        "pending": None if pending is None else _pending_fields(pending),
    }
    body = json.dumps(content, separators=(",", ":"))
    return f"{_VERSION}\n{zlib.crc32(body.encode()):08x}\n{body}\n".encode()


def _pending_fields(pending: PendingWrite) -> dict[str, Any]:
    return {
        "query": pending.query,
        "batch": pending.batch,
        "staging": pending.staging,
        "manifests": list(pending.manifests),
        "goes_back": pending.goes_back,
        "partitions": [
            [
                one.topic_partition.topic,
                one.topic_partition.partition,
                one.base_offset,
                one.records,
                one.leader_epoch,
                one.log_start,
                one.new_log_start,
            ]
            for one in pending.partitions
        ],
    }


def parse_journal(data: bytes, source: str) -> WriteJournal:
    """What these bytes say; InvalidIndexError where they are no journal. `source` names the file."""
    try:
        version, checksum, body = data.decode().split("\n")[:3]
        if version != _VERSION:
            raise InvalidIndexError(f"{source} has version {version!r}; this tidelog reads {_VERSION}")
        if int(checksum, 16) != zlib.crc32(body.encode()):
            raise ValueError("its checksum does not match")
        content = json.loads(body)
        committed = {str(query): int(batch) for query, batch in content["committed"].items()}
        pending = content["pending"]
        return WriteJournal(
            int(content["sequence"]), committed, None if pending is None else _parse_pending(pending)
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidIndexError(f"{source} is no journal of writes: {error}") from error


def _parse_pending(content: dict[str, Any]) -> PendingWrite:
    return PendingWrite(
        str(content["query"]),
        int(content["batch"]),
        str(content["staging"]),
        tuple(str(name) for name in content["manifests"]),
        tuple(
            PendingPartition(TopicPartition(str(topic), int(number)), *(int(value) for value in values))
            for topic, number, *values in content["partitions"]
        ),
        bool(content["goes_back"]),
    )


def read_journal(fs: FileSystem, root: StrPath) -> WriteJournal:
    """A root's journal; an empty one where there is none."""
    path = f"{root}/{JOURNAL_FILE}"
    try:
        data = read_file(fs, path)
    except FileNotFoundError:
        return WriteJournal()
    return parse_journal(data, path)


def write_journal(fs: FileSystem, root: StrPath, journal: WriteJournal) -> None:
    """Replace a root's journal, durably."""
    atomic_write(fs, f"{root}/{JOURNAL_FILE}", format_journal(journal))
