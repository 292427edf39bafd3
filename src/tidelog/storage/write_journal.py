"""A root's journal of bulk writes: what is being published, and what was published last.

    <root>/tidelog-journal        a plain file, which brokers pass over; replaced whole (`atomic`)
        1                         version
        8f3a01bc                  CRC-32 of the line below
        {"sequence": 7, "committed": {...}, "pending": null, "root": "dGhpcyBpcyBub3QgYSByb290"}

`pending` is there from before a write's first change until after its last. It says where each partition ended
and started before, and where the staged data is: whoever opens the root next finishes the write or takes it
back, and whoever reads without opening sees each partition as it was. It also says whose the partitions are,
by the ids of their topics, and which batches the write has, by their checksums: nothing else is ever cut.
`committed` is the last batch of each
query, so that a batch that is written again adds nothing; `published` is when that was. A query that has
published nothing for 30 days is forgotten, and the oldest are beyond 100,000 queries (`remembered`).
`sequence` grows with every publication: a reader who finds the same number before and after a look has looked
between two. `root` is the id of the root's directory: a journal that was copied from another root is none of
this one's.

Nothing in the journal is trusted: names of manifests must be bare names, numbers must be in range, and the
staged data itself must prove that it belongs to this root (`manager.publishing.mark`). Its path is relative
to the root where it lies beside it, so that both can be moved.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidelog.errors import InvalidIndexError
from tidelog.storage.atomic import atomic_write
from tidelog.storage.files import FileSystem, read_file
from tidelog.storage.metadata import format_id, parse_id
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = [
    "JOURNAL_FILE",
    "LEDGER_PREFIX",
    "PendingPartition",
    "PendingWrite",
    "WriteJournal",
    "format_journal",
    "parse_journal",
    "read_journal",
    "remembered",
    "staging_name",
    "staging_path",
    "write_journal",
]

JOURNAL_FILE = "tidelog-journal"

_VERSION = "1"
_INT32, _INT64 = 2**31 - 1, 2**63 - 1
_LIMIT = 64 << 20
_REMEMBERED_MS = 30 * 24 * 60 * 60 * 1000
_MAX_QUERIES = 100_000
LEDGER_PREFIX = "ingest "
"""What the names of queries begin with whose batches of files are kept in a ledger."""


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
    topic_id: uuid.UUID | None = None
    """The topic's; None where that is not told, as by older releases."""
    checksums: bytes | None = None
    """The CRC-32C of each batch of the write, 4 bytes each (big-endian), in order; None where they are not
    told: by older releases, of logs that change what a checksum covers, of very many batches.
    """


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write that is being published."""

    query: str
    """Whose it is; empty for nobody's, which is not remembered."""
    batch: int
    staging: str
    """The directory with the staged files, absolute or relative to the root (`staging_path`)."""
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
    root: str = ""
    """The id of the root's directory; empty where that is not told."""
    published: Mapping[str, int] = field(default_factory=dict)
    """When each query published last, in milliseconds; older releases did not tell."""

    def has(self, query: str, batch: int) -> bool:
        """Whether this batch of a query was published."""
        return bool(query) and self.committed.get(query, -1) >= batch


def remembered(journal: WriteJournal, now_ms: int) -> WriteJournal:
    """The journal without the queries that need not be known any more.

    One that has published nothing for 30 days goes: by then nobody tries a batch again. Ledgers of ingested
    files are kept for good, for they ask about all their batches at every run, and they are few. Beyond
    100,000 queries the oldest go, so that the journal can be read and written. A query whose time is not
    known counts as one of now.
    """
    times = {query: journal.published.get(query, now_ms) for query in journal.committed}
    kept = [
        query
        for query, time_ms in sorted(times.items(), key=lambda one: -one[1])
        if query.startswith(LEDGER_PREFIX) or now_ms - time_ms <= _REMEMBERED_MS
    ]
    if len(kept) > _MAX_QUERIES:
        ledgers = {query for query in kept if query.startswith(LEDGER_PREFIX)}
        others = [query for query in kept if query not in ledgers]
        kept = [*ledgers, *others[: max(_MAX_QUERIES - len(ledgers), 0)]]
    return replace(
        journal,
        committed={query: journal.committed[query] for query in kept},
        published={query: times[query] for query in kept},
    )


