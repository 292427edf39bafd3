"""Many damaged partitions in one root: each damage of the library as a topic of its own.

A broker's start is what takes time. So damages that concern one partition are done to roots of their own, and
their partitions are then put together in one root, as topics named after the damages, with ids of their own,
and with what the checkpoints say of them.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.doctor.damage import Damage
from tests.doctor.test_damages import damaged
from tidelog.doctor import Kind
from tidelog.layout.roots import Checkpoint, hold_root, read_checkpoint
from tidelog.manager.metadata.registration import Place, Registration
from tidelog.manager.metadata.registry import Registry
from tidelog.storage import LOCAL
from tidelog.storage.metadata import write_partition_metadata
from tidelog.storage.names import CLEAN_SHUTDOWN_FILE, PARTITION_METADATA_FILE, parse_partition_directory
from tidelog.types import TopicPartition

__all__ = ["gather", "is_of_one_partition"]

_OF_PARTITIONS = frozenset(
    {
        Kind.TRUNCATION,
        Kind.BATCH,
        Kind.INDEX,
        Kind.LEFTOVER,
        Kind.SNAPSHOT,
        Kind.EPOCHS,
        Kind.EMPTIED,
        Kind.TRANSACTION,
        Kind.FUTURE,
        Kind.UNCLEAN,
    }
)
LEADER_EPOCH = 50


def is_of_one_partition(damage: Damage) -> bool:
    """Whether all that the damage changes is a partition's directory and its lines in checkpoints."""
    of_partition = damage.kind in _OF_PARTITIONS or damage.name == "high-watermark-past-the-end"
    return of_partition and damage.starts and damage.name != "metadata-log-torn"


def gather(damages: Sequence[Damage], place: Path, *, clean: bool) -> Path:
    """A root with a topic for each damage."""
    root = place / "root"
    root.mkdir(parents=True)
    held = hold_root(str(root), LOCAL, node_id=1)
    held.claim()
    topics = []
    for number, damage in enumerate(damages):
        (disk,) = damaged(place / damage.name, damage)
        source = parse_partition_directory(damage.partition).topic_partition
        name = TopicPartition(damage.name, 0)
        shutil.copytree(Path(disk) / damage.partition, root / str(name))
        topic_id = uuid.UUID(int=1000 + number)
        write_partition_metadata(LOCAL, root / str(name) / PARTITION_METADATA_FILE, topic_id)
        for kind in Checkpoint:
            known = read_checkpoint(LOCAL, disk, kind)
            if source in known:
                held.add_to_checkpoint(kind, {name: known[source]})
        shutil.rmtree(place / damage.name)
        place_of = {0: Place(held.identity.directory_id, LEADER_EPOCH)}
        topics.append(Registration(damage.name, topic_id, {"retention.ms": "-1"}, place_of))
    Registry(LOCAL, str(root), 1, lambda: 0).register(topics, largest_producer_id=10**6)
    if clean:
        held.write_clean_shutdown()
    held.release()
    assert (root / CLEAN_SHUTDOWN_FILE).exists() == clean
    return root
