"""What the coordinators on a broker's disks will do about transactions that are open in its logs.

A coordinator that loads `__transaction_state` completes what it had prepared, and aborts an ongoing one
within seconds after its time-out. One that no coordinator knows stays open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelog.doctor.disks import Broker
from tidelog.errors import TidelogError
from tidelog.manager.coordinators.transactions import TRANSACTIONS_TOPIC, Coordinated, read_coordinated
from tidelog.scanning.partitions import list_partitions
from tidelog.types import TopicPartition

__all__ = ["Endings", "endings"]

Endings = Mapping[TopicPartition, Mapping[int, int]]
"""By partition and producer id, when the coordinator ends a transaction; 0 for at once."""


def endings(broker: Broker) -> Endings:
    """The running transactions that coordinators know; a state that cannot be read tells of none."""
    found: dict[TopicPartition, dict[int, int]] = {}
    for one in _coordinated(broker):
        prepared = one.state != "Ongoing"
        for partition in one.partitions if one.is_running else ():
            ends_ms = 0 if prepared else one.started_ms + one.timeout_ms
            found.setdefault(partition, {})[one.producer_id] = ends_ms
    return found


def _coordinated(broker: Broker) -> Iterator[Coordinated]:
    for disk in broker.disks:
        for one in disk.live:
            if one.partition.topic != TRANSACTIONS_TOPIC:
                continue
            try:
                yield from [each for log in list_partitions(one.path) for each in read_coordinated(log)]
            except (OSError, TidelogError):
                continue
