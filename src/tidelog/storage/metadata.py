"""Small files that identify a directory: topic, node and cluster ids.

`partition.metadata`, in each partition (no line end after the last line):

    version: 0
    topic_id: 2wJP_tx-TfSXMIcm-Gw0eA        16 bytes in URL-safe base64 without padding, as Kafka prints ids

`meta.properties`, in each root, a Java properties file:

    #
    #Sun Nov 15 08:43:58 UTC 2026
    node.id=1                               broker.id in version 0, which promises no field at all
    directory.id=ErmpkJpLJN_KJ6grhgcoCQ
    version=1
    cluster.id=5Vd06HMPRtCwEpY7p6k1FA

`.kafka_cleanshutdown`, in each root after a clean shutdown: `{"version":0,"brokerEpoch":9}`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import uuid
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tidelog.errors import InvalidIndexError
from tidelog.storage.atomic import atomic_write
from tidelog.storage.checkpoints import parse_number, text_lines
from tidelog.storage.files import FileSystem, read_file

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = [
    "MetaProperties",
    "PartitionMetadata",
    "format_id",
    "format_meta_properties",
    "format_partition_metadata",
    "parse_id",
    "parse_partition_metadata",
    "parse_properties",
    "random_id",
    "read_clean_shutdown",
    "read_meta_properties",
    "read_partition_metadata",
    "write_clean_shutdown",
    "write_meta_properties",
    "write_partition_metadata",
]

_INT32 = 2**31 - 1
_LARGEST = 1 << 20
"""More bytes than any of these files has."""
_FIELD = re.compile(r":[ \t\v\f]+")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PLAIN_ESCAPES = {**{char: name for name, char in _ESCAPES.items()}, **{char: char for char in "\\=:#! "}}


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """What `partition.metadata` says."""

    topic_id: uuid.UUID
    version: int = 0


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """What `meta.properties` says. `node_id` is called `broker.id` in version 0."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: uuid.UUID | None = None


def random_id() -> uuid.UUID:
    """A new topic or directory id; like Kafka's, none that prints with a dash in front."""
    while True:
        found = uuid.uuid4()
        if not format_id(found).startswith("-"):
            return found


def format_id(identity: uuid.UUID) -> str:
    """An id as Kafka prints it."""
    return base64.urlsafe_b64encode(identity.bytes).rstrip(b"=").decode("ascii")


@lru_cache(maxsize=1 << 12)  # a topic's many partitions have the same
def parse_id(text: str) -> uuid.UUID:
    """The id that Kafka prints as `text`; ValueError if it is none."""
    plain = text.rstrip("=")
    if re.fullmatch("[A-Za-z0-9_-]{22}", plain) is None or len(text) > 24:
        raise ValueError(f"{text[:24]!r} is not an id of 16 bytes in URL-safe base64")
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(plain + "=="))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not an id of 16 bytes in URL-safe base64") from error


def read_partition_metadata(fs: FileSystem, path: StrPath) -> PartitionMetadata:
    """What a `partition.metadata` file says; a version above 0 is taken, as Kafka takes it."""
    return parse_partition_metadata(read_file(fs, path, limit=_LARGEST), str(path))


def parse_partition_metadata(data: bytes, source: str) -> PartitionMetadata:
    """What these bytes of a `partition.metadata` file say; `source` names it."""
    values = []
    lines = text_lines(data, source)
    for number, key in enumerate(("version", "topic_id"), 1):
        fields = _FIELD.split(lines[number - 1]) if number <= len(lines) else []
        if len(fields) != 2:
            raise InvalidIndexError(f"{source}, line {number}: not '{key}: <value>'")
        values.append(fields[1].rstrip())
    version = parse_number(values[0], _INT32, f"{source}, line 1")
    topic_id = _id(values[1], f"{source}, line 2")
    if topic_id.int == 0:
        raise InvalidIndexError(f"{source}, line 2: the topic id is zero, which no topic has")
    return PartitionMetadata(topic_id, version)


def write_partition_metadata(fs: FileSystem, path: StrPath, topic_id: uuid.UUID) -> None:
    """Replace a `partition.metadata` file, durably."""
    atomic_write(fs, path, format_partition_metadata(topic_id))


