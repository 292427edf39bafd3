"""Checkpoint files: text, replaced as a whole (`atomic`).

    0                       version
    2                       number of lines that follow
    orders 0 1500           <topic> <partition> <offset>     offset checkpoints of a root
    orders 1 1499

`leader-epoch-checkpoint` of a partition is the same with lines `<epoch> <start offset>`.

Files are read as Kafka reads them: an empty file, or a version alone, is an empty checkpoint; fields are
separated by any white space; of two lines for one partition the last one counts. Unlike Kafka, negative
numbers are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tidelog.errors import InvalidIndexError
from tidelog.storage.atomic import atomic_write
from tidelog.storage.files import FileSystem, read_file
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = [
    "EpochEntry",
    "format_epochs",
    "format_offsets",
    "parse_epochs",
    "parse_offsets",
    "read_epoch_checkpoint",
    "read_offset_checkpoint",
    "write_epoch_checkpoint",
    "write_offset_checkpoint",
]

CURRENT_VERSION = 0
_INT32, _INT64 = 2**31 - 1, 2**63 - 1
_LINE_END = re.compile(r"\r\n|\n|\r")
_SPACE = re.compile(r"[ \t\v\f]+")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: int


def parse_offsets(data: bytes, source: str) -> dict[TopicPartition, int]:
    """The offsets in an offset checkpoint file; `source` names it in errors."""

    def entry(fields: list[str], where: str) -> tuple[TopicPartition, int]:
        if len(fields) != 3 or not fields[0]:
            raise _malformed(where, "not '<topic> <partition> <offset>'")
        partition = parse_number(fields[1], _INT32, where)
        return TopicPartition(fields[0], partition), parse_number(fields[2], _INT64, where)

    return dict(_parse(data, source, entry))


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint file, in the mapping's order."""
    return _format(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items())


def parse_epochs(data: bytes, source: str) -> list[EpochEntry]:
    """The entries of a leader-epoch file in its order; `source` names it in errors."""

    def entry(fields: list[str], where: str) -> EpochEntry:
        if len(fields) != 2:
            raise _malformed(where, "not '<epoch> <start offset>'")
        return EpochEntry(parse_number(fields[0], _INT32, where), parse_number(fields[1], _INT64, where))

    return _parse(data, source, entry)


def format_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """A leader-epoch file, in the given order."""
    return _format(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def read_offset_checkpoint(fs: FileSystem, path: StrPath) -> dict[TopicPartition, int]:
    """The offsets in an offset checkpoint file; empty if there is no file, as for Kafka."""
    return parse_offsets(_read(fs, path), str(path))


def write_offset_checkpoint(fs: FileSystem, path: StrPath, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint file, durably."""
    atomic_write(fs, path, format_offsets(offsets))


def read_epoch_checkpoint(fs: FileSystem, path: StrPath) -> list[EpochEntry]:
    """The entries of a leader-epoch file; empty if there is no file."""
    return parse_epochs(_read(fs, path), str(path))


def write_epoch_checkpoint(fs: FileSystem, path: StrPath, entries: Iterable[EpochEntry]) -> None:
    """Replace a leader-epoch file, durably."""
    atomic_write(fs, path, format_epochs(entries))


def text_lines(data: bytes, source: str) -> list[str]:
    """The lines of a small UTF-8 file; a line end at the very end opens no further line."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidIndexError(f"{source} is not UTF-8 text (position {error.start})") from None
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    return lines


def parse_number(text: str, largest: int, where: str) -> int:
    """A decimal number in [0, largest]; `where` names file and line in errors."""
    if _NUMBER.fullmatch(text) is None or not 0 <= (number := int(text)) <= largest:
        raise _malformed(where, f"{text[:40]!r} is not a number from 0 to {largest}")
    return number


def _parse(data: bytes, source: str, entry: Callable[[list[str], str], _T]) -> list[_T]:
    lines = text_lines(data, source)
    if not lines:
        return []
    version = parse_number(lines[0], _INT32, f"{source}, line 1")
    if version != CURRENT_VERSION:
        raise _malformed(f"{source}, line 1", f"version {version}, but only {CURRENT_VERSION} is known")
    if len(lines) == 1:
        return []
    expected = parse_number(lines[1], _INT32, f"{source}, line 2")
    found = []
    for number, line in enumerate(lines[2:], 3):
        fields = _SPACE.split(line)
        if len(fields) > 1 and not fields[-1]:
            fields.pop()
        found.append(entry(fields, f"{source}, line {number}"))
    if len(found) != expected:
        raise _malformed(f"{source}, line 2", f"announces {expected} entries, but {len(found)} follow")
    return found


def _format(lines: Iterable[str]) -> bytes:
    body = [f"{line}\n" for line in lines]
    return f"{CURRENT_VERSION}\n{len(body)}\n{''.join(body)}".encode()


def _read(fs: FileSystem, path: StrPath) -> bytes:
    try:
        return read_file(fs, path)
    except FileNotFoundError:
        return b""


def _malformed(where: str, what: str) -> InvalidIndexError:
    return InvalidIndexError(f"{where}: {what}")
