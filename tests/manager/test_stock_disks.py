"""Disks of stock brokers, each taken alone: no command changes what it does not name, and the brokers boot.

One cluster of three brokers, of which one is killed, and one broker with two disks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.manager.stock import Step, consumed, fill, run_steps, steps_on

if TYPE_CHECKING:
    from tests.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "min.insync.replicas": "1",
}


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """What the brokers say of retention: never."""
    path = tmp_path / "server.properties"
    path.write_text("log.retention.ms=-1\n")
    return path


def test_three_brokers_of_which_one_was_killed(oracle: Oracle, tmp_path: Path, properties: Path) -> None:
    disks = [tmp_path / f"node{number}" for number in (1, 2, 3)]
    nodes = [[disk] for disk in disks]
    with oracle.cluster(nodes, config=REPLICATED) as brokers:
        written = fill(brokers[2].address, brokers=3)
        brokers[0].stop()
        brokers[1].stop()
        brokers[2].kill()
    for disk in disks:
        clean = (disk / ".kafka_cleanshutdown").exists()
        assert clean == (disk is not disks[2])
        run_steps(disk, list(steps_on(disk, tmp_path / f"of-{disk.name}", properties, clean=clean)))
        run_steps(disk, list(_on_a_replica(disk, tmp_path)))
    with oracle.cluster(nodes, config=REPLICATED) as brokers:
        for topic in ("three", "one", "keys"):
            assert written[topic] <= consumed(brokers[0].address, topic, len(written[topic])), topic


def _on_a_replica(disk: Path, scratch: Path) -> Iterator[Step]:
    """The cluster's topics are not changed through one of its disks; its logs are, where they are named."""
    root, lines = str(disk), str(scratch / "lines")
    Path(lines).write_text("line\n")
    yield Step(("append", root, lines, "--topic", "keys"), refused=True)
    yield Step(("append", str(disk / "keys-0"), lines), refused=True)
    yield Step(("config", root, "--topic", "three", "--set", "retention.ms=5"), refused=True)
    yield Step(("topics", root, "--create", "new"), refused=True)
    yield Step(("topics", root, "--delete", "three"), refused=True)
    yield Step(("compact", root, "--topic", "keys"), ("keys-0/",), frozenset({"keys-0"}))
    spare = next(path for path in sorted(disk.iterdir()) if path.name.startswith("spare-"))
    yield Step(("trim", str(spare), "--before", "10"), (f"{spare.name}/",), frozenset({spare.name}))


def test_a_broker_of_two_disks(oracle: Oracle, tmp_path: Path, properties: Path) -> None:
    disks = [tmp_path / "disk1", tmp_path / "disk2"]
    with oracle.cluster([disks]) as brokers:
        written = fill(brokers[0].address, brokers=1)
    for disk in disks:
        run_steps(disk, list(steps_on(disk, tmp_path / f"of-{disk.name}", properties, clean=True)))
    (home,) = (disk for disk in disks if (disk / "__cluster_metadata-0").is_dir())
    (second,) = (disk for disk in disks if disk is not home)
    run_steps(second, list(_on_the_second_disk(second, tmp_path)))
    run_steps(home, list(_on_the_first_disk(home)))
    with oracle.cluster([disks]) as brokers:
        for topic in ("three", "one", "keys"):
            assert written[topic] <= consumed(brokers[0].address, topic, len(written[topic])), topic


def _on_the_second_disk(disk: Path, scratch: Path) -> Iterator[Step]:
    """It does not say which topics there are: what would need to know is refused."""
    root, lines = str(disk), str(scratch / "lines")
    Path(lines).write_text("line\n")
    one = next(path.name for path in sorted(disk.iterdir()) if path.name.startswith("one-"))
    yield Step(("append", root, lines, "--topic", "one"), refused=True)
    yield Step(("append", str(disk / one), lines), refused=True)
    yield Step(("trim", str(disk / one), "--before", "3"), refused=True)
    yield Step(("config", root, "--topic", "one", "--set", "retention.ms=-1"), refused=True)
    yield Step(("topics", root, "--create", "new"), refused=True)
    yield Step(("topics", root, "--delete", "one"), refused=True)
    yield Step(("tidy", root), refused=True)


def _on_the_first_disk(disk: Path) -> Iterator[Step]:
    """It has the metadata of both."""
    root = str(disk)
    spare = next(path.name for path in sorted(disk.iterdir()) if path.name.startswith("spare-"))
    yield Step(
        ("config", root, "--topic", "one", "--set", "max.message.bytes=2000000"), ("__cluster_metadata-0/",)
    )
    yield Step(("trim", str(disk / spare), "--before", "10"), (f"{spare}/",), frozenset({spare}))
    if (disk / "keys-0").is_dir():
        yield Step(("compact", root, "--topic", "keys"), ("keys-0/",), frozenset({"keys-0"}))