def format_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """A `partition.metadata` file."""
    return f"version: 0\ntopic_id: {format_id(topic_id)}".encode()


def read_meta_properties(fs: FileSystem, path: StrPath) -> MetaProperties:
    """What a `meta.properties` file says."""
    source = str(path)
    found = parse_properties(read_file(fs, path, limit=_LARGEST), source)
    version = parse_number(found.get("version", "0").strip(), _INT32, f"{source}, version")
    if version > 1:
        raise InvalidIndexError(f"{source}: version {version}, but only 0 and 1 are known")
    node_key = "node.id" if version else "broker.id"
    node, cluster, directory = found.get(node_key), found.get("cluster.id"), found.get("directory.id")
    if version == 1 and (node is None or cluster is None):
        raise InvalidIndexError(f"{source}: has no {'node.id' if node is None else 'cluster.id'}")
    return MetaProperties(
        version=version,
        cluster_id=cluster,
        node_id=None if node is None else parse_number(node, _INT32, f"{source}, {node_key}"),
        directory_id=None if directory is None else _id(directory, f"{source}, directory.id"),
    )


def write_meta_properties(fs: FileSystem, path: StrPath, meta: MetaProperties) -> None:
    """Replace a `meta.properties` file, durably."""
    atomic_write(fs, path, format_meta_properties(meta))


def format_meta_properties(meta: MetaProperties) -> bytes:
    """A `meta.properties` file."""
    values: dict[str, object] = {"node.id" if meta.version else "broker.id": meta.node_id}
    values |= {"directory.id": format_id(meta.directory_id) if meta.directory_id else None}
    values |= {"version": meta.version, "cluster.id": meta.cluster_id}
    lines = [f"{key}={_escape(str(value))}\n" for key, value in values.items() if value is not None]
    return "".join(["#\n", *lines]).encode("latin-1")


def read_clean_shutdown(fs: FileSystem, path: StrPath) -> int | None:
    """The broker epoch in a clean-shutdown file; None if it says none (being there tells the rest)."""
    try:
        found = json.loads(read_file(fs, path, limit=_LARGEST))
    except (ValueError, RecursionError, InvalidIndexError):
        return None
    epoch = found.get("brokerEpoch") if isinstance(found, dict) else None
    return epoch if type(epoch) is int else None


def write_clean_shutdown(fs: FileSystem, path: StrPath, broker_epoch: int) -> None:
    """Write a clean-shutdown file, durably."""
    atomic_write(fs, path, f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode())


def parse_properties(data: bytes, source: str) -> dict[str, str]:
    """The pairs in a Java properties file: Latin-1, `#` and `!` comments, escapes, continued lines."""
    found: dict[str, str] = {}
    lines = enumerate(re.split(r"\r\n|\n|\r", data.decode("latin-1")), 1)
    for number, raw in lines:
        line = raw.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        while re.search(r"(?<!\\)(\\\\)*\\$", line):
            following = next(lines, (0, ""))[1]
            line = line[:-1] + following.lstrip(" \t\f")
        match = re.match(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
        if match is None:
            raise InvalidIndexError(f"{source}, line {number}: not '<key>=<value>'")
        where = f"{source}, line {number}"
        found[_unescape(match[1], where)] = _unescape(match[2], where)
    return found


def _escape(text: str) -> str:
    """As Java writes it: in ASCII, and on one line."""

    def one(match: re.Match[str]) -> str:
        if match[0] in _PLAIN_ESCAPES:
            return "\\" + _PLAIN_ESCAPES[match[0]]
        units = match[0].encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))

    return re.sub(r"[\\=:#! ]|[^ -~]", one, text)


def _unescape(text: str, where: str) -> str:
    def one(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] != "u":
            return _ESCAPES.get(escape, escape)
        if len(escape) != 5:
            raise InvalidIndexError(f"{where}: \\u is not followed by four hexadecimal digits")
        return chr(int(escape[1:], 16))

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text, flags=re.DOTALL)


def _id(text: str, where: str) -> uuid.UUID:
    try:
        return parse_id(text)
    except ValueError as error:
        raise InvalidIndexError(f"{where}: {error}") from None
