"""Clusters of stock brokers that are filled, stopped and killed, and every command on each of their disks.

A step names what its command may change: directories by their names' beginning, and the partitions whose
entries in the checkpoints it may change. Everything else must have the bytes that it had. A dry run, or a
command that is refused, may change nothing at all.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.cli.app import app
from tidelog.layout.roots import Checkpoint, read_checkpoint
from tidelog.storage import LOCAL

__all__ = ["TOPICS", "Step", "consumed", "fill", "run_steps", "steps_on"]

QUIET = {"log_level": 0}
LIMIT_S = 60.0
CHECKPOINTS = frozenset(kind.value for kind in Checkpoint)

TOPICS = {
    "three": (2, 3, {}),
    "one": (8, 1, {"segment.bytes": "1048576"}),
    "keys": (1, 3, {"cleanup.policy": "compact"}),
    "spare": (8, 1, {"segment.bytes": "1048576"}),
}
"""Partitions, replicas and configs."""


def fill(address: str, *, brokers: int) -> dict[str, set[bytes]]:
    """Make the topics and write to them; the committed values that each has, of `keys` the last ones."""
    admin = AdminClient(QUIET | {"bootstrap.servers": address})
    wanted = [
        NewTopic(name, num_partitions=count, replication_factor=min(replicas, brokers), config=config)
        for name, (count, replicas, config) in TOPICS.items()
    ]
    for future in admin.create_topics(wanted, operation_timeout=30).values():
        future.result(timeout=LIMIT_S)
    written: dict[str, set[bytes]] = {name: set() for name in TOPICS}
    plain = Producer(QUIET | {"bootstrap.servers": address, "acks": "all"})
    for topic in ("three", "one", "spare"):
        for i in range(4000):
            value = f"{topic}-{i}-".encode().ljust(800, b".")
            plain.produce(topic, value, str(i).encode(), partition=i % TOPICS[topic][0])
            written[topic].add(value)
            if i % 500 == 499:
                plain.flush(LIMIT_S)
    for i in range(300):
        plain.produce("keys", f"keys-{i}".encode(), str(i % 10).encode(), partition=0)
    plain.flush(LIMIT_S)
    written["keys"] = {f"keys-{i}".encode() for i in range(290, 300)}
    transactional = Producer(QUIET | {"bootstrap.servers": address, "transactional.id": "t"})
    transactional.init_transactions(LIMIT_S)
    for number, ends_well in enumerate((True, False, True)):
        transactional.begin_transaction()
        values = {f"txn-{number}-{i}".encode() for i in range(50)}
        for value in values:
            transactional.produce("three", value, partition=0)
        if ends_well:
            transactional.commit_transaction(LIMIT_S)
            written["three"] |= values
        else:
            transactional.abort_transaction(LIMIT_S)
    assert consumed(address, "three", len(written["three"]), group="g") == written["three"]
    return written


def consumed(address: str, topic: str, count: int, *, group: str = "reader") -> set[bytes]:
    """The values of a topic that a consumer gets, in committed reads, until there are no more."""
    consumer = Consumer(
        QUIET
        | {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    partitions = TOPICS[topic][0]
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: set[bytes] = set()
    ended: set[int] = set()
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and len(ended) < partitions:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        elif error is None:
            found.add(message.value())
    if len(found) == count:
        _commit(consumer, deadline)
    consumer.close()
    return found


def _commit(consumer: Consumer, deadline: float) -> None:
    """Commit, when the group's coordinator has loaded what there is of it."""
    while True:
        try:
            consumer.commit(asynchronous=False)
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


# ---- commands


@dataclass(frozen=True, slots=True)
class Step:
    """A command and what it may change."""

    args: tuple[str, ...]
    changes: tuple[str, ...] = ()
    """Beginnings of names in the root."""
    partitions: frozenset[str] = frozenset()
    """Partitions whose entries in the checkpoints may change."""
    refused: bool = False


