"""A broker without sockets and files: topics by name, logs in memory, a clock that is set by hand."""

from __future__ import annotations

import datetime
import io
import typing
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_writer

from tidelog.broker.coordinators import Coordinators
from tidelog.broker.effects import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    Append,
    Caller,
    Effect,
    LoadedRecord,
    Partition,
    Reply,
    Request,
    Tick,
    WriteMarkers,
    carry_out,
)
from tidelog.broker.messages import _build

API_KEYS = {name: key for key, name in api_key_map.items()}


def request(name: str, version: int, **values: Any) -> Any:
    """A request of kio's from plain values; durations are milliseconds."""
    return _build(load_request_schema(API_KEYS[name], version), values)


class Topics:
    """Which topics there are."""

    def __init__(self, **counts: int) -> None:
        self.counts = dict(counts)
        self.ids: dict[str, uuid.UUID] = {}

    def names(self) -> Iterable[str]:
        return list(self.counts)

    def partition_count(self, name: str) -> int | None:
        return self.counts.get(name)

    def topic_id(self, name: str) -> uuid.UUID | None:
        if name not in self.counts:
            return None
        return self.ids.setdefault(name, uuid.uuid5(uuid.NAMESPACE_DNS, name))

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        return next((name for name in self.counts if self.topic_id(name) == topic_id), None)

    def leader_epoch(self, name: str, partition: int) -> int:
        return 7


@dataclass
class World:
    """Carries out effects; `failing` makes the next appends to a topic fail with that error."""

    topics: Topics = field(default_factory=lambda: Topics(t=3, u=2))
    options: dict[str, Any] = field(default_factory=dict)
    now_ms: int = 1_000_000
    logs: dict[Partition, list[LoadedRecord]] = field(default_factory=dict)
    markers: list[WriteMarkers] = field(default_factory=list)
    replies: dict[Any, Any] = field(default_factory=dict)
    failing: dict[str, ErrorCode] = field(default_factory=dict)
    marker_errors: dict[Partition, ErrorCode] = field(default_factory=dict)
    next_id: int = 1000
    wake_ms: int | None = None
    tickets: int = 0

    def __post_init__(self) -> None:
        self.coordinators = Coordinators(self.topics, **self.options)
        self.do(self.coordinators.resume(self.now_ms))

    # ---- asking

    def do(self, effects: Iterable[Effect]) -> None:
        carry_out(effects, self)

    def send(self, message: Any, **caller: Any) -> int:
        """Send a request; the ticket of its answer."""
        self.tickets += 1
        asked = Request(self.tickets, Caller(client_id=caller.pop("client_id", "me"), **caller), message)
        self.do(self.coordinators.step(asked, self.now_ms))
        return self.tickets

    def ask(self, name: str, version: int, **values: Any) -> Any:
        """Send a request and take the answer, which must be there at once."""
        ticket = self.send(request(name, version, **values))
        assert ticket in self.replies, f"no answer yet to {name}"
        return self.replies.pop(ticket)

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass, with a tick at each deadline."""
        end = self.now_ms + duration_ms
        while self.wake_ms is not None and self.wake_ms <= end:
            self.now_ms, self.wake_ms = max(self.wake_ms, self.now_ms), None
            self.do(self.coordinators.step(Tick(), self.now_ms))
        self.now_ms = end

    def restart(self) -> None:
        """A new process on the same logs."""
        self.coordinators = Coordinators(self.topics, **self.options)
        self.wake_ms = None
        for (topic, partition), records in list(self.logs.items()):
            if topic == TRANSACTION_STATE:
                self.coordinators.load_transactions(partition, records)
            elif topic == CONSUMER_OFFSETS:
                self.coordinators.load_groups(partition, records)
        self.do(self.coordinators.resume(self.now_ms))

    # ---- what a performer does

    def reply(self, effect: Reply) -> None:
        assert effect.ticket not in self.replies, "answered twice"
        check(effect.response)
        self.replies[effect.ticket] = effect.response

    def append(self, effect: Append) -> ErrorCode | None:
        if (error := self.failing.get(effect.topic)) is not None:
            return error
        log = self.logs.setdefault((effect.topic, effect.partition), [])
        for record in effect.records:
            log.append(
                LoadedRecord(
                    record.key,
                    record.value,
                    effect.producer_id,
                    effect.producer_epoch,
                    effect.producer_id >= 0,
                    offset=len(log),
                )
            )
        return None

    def write_markers(self, effect: WriteMarkers) -> Mapping[Partition, ErrorCode]:
        self.markers.append(effect)
        errors = {part: self.marker_errors[part] for part in effect.partitions if part in self.marker_errors}
        for part in effect.partitions:
            if part[0] == CONSUMER_OFFSETS and part not in errors:
                marker = LoadedRecord(
                    None, None, effect.producer_id, effect.producer_epoch, True, effect.commit
                )
                self.logs.setdefault(part, []).append(marker)
        return errors

    def reserve_ids(self) -> tuple[int, int] | ErrorCode:
        first, self.next_id = self.next_id, self.next_id + 10
        return first, 10

    def wake(self, at_ms: int) -> None:
        if self.wake_ms is None or at_ms < self.wake_ms:
            self.wake_ms = at_ms


def check(message: Any) -> None:
    """A message holds what its class says, as deep as it goes, and can be written."""
    _check_types(message)
    entity_writer(type(message))(io.BytesIO(), message)


def _check_types(message: Any) -> None:
    hints = typing.get_type_hints(type(message))
    for each in fields(message):
        value, hint = getattr(message, each.name), str(hints[each.name])
        if "Timedelta" in hint:
            assert isinstance(value, datetime.timedelta), each.name
        if "tuple" in hint and value is not None:
            assert isinstance(value, tuple), each.name
            for one in value:
                if is_dataclass(one):
                    _check_types(one)
