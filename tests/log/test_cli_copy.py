"""`tidelog copy`: the copy of a golden partition is the golden partition, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.golden import GoldenPartition, golden_partition, golden_partitions
from tests.log.logs import contents, data_files, open_log, send
from tests.log.logs import numbered as records
from tidelog.config import LogConfig
from tidelog.log.producers.snapshots import decode_snapshot

PARTITIONS = [
    partition
    for partition in golden_partitions()
    # Compacted ones hold less than was appended; the metadata log's index cadence was reset by restarts.
    if not partition.name.startswith(("golden-compact", "golden-txncompact", "__cluster_metadata"))
]
EXPIRED = "golden-none-0"
"""Its last snapshot was written again after its producer had expired."""


def _settings(partition: GoldenPartition) -> list[str]:
    interval = f"index.interval.bytes={partition.index_interval_bytes}"
    return ["--config", interval, "--config", "segment.index.bytes=65536"]


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda partition: partition.name)
def test_the_copy_has_kafkas_bytes(partition: GoldenPartition, tmp_path: Path) -> None:
    source, target = partition.directory, tmp_path / partition.name
    before = contents(source)
    answer = run("copy", source, target, *_settings(partition), "--json")
    assert (answer.code, answer.err) == (0, "")
    assert contents(source) == before
    assert data_files(target) == data_files(source)
    told = json.loads(answer.out)
    assert told["segments"] == len(partition.logs())
    assert told["bytes"] == sum(log.stat().st_size for log in partition.logs())
    for file in sorted(source.glob("*.snapshot")):
        ours, theirs = (
            {state.producer_id: state for state in decode_snapshot(data, file.name)}
            for data in ((target / file.name).read_bytes(), file.read_bytes())
        )
        if partition.name == EXPIRED and file == sorted(source.glob("*.snapshot"))[-1]:
            assert theirs == {}
        else:
            assert ours == theirs, file.name


def test_the_brokers_defaults_count(tmp_path: Path) -> None:
    partition = golden_partition("golden-multi-0")
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"log.index.interval.bytes={partition.index_interval_bytes}\nlog.index.size.max.bytes=65536\n"
    )
    target = tmp_path / partition.name
    answer = run("copy", partition.directory, target, "--server-properties", properties)
    assert answer.code == 0
    assert data_files(target) == data_files(partition.directory)


def test_the_same_config_rolls_at_the_same_offsets(tmp_path: Path) -> None:
    config = LogConfig(internal_segment_bytes=3000, index_interval_bytes=300, segment_index_bytes=4096)
    source = tmp_path / "source-0"
    with open_log(source, config) as log:
        for number in range(100):
            send(log, 1, 3 * number, *records(3, 3 * number), transactional=False)
        assert len(log.segments) > 3
    settings = [word for key, value in config.overrides().items() for word in ("--config", f"{key}={value}")]
    for name, options in (("a-0", ["--roll-by-config"]), ("b-0", [])):
        answer = run("copy", source, tmp_path / name, *settings, *options)
        assert answer.code == 0
        assert contents(tmp_path / name) == contents(source)
    answer = run("copy", source, tmp_path / "c-0", "--roll-by-config")
    assert answer.code == 0
    assert len(list((tmp_path / "c-0").glob("*.log"))) == 1


def test_bad_usage(tmp_path: Path) -> None:
    source = golden_partition("golden-none-0").directory
    taken = tmp_path / "taken-0"
    taken.mkdir()
    (taken / "file").write_text("x")
    for target, options in (
        (taken, []),
        (tmp_path / "new-0", ["--config", "nonsense"]),
        (tmp_path / "new-0", ["--config", "no.such.key=1"]),
        (tmp_path / "not a partition", []),
    ):
        answer = run("copy", source, target, *options)
        assert answer.code == 2
        assert answer.err.startswith("tidelog: ")
        assert not (tmp_path / "new-0").exists()
