"""A query string -> what is wanted of a partition, checked.

topic, partition      which partition
offset | since        from where on: an offset, or a time as the command takes it
to_offset | until     before what
last                  the last N of it, not the first
key, key_match, contains, match, header, tombstones, committed    as the options of `tidelog search`
limit                 how many records
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.manager.upkeep.times import parse_moment
from tidelog.scanning.bounds import AtTime, OffsetBound
from tidelog.scanning.filters import RecordFilter
from tidelog.types import TopicPartition
from tidelog.ui.exchange import Refusal

__all__ = ["MAX_RECORDS", "RecordQuery", "parse_partition", "parse_query", "parse_record"]

MAX_RECORDS = 500
"""Records in one answer."""
_DEFAULT_RECORDS = 50
_MAX_TEXT = 4096
_MAX_OFFSET = (1 << 63) - 1
_MAX_PARTITION = (1 << 31) - 1

_NAMES = frozenset(
    {
        "topic",
        "partition",
        *("offset", "since", "to_offset", "until", "last", "limit"),
        *("key", "key_match", "contains", "match", "header", "tombstones", "committed"),
    }
)


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Records of one partition. `since` and `until` are the times as they were written."""

    partition: TopicPartition
    offset: int | None = None
    since: str | None = None
    to_offset: int | None = None
    until: str | None = None
    from_end: bool = False
    limit: int = _DEFAULT_RECORDS
    committed: bool = False
    wanted: RecordFilter = field(default_factory=RecordFilter)

    def start(self, now_ms: int) -> OffsetBound:
        """Where it starts."""
        return self.offset if self.since is None else AtTime(parse_moment(self.since, now_ms))

    def end(self, now_ms: int) -> OffsetBound:
        """What it ends before."""
        return self.to_offset if self.until is None else AtTime(parse_moment(self.until, now_ms))


def parse_partition(query: Mapping[str, str]) -> TopicPartition:
    """The partition that is asked for. Raises Refusal."""
    topic = _text(query, "topic")
    if topic is None:
        raise Refusal(400, "topic is missing")
    number = _number(query, "partition", _MAX_PARTITION)
    if number is None:
        raise Refusal(400, "partition is missing")
    return TopicPartition(topic, number)


def parse_record(query: Mapping[str, str]) -> tuple[TopicPartition, int]:
    """The partition and offset of one record. Raises Refusal."""
    _refuse_others(query, frozenset({"topic", "partition", "offset"}))
    offset = _number(query, "offset", _MAX_OFFSET)
    if offset is None:
        raise Refusal(400, "offset is missing")
    return parse_partition(query), offset


def parse_query(query: Mapping[str, str]) -> RecordQuery:
    """What is wanted. Raises Refusal, and InvalidInputError for a regular expression that is none."""
    _refuse_others(query, _NAMES)
    for one, other in (("offset", "since"), ("to_offset", "until"), ("last", "limit")):
        if query.get(one) and query.get(other):
            raise Refusal(400, f"{one} and {other} are given: choose one")
    last = _number(query, "last", MAX_RECORDS)
    limit = _number(query, "limit", MAX_RECORDS) if last is None else last
    return RecordQuery(
        parse_partition(query),
        offset=_number(query, "offset", _MAX_OFFSET),
        since=_text(query, "since"),
        to_offset=_number(query, "to_offset", _MAX_OFFSET),
        until=_text(query, "until"),
        from_end=last is not None,
        limit=_DEFAULT_RECORDS if limit is None else limit,
        committed=_flag(query, "committed"),
        wanted=RecordFilter(
            key=_text(query, "key"),
            key_match=_text(query, "key_match"),
            value_contains=_text(query, "contains"),
            value_match=_text(query, "match"),
            header=_text(query, "header"),
            tombstones=_flag(query, "tombstones"),
        ),
    )


def _refuse_others(query: Mapping[str, str], known: frozenset[str]) -> None:
    others = sorted(set(query) - known)
    if others:
        raise Refusal(400, f"{others[0][:80]!r} is not known: choose from {', '.join(sorted(known))}")


def _text(query: Mapping[str, str], name: str) -> str | None:
    """A text; an empty field of a form is none."""
    found = query.get(name) or None
    if found is not None and len(found) > _MAX_TEXT:
        raise Refusal(400, f"{name} has more than {_MAX_TEXT} characters")
    return found


def _number(query: Mapping[str, str], name: str, largest: int) -> int | None:
    found = query.get(name) or None
    if found is None:
        return None
    if re.fullmatch("[0-9]{1,19}", found) is None or int(found) > largest:
        raise Refusal(400, f"{name} is a number from 0 to {largest}")
    return int(found)


def _flag(query: Mapping[str, str], name: str) -> bool:
    found = query.get(name) or "false"
    if found not in ("true", "false"):
        raise Refusal(400, f"{name} is true or false")
    return found == "true"