def format_journal(journal: WriteJournal) -> bytes:
    """The file's bytes."""
    pending = journal.pending
    content: dict[str, Any] = {
        "sequence": journal.sequence,
        "committed": dict(journal.committed),
        "pending": None if pending is None else _pending_fields(pending),
        "root": journal.root,
        "published": dict(journal.published),
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
                None if one.topic_id is None else format_id(one.topic_id),
                None if one.checksums is None else base64.b64encode(one.checksums).decode(),
            ]
            for one in pending.partitions
        ],
    }


def parse_journal(data: bytes, source: str) -> WriteJournal:
    """What these bytes say; InvalidIndexError if they are no journal. `source` names the file."""
    try:
        version, checksum, body = data.decode().split("\n")[:3]
        if version != _VERSION:
            raise InvalidIndexError(f"{source} has version {version!r}; this tidelog reads {_VERSION}")
        if int(checksum, 16) != zlib.crc32(body.encode()):
            raise ValueError("its checksum does not match")
        content = json.loads(body)
        committed = {str(query): _number(batch, -_INT64 - 1) for query, batch in content["committed"].items()}
        pending, told = content["pending"], content.get("published", {})
        return WriteJournal(
            _number(content["sequence"]),
            committed,
            None if pending is None else _parse_pending(pending),
            str(content.get("root", "")),
            {str(query): _number(time_ms, -_INT64 - 1) for query, time_ms in told.items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidIndexError(f"{source} is not a journal of writes: {error}") from error


def _parse_pending(content: dict[str, Any]) -> PendingWrite:
    return PendingWrite(
        str(content["query"]),
        _number(content["batch"], -_INT64 - 1),
        _path(content["staging"]),
        tuple(_bare(name) for name in content["manifests"]),
        tuple(_parse_partition(*values) for values in content["partitions"]),
        bool(content["goes_back"]),
    )


def _parse_partition(
    topic: Any,
    number: Any,
    base_offset: Any,
    records: Any,
    epoch: Any,
    start: Any,
    new_start: Any,
    topic_id: Any = None,
    checksums: Any = None,
) -> PendingPartition:
    one = PendingPartition(
        TopicPartition(str(topic), _number(number, largest=_INT32)),
        _number(base_offset),
        _number(records),
        _number(epoch, -1, _INT32),
        _number(start),
        _number(new_start),
        None if topic_id is None else parse_id(topic_id),
        None if checksums is None else base64.b64decode(checksums, validate=True),
    )
    if one.checksums is not None and len(one.checksums) % 4:
        raise ValueError("its checksums are cut short")
    _number(one.base_offset + one.records)
    return one


def _number(value: Any, smallest: int = 0, largest: int = _INT64) -> int:
    if not smallest <= (number := int(value)) <= largest:
        raise ValueError(f"{number} is not from {smallest} to {largest}")
    return number


def _bare(value: Any) -> str:
    """A name in a directory, which leads nowhere else."""
    name = _path(value)
    if "/" in name or name in (".", ".."):
        raise ValueError(f"{name!r} is not a manifest's name")
    return name


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"{value!r} is not a path")
    value.encode()  # half a character would fail only where it is used
    return value


def read_journal(fs: FileSystem, root: StrPath) -> WriteJournal:
    """A root's journal; an empty one if there is none."""
    path = f"{root}/{JOURNAL_FILE}"
    try:
        data = read_file(fs, path, limit=_LIMIT)
    except FileNotFoundError:
        return WriteJournal()
    return parse_journal(data, path)


def staging_path(root: str, staging: str) -> str:
    """Where a journal's `staging` is."""
    return os.path.normpath(os.path.join(os.path.realpath(root), staging))


def staging_name(root: str, path: str) -> str:
    """What a journal calls a staging directory: what lies beside the root moves with it."""
    real, above = os.path.realpath(path), os.path.dirname(os.path.realpath(root))
    return os.path.relpath(real, os.path.realpath(root)) if real.startswith(f"{above}/") else real


def write_journal(fs: FileSystem, root: StrPath, journal: WriteJournal) -> None:
    """Replace a root's journal, durably."""
    atomic_write(fs, f"{root}/{JOURNAL_FILE}", format_journal(journal))