def _contents(disk: Path) -> dict[str, str]:
    """A checksum of every file; `.lock` says nothing."""
    return {
        str(path.relative_to(disk)): hashlib.md5(path.read_bytes()).hexdigest()
        for path in sorted(disk.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def _entries(disk: Path) -> dict[tuple[str, str], int]:
    """What the checkpoints say."""
    return {
        (kind.value, str(name)): offset
        for kind in Checkpoint
        for name, offset in read_checkpoint(LOCAL, str(disk), kind).items()
    }


def run_steps(disk: Path, steps: Sequence[Step]) -> None:
    """Run each command, and see that it leaves what it does not name."""
    for step in steps:
        before, said = _contents(disk), _entries(disk)
        done = CliRunner().invoke(app, list(step.args))
        told = f"tidelog {' '.join(step.args)}\nexit code {done.exit_code}\n{done.output}"
        assert done.exception is None or isinstance(done.exception, SystemExit), told
        assert (done.exit_code != 0) == step.refused, told
        after, says = _contents(disk), _entries(disk)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if step.changes:
            changed = {one for one in changed if not one.startswith(step.changes) and one not in CHECKPOINTS}
        assert not changed, f"{told}\nhas changed {sorted(changed)}"
        other = {key for key in said.keys() | says.keys() if said.get(key) != says.get(key)}
        strange = {key for key in other if key[1] not in step.partitions}
        assert not strange, f"{told}\nhas changed entries {sorted(strange)}"


def steps_on(disk: Path, scratch: Path, properties: Path, *, clean: bool) -> Iterator[Step]:
    """Every command that takes a root or partition: as a dry run, as one that is refused, and in earnest.

    What is done in earnest leaves all records but the first of one partition of `spare`.
    """
    names = sorted(path.name for path in disk.iterdir() if path.is_dir())
    one, spare = (next(name for name in names if name.startswith(topic)) for topic in ("one-", "spare-"))
    root, part = str(disk), str(disk / one)
    defaults = ("--server-properties", str(properties))
    scratch.mkdir()
    lines = scratch / "lines"
    lines.write_text("line\n")
    yield from _looking(disk, part, one)
    knows = _knows_topics(disk)
    yield from _dry(root, part, spare, defaults, ready=clean, knows=knows)
    yield from _refused(root, part, scratch, lines)
    if not clean:
        yield from _recovering(root, part, one, names)
        yield from _dry(root, part, spare, defaults, ready=True, knows=knows)
        yield from _refused(root, part, scratch, lines)
    yield Step(("copy", part, str(scratch / "copy-0")))
    yield Step(("verify", root))
    yield Step(("reindex", root))
    yield Step(("reindex", part, "--all"), (one,))
    yield Step(("retention", root, *defaults))
    yield Step(("retention", part, *defaults), refused=not knows)
    yield Step(("tidy", root, *defaults, *(() if knows else ("--force", "--dry-run"))))
    yield Step(("unstray", root))


def _knows_topics(disk: Path) -> bool:
    return (disk / "__cluster_metadata-0").is_dir()


def _looking(disk: Path, part: str, one: str) -> Iterator[Step]:
    root = str(disk)
    yield Step(("ls", root))
    yield Step(("ls", root, "--json"))
    yield Step(("cat", part, "--limit", "3"))
    yield Step(("tail", part))
    yield Step(("search", root, "--key", "7", "--limit", "3"))
    yield Step(("find", part))
    yield Step(("describe", part))
    yield Step(("dump", *(str(path) for path in sorted((disk / one).iterdir()))))
    yield Step(("verify", part, "--quiet"))
    if _knows_topics(disk):
        yield Step(("topics", root))
        yield Step(("topics", root, "--describe", "three"))
        yield Step(("config", root))


def _dry(
    root: str, part: str, spare: str, defaults: tuple[str, ...], *, ready: bool, knows: bool
) -> Iterator[Step]:
    """Dry runs: refused as the command itself would be, in a root that was not closed cleanly or does not
    know its topics.
    """
    number = spare.rpartition("-")[2]
    trim = ("trim", root, "--topic", "spare", "--partition", number, "--before", "10", "--dry-run")
    yield Step(("recover", root, "--dry-run", *defaults))
    yield Step(("recover", part, "--dry-run"))
    yield Step(("reindex", root, "--dry-run"))
    yield Step(("compact", root, "--dry-run"), refused=not ready)
    yield Step(("unstray", root, "--dry-run"))
    yield Step(trim, refused=not (ready and knows))
    yield Step(("retention", root, "--dry-run", *defaults), refused=not ready)
    yield Step(("retention", part, "--dry-run"), refused=not (ready and knows))


def _refused(root: str, part: str, scratch: Path, lines: Path) -> Iterator[Step]:
    """What is refused on every disk, clean or not."""
    yield Step(("append", root, str(lines), "--topic", "three"), refused=True)
    yield Step(("append", root, str(lines), "--topic", "nowhere"), refused=True)
    yield Step(("trim", part, "--before", "999999999"), refused=True)
    yield Step(("trim", root, "--before", "5"), refused=True)
    yield Step(("trim", str(Path(root, "gone-0")), "--before", "5"), refused=True)
    yield Step(("config", root, "--topic", "nowhere", "--set", "retention.ms=5"), refused=True)
    yield Step(("config", root, "--topic", "three", "--set", "no.such.key=5"), refused=True)
    yield Step(("topics", root, "--delete", "nowhere"), refused=True)
    yield Step(("topics", root, "--create", "a/b"), refused=True)
    yield Step(("topics", root, "--create", "three"), refused=True)
    yield Step(("compact", part), refused=True)
    yield Step(("compact", root, "--topic", "one"), refused=True)
    yield Step(("compact", str(Path(root, "__cluster_metadata-0"))), refused=True)
    yield Step(("move", part, root), refused=True)
    yield Step(("move", part, str(scratch / "nowhere")), refused=True)
    yield Step(("copy", part, part), refused=True)
    yield Step(("reindex", str(scratch / "nowhere")), refused=True)
    yield Step(("recover", str(scratch / "nowhere")), refused=True)
    yield Step(("retention", root, "--config", "retention.ms=1"), refused=True)
    yield Step(("dump", root), refused=True)


def _recovering(root: str, part: str, one: str, names: Sequence[str]) -> Iterator[Step]:
    """Recover one partition, then all of a root that a killed broker has left."""
    live = frozenset(name for name in names if not name.startswith("__cluster_metadata"))
    yield Step(("recover", part), (f"{one}/",), frozenset({one}))
    yield Step(("recover", root), (*(f"{name}/" for name in live), ".kafka_cleanshutdown"), live)
