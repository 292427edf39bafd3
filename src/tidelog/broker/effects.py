"""What coordinators are told (events), and what they want done (effects).

A coordinator has no clock, files or sockets: `step(event, now_ms)` answers a list of effects, and whoever
called it carries them out in order, each with what follows from it, before the next event (`carry_out`).

    event        Request        a client asks; `ticket` names the answer that it waits for
                 TopicsDeleted  these topics are gone
                 Tick           time has passed (`Wake` asked for it)

    effect       Reply          send the response to whom the ticket names
                 Append         append one batch; then `then()`, or `otherwise(error)` where that failed
                 WriteMarkers   append an end-transaction marker to each partition; then `then(errors)`
                 ReserveIds     set a block of producer ids aside, durably; then `then(first, count)`
                 Wake           send a `Tick` at that time (the latest word counts; earlier ticks do no harm)

The one truth is the log: a coordinator changes what a record says only after the record is appended, by
replaying it, as it does when it loads the log. What `then` and `otherwise` return are effects again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

__all__ = [
    "CONSUMER_OFFSETS",
    "TRANSACTION_STATE",
    "Append",
    "Caller",
    "Effect",
    "Event",
    "LoadedRecord",
    "LogRecord",
    "Node",
    "Partition",
    "Performer",
    "Reply",
    "Request",
    "ReserveIds",
    "Tick",
    "TopicView",
    "TopicsDeleted",
    "Wake",
    "WriteMarkers",
    "carry_out",
]

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

Partition = tuple[str, int]
"""A topic's name and a partition's number."""


# ---- events


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and where it is reached."""

    node_id: int = 0
    host: str = "localhost"
    port: int = 9092


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request."""

    client_id: str = ""
    host: str = "/127.0.0.1"
    """As Kafka prints an address: with a slash before it."""
    principal: str = "User:ANONYMOUS"
    broker: Node = Node()
    """This broker, at the address that the caller's listener advertises."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client; its `message` is kio's dataclass of the version that the client sent."""

    ticket: Any
    caller: Caller
    message: Any


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Topics were deleted: what is committed for them goes too."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = Request | TopicsDeleted | Tick


# ---- effects


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record to append; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Reply:
    """The response to a request. kio's dataclass, of the request's version."""

    ticket: Any
    response: Any


@dataclass(frozen=True, slots=True)
class Append:
    """One batch for a partition of a coordinator's topic, which is created first where it is missing.

    With a producer id the batch is transactional (no sequence: base sequence -1).
    """

    topic: str
    partition: int
    records: tuple[LogRecord, ...]
    then: Callable[[], Sequence[Effect]]
    otherwise: Callable[[ErrorCode], Sequence[Effect]]
    producer_id: int = -1
    producer_epoch: int = -1
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """An end-transaction marker for each of the partitions.

    `then` gets the error of each partition whose marker could not be written, nothing for the others.
    """

    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[Partition, ...]
    coordinator_epoch: int
    then: Callable[[Mapping[Partition, ErrorCode]], Sequence[Effect]]
    transaction_version: int = 0


@dataclass(frozen=True, slots=True)
class ReserveIds:
    """A block of producer ids that nobody else will get, also after a restart or on a stock broker."""

    then: Callable[[int, int], Sequence[Effect]]
    otherwise: Callable[[ErrorCode], Sequence[Effect]]


@dataclass(frozen=True, slots=True)
class Wake:
    """Send a `Tick` at this time."""

    at_ms: int


Effect = Reply | Append | WriteMarkers | ReserveIds | Wake


# ---- loading


@dataclass(frozen=True, slots=True)
class LoadedRecord:
    """A record of a coordinator's topic as it is read at the start, in the log's order.

    For an end-transaction marker `commits` says which one, and key and value do not matter.
    """

    key: bytes | None
    value: bytes | None
    producer_id: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    commits: bool | None = None
    offset: int = field(default=-1, compare=False)


# ---- what the broker gives


class TopicView(Protocol):
    """Which topics there are now."""

    def names(self) -> Iterable[str]:
        """The names of all topics."""

    def partition_count(self, name: str) -> int | None:
        """How many partitions a topic has; None where there is no such topic."""

    def topic_id(self, name: str) -> UUID | None:
        """A topic's id; None where there is no such topic."""

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of the topic with this id; None where there is none."""

    def leader_epoch(self, name: str, partition: int) -> int:
        """The leader epoch of a partition; 0 where there is no such partition yet."""


class Performer(Protocol):
    """Who carries out effects."""

    def reply(self, effect: Reply) -> None:
        """Send a response."""

    def append(self, effect: Append) -> ErrorCode | None:
        """Append a batch and answer None once it counts as acknowledged, or the error."""

    def write_markers(self, effect: WriteMarkers) -> Mapping[Partition, ErrorCode]:
        """Append markers and answer the errors of partitions that did not get theirs."""

    def reserve_ids(self) -> tuple[int, int] | ErrorCode:
        """Reserve producer ids durably: the first one and how many, or the error."""

    def wake(self, at_ms: int) -> None:
        """Send a `Tick` at this time."""


def carry_out(effects: Iterable[Effect], performer: Performer) -> None:
    """Carry out effects in order, each with all that follows from it."""
    waiting = list(effects)[::-1]
    while waiting:
        effect = waiting.pop()
        following: Sequence[Effect] = ()
        match effect:
            case Reply():
                performer.reply(effect)
            case Append():
                error = performer.append(effect)
                following = effect.then() if error is None else effect.otherwise(error)
            case WriteMarkers():
                following = effect.then(performer.write_markers(effect))
            case ReserveIds():
                block = performer.reserve_ids()
                following = effect.otherwise(block) if isinstance(block, ErrorCode) else effect.then(*block)
            case Wake():
                performer.wake(effect.at_ms)
        waiting += following[::-1]
