"""Every damage of the library on stock brokers: they do what doctor said, and on what fix has mended they
serve exactly the records that were promised.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Assigned

import tidelog
from tests.cli.test_salvage import logs
from tests.doctor.damage import Damage
from tests.doctor.damages import DAMAGES
from tests.doctor.gathering import gather, is_of_one_partition
from tests.doctor.test_damages import NOW_MS, damaged, found_on
from tests.oracle.broker import QUICK_JVM
from tests.oracle.broker import SETTINGS as BROKER
from tests.ports import free_ports
from tests.waiting import wait_until
from tidelog.doctor import Kind, PartitionVerdict, examine
from tidelog.doctor.fixing import apply_plan
from tidelog.storage import LOCAL

if TYPE_CHECKING:
    from tests.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(600)]

GATHERED = [one for one in DAMAGES if is_of_one_partition(one)]
SETTINGS = {"log.cleaner.enable": "false"}


def consumer_of(address: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        }
    )


def watermarks(address: str, topics: list[str]) -> dict[str, tuple[int, int]]:
    """Where each topic's log starts and ends."""
    consumer = consumer_of(address)
    found: dict[str, tuple[int, int]] = {}

    def ask(name: str) -> bool:
        with suppress(KafkaException):  # the broker may not lead it yet
            found[name] = consumer.get_watermark_offsets(Assigned(name, 0), timeout=30)
        return name in found

    try:
        for name in topics:
            wait_until(partial(ask, name), f"leading {name}")
    finally:
        consumer.close()
    return found


def served(address: str, topics: list[str]) -> dict[str, list[int]]:
    """The offsets of the records that a consumer gets of each topic."""
    ends = watermarks(address, topics)
    consumer = consumer_of(address)
    found: dict[str, list[int]] = {name: [] for name in topics}
    done: set[str] = set()
    try:
        consumer.assign([Assigned(name, 0, ends[name][0]) for name in topics])

        def step() -> bool:
            for message in consumer.consume(5000, 0.2):
                if message.error() is None:
                    found[message.topic()].append(message.offset())
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    done.add(message.topic())
            return len(done) == len(topics)

        wait_until(step, "reading to the ends")
    finally:
        consumer.close()
    return found


def foretold(root: Path) -> dict[str, PartitionVerdict]:
    verdicts = examine(LOCAL, [str(root)], now_ms=NOW_MS)
    return {one.partition: one for one in verdicts if isinstance(one, PartitionVerdict)}


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_brokers_do_what_was_said_and_boot_on_what_was_mended(
    oracle: Oracle, tmp_path: Path, clean: bool
) -> None:
    damages = [one for one in GATHERED if one.clean is clean]
    names = [one.name for one in damages]
    root = gather(damages, tmp_path / "broken", clean=clean)
    said = foretold(root)
    with oracle.broker(root, config=SETTINGS) as broker:
        ends = watermarks(broker.address, names)
    wrong = {
        name: (ends[name], (said[f"{name}-0"].log_start_offset, said[f"{name}-0"].log_end_offset))
        for name in names
        if ends[name] != (said[f"{name}-0"].log_start_offset, said[f"{name}-0"].log_end_offset)
    }
    assert wrong == {}

    root = gather(damages, tmp_path / "mended", clean=clean)
    apply_plan(LOCAL, [str(root)], now_ms=NOW_MS)
    promised = {name: logs(root / f"{name}-0") for name in names}
    table = {
        name: tidelog.scan(root / f"{name}-0", columns=["offset"]).read_all()["offset"] for name in names
    }
    with oracle.broker(root, config=SETTINGS) as broker:
        found = served(broker.address, names)
    assert {name: found[name] for name in names} == {name: table[name].to_pylist() for name in names}
    assert {name: logs(root / f"{name}-0") for name in names} == promised


def boots(oracle: Oracle, disks: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Start a broker on the disks of each name, all in one Java process; why it did not start, or nothing."""
    requests = []
    for name, paths in disks.items():
        port, controller = free_ports(2)
        own = {
            "log.cleaner.dedupe.buffer.size": 2 << 20,  # brokers that failed keep theirs
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": ",".join(paths),
        }
        requests.append({"name": name, "properties": BROKER | own})
    request = {"brokers": requests, "limit_s": 240}
    answers = oracle.programs.ask("tidelog.oracle.Boots", request, limit_s=1500, jvm=QUICK_JVM)
    return {one["name"]: one["why"] for one in answers}


def disks_of(damage: Damage, place: Path) -> list[str]:
    place.mkdir()
    return damaged(place, damage)


@pytest.mark.soak
def test_brokers_start_where_doctor_says_so_and_on_what_was_mended(oracle: Oracle, tmp_path: Path) -> None:
    rest = [one for one in DAMAGES if one not in GATHERED]
    if os.geteuid() == 0:  # who may read everything
        rest = [one for one in rest if one.kind is not Kind.PERMISSION]
    broken = {one.name: disks_of(one, tmp_path / f"broken-{one.name}") for one in rest}
    said = {name: all(one.starts for one in found_on(disks)[1]) for name, disks in broken.items()}
    why = boots(oracle, broken)
    assert {name: text for name, text in why.items() if said[name] is not (not text)} == {}
    for one in rest:
        if one.starts and one.kind in (Kind.STRAY, Kind.TOPIC_ID):
            assert list(Path(broken[one.name][0]).glob("*-stray")), one.name

    mended = {one.name: disks_of(one, tmp_path / f"mended-{one.name}") for one in rest if one.fixed}
    promised = {}
    for name, disks in mended.items():
        apply_plan(LOCAL, disks, now_ms=NOW_MS)
        promised[name] = stored_logs(disks)
    assert boots(oracle, mended) == dict.fromkeys(mended, "")
    for name, disks in mended.items():
        after = stored_logs(disks)  # partitions that were not there are made, empty
        assert {path: after.get(path) for path in promised[name]} == promised[name], name


def stored_logs(disks: Sequence[str]) -> dict[str, bytes]:
    """The logs of golden partitions that are live, by their paths."""
    found = [path for disk in disks for path in Path(disk).glob("golden-*-[0-9]") if path.is_dir()]
    return {str(path): logs(path) for path in found}
