"""AddPartitionsToTxn: of one transaction, or from version 4 on of several, to be added or only verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Effect, Partition, Reply, Request, TopicView
from tidelog.broker.messages import field, respond

__all__ = ["Members", "add_partitions_to_txn", "for_old_clients"]

_BATCHED = 4
_KNOWS_FENCED = 2
_Finish = Callable[[str, Mapping[Partition, ErrorCode]], Sequence[Effect]]


class Members(Protocol):
    """Who knows which partitions are part of which transaction."""

    def verify(
        self, name: str | None, producer_id: int, epoch: int, partitions: Iterable[Partition]
    ) -> dict[Partition, ErrorCode]:
        """Whether partitions are part of a producer's transaction."""

    def add_partitions(
        self,
        name: str | None,
        producer_id: int,
        epoch: int,
        partitions: Iterable[Partition],
        client_version: int,
        now_ms: int,
        then: Callable[[ErrorCode], Sequence[Effect]],
    ) -> Sequence[Effect]:
        """Make partitions part of a producer's transaction."""


def add_partitions_to_txn(
    asked: Request, now_ms: int, topics: TopicView, members: Members
) -> Sequence[Effect]:
    """AddPartitionsToTxn: one transaction after the other, then the response."""
    message = asked.message
    batched = message.__version__ >= _BATCHED
    waiting = list(message.transactions) if batched else [message]
    done: list[dict[str, Any]] = []

    is_proceeding = False

    def proceed() -> Sequence[Effect]:
        """Add one after the other until one has to wait for a write. No recursion: there may be thousands."""
        nonlocal is_proceeding
        effects: list[Effect] = []
        is_proceeding = True
        while (count := len(done)) < len(waiting):
            effects += _add_one(waiting[count], message.__version__, now_ms, topics, members, finish)
            if len(done) == count:
                is_proceeding = False
                return effects
        if batched:
            return [*effects, Reply(asked.ticket, respond(message, results_by_transaction=done))]
        results = done[0]["topic_results"]
        return [*effects, Reply(asked.ticket, respond(message, results_by_topic_v3_and_below=results))]

    def finish(name: str, errors: Mapping[Partition, ErrorCode]) -> Sequence[Effect]:
        done.append({"transactional_id": name, "topic_results": _topic_results(errors, message)})
        return () if is_proceeding else proceed()

    return proceed()


def _add_one(
    one: Any, version: int, now_ms: int, topics: TopicView, members: Members, finish: _Finish
) -> Sequence[Effect]:
    def read(name: str) -> Any:
        return field(one, f"v3_and_below_{name}", field(one, name))

    name = read("transactional_id")
    partitions = [(topic.name, number) for topic in read("topics") for number in topic.partitions]
    missing = [part for part in partitions if not _exists(part, topics)]
    if missing:
        codes = dict.fromkeys(partitions, ErrorCode.operation_not_attempted)
        return finish(name, codes | dict.fromkeys(missing, ErrorCode.unknown_topic_or_partition))
    producer = (read("producer_id"), read("producer_epoch"))
    if field(one, "verify_only", False):
        return finish(name, members.verify(name, *producer, partitions))
    client_version = 2 if version >= _BATCHED else 0
    return members.add_partitions(
        name,
        *producer,
        partitions,
        client_version,
        now_ms,
        lambda error: finish(name, dict.fromkeys(partitions, error)),
    )


def _exists(partition: Partition, topics: TopicView) -> bool:
    count = topics.partition_count(partition[0])
    return count is not None and 0 <= partition[1] < count


def _topic_results(errors: Mapping[Partition, ErrorCode], message: Any) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, number), code in errors.items():
        told = for_old_clients(code, message, _KNOWS_FENCED)
        topics.setdefault(topic, []).append({"partition_index": number, "partition_error_code": told})
    return [{"name": topic, "results_by_partition": results} for topic, results in topics.items()]


def for_old_clients(error: ErrorCode, message: Any, since: int) -> ErrorCode:
    """Versions before `since` do not know PRODUCER_FENCED."""
    if error is ErrorCode.producer_fenced and message.__version__ < since:
        return ErrorCode.invalid_producer_epoch
    return error
