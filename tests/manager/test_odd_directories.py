"""Odd things in a root: each gets a sentence, and the rest goes on."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

import tidelog
from tests.cli.command import run
from tests.manager.stores import SMALL, fill, some, values
from tidelog.errors import InvalidInputError, LogOfflineError, TidelogError
from tidelog.log import Log
from tidelog.manager.upkeep.kept_aside import KeepingFileSystem
from tidelog.manager.upkeep.recovery import recover_root
from tidelog.manager.upkeep.reindexing import reindex
from tidelog.manager.verification import Finding, Kind, verify_root
from tidelog.scanning.overview import overview
from tidelog.scanning.partitions import list_partitions
from tidelog.storage import LOCAL
from tidelog.storage.metadata import random_id, write_partition_metadata
from tidelog.storage.names import FileKind, format_segment_file
from tidelog.testing.faults import Call, Fault, FaultyFileSystem
from tidelog.types import TopicPartition

FIRST = format_segment_file(0, FileKind.LOG)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two topics, of which the first meets the odd thing."""
    path = tmp_path / "root"
    with tidelog.open(path) as store:
        for topic in ("odd", "other"):
            fill(store.create_topic(topic, 1, SMALL)[0], 40)
    return path


def _remove_segments(root: Path) -> None:
    for file in (root / "odd-0").iterdir():
        file.unlink()


def _replace(name: str, make: Callable[[Path], None]) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        path = root / name
        path.unlink(missing_ok=True)
        make(path)

    return act


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound, chdir(path.parent):
        bound.bind(path.name)


def _grow(name: str, size: int) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        (root / name).touch()
        os.truncate(root / name, size)

    return act


def _not_text(root: Path) -> None:
    (Path(os.fsdecode(bytes(root) + b"/\xff\xfe-0"))).mkdir()
    (Path(os.fsdecode(bytes(root) + b"/odd-0/\xff.log"))).touch()


def _odd_names(root: Path) -> None:
    for name in (
        "two words-0",
        "tab\t-0",
        "line\nbreak-0",
        "bell\a-0",
        "-future",
        "x-future",
        "t-0.a-delete",
    ):
        (root / name).mkdir()


GIANT = 20 << 30
LAST_LOG = "odd-0/" + format_segment_file(1 << 20, FileKind.LOG)
KINDS = {"fifo": os.mkfifo, "socket": _socket, "directory": Path.mkdir}
ODD: dict[str, Callable[[Path], None]] = {
    "no-segment": _remove_segments,
    "not-text": _not_text,
    "odd-names": _odd_names,
    "giant-index": _grow(f"odd-0/{FIRST[:-4]}.index", GIANT),
    "giant-timeindex": _grow(f"odd-0/{FIRST[:-4]}.timeindex", GIANT),
    "giant-txnindex": _grow(f"odd-0/{FIRST[:-4]}.txnindex", GIANT),
    "giant-snapshot": _grow("odd-0/00000000000000000040.snapshot", GIANT),
    "giant-epochs": _grow("odd-0/leader-epoch-checkpoint", GIANT),
    "giant-metadata": _grow("odd-0/partition.metadata", GIANT),
    "giant-log": _grow(LAST_LOG, (1 << 31) + 7),
    "vast-log": _grow(LAST_LOG, 1 << 43),
    **{f"{kind}-log": _replace(LAST_LOG, make) for kind, make in KINDS.items()},
    **{f"{kind}-first": _replace(f"odd-0/{FIRST}", make) for kind, make in KINDS.items()},
    **{f"{kind}-index": _replace(f"odd-0/{FIRST[:-4]}.index", make) for kind, make in KINDS.items()},
    **{f"{kind}-timeindex": _replace(f"odd-0/{FIRST[:-4]}.timeindex", make) for kind, make in KINDS.items()},
    **{f"{kind}-epochs": _replace("odd-0/leader-epoch-checkpoint", make) for kind, make in KINDS.items()},
    **{f"{kind}-id": _replace("odd-0/partition.metadata", make) for kind, make in KINDS.items()},
}


@pytest.mark.parametrize("what", ODD)
def test_the_other_partitions_are_read_checked_and_recovered(root: Path, what: str) -> None:
    ODD[what](root)
    findings = list(verify_root(LOCAL, str(root)))
    assert not [one for one in findings if "other-0" in one.file and one.kind is Kind.DAMAGE]
    for one in findings:
        assert "\n" not in one.cause
    with tidelog.open(root) as store:
        assert len(values(store, "other")) == 40
        store.partition("other").append(some(2), sync=True)
        for reason in store.offline_partitions.values():
            assert str(root) in reason
            assert "\n" not in reason
    for one in recover_root(LOCAL, str(root), dry_run=True) + recover_root(LOCAL, str(root)):
        if one.partition.topic == "other":
            assert one.error is None
            assert one.log_end_offset == 42
    with tidelog.open(root, recover=True) as store:
        assert len(values(store, "other")) == 42


@pytest.mark.parametrize("what", ["fifo-log", "giant-log", "giant-epochs", "directory-first", "fifo-id"])
def test_what_cannot_be_read_is_damage(root: Path, what: str) -> None:
    ODD[what](root)
    assert [one for one in verify_root(LOCAL, str(root)) if one.kind is Kind.DAMAGE and "odd-0" in one.file]


@pytest.mark.parametrize("what", ["giant-index", "giant-timeindex"])
def test_an_index_too_large_to_be_one_is_made_anew(root: Path, what: str) -> None:
    ODD[what](root)
    (root / ".kafka_cleanshutdown").unlink()
    assert not [one.error for one in recover_root(LOCAL, str(root)) if one.error]
    assert not [one for one in verify_root(LOCAL, str(root)) if one.kind is Kind.DAMAGE]
    with tidelog.open(root) as store:
        assert len(values(store, "odd")) == 40


@pytest.mark.parametrize("what", ODD)
def test_the_other_partitions_are_listed(root: Path, what: str) -> None:
    ODD[what](root)
    seen = {one.topic_partition.topic: overview(one) for one in list_partitions(str(root))}
    assert (seen["other"].log_end_offset, seen["other"].damage) == (40, ())
    assert not [one for each in seen.values() for one in each.damage if "\n" in one]


@pytest.mark.parametrize("what", ["giant-log", "fifo-log", "directory-first", "fifo-timeindex", "fifo-id"])
def test_doctor_looks_at_the_other_partitions(root: Path, what: str) -> None:
    ODD[what](root)
    answer = run("doctor", root)
    assert answer.code == 1
    assert "other-0" in answer.out
    assert "bug" not in answer.err


@pytest.mark.parametrize("what", ODD)
def test_the_indexes_of_the_other_partitions_are_rebuilt(root: Path, what: str) -> None:
    ODD[what](root)
    index = root / "other-0" / FIRST.replace(".log", ".index")
    index.unlink()
    for one in reindex(LOCAL, str(root)):
        assert "odd-0" in one.file or one.error is None
        assert "\n" not in (one.error or "")
    assert index.is_file()


@pytest.mark.parametrize("command", [("ls",), ("verify",), ("recover", "--dry-run"), ("recover",)])
@pytest.mark.parametrize(
    "what", ["no-segment", "not-text", "odd-names", "giant-index", "fifo-log", "giant-log"]
)
def test_commands_say_a_sentence(root: Path, command: tuple[str, ...], what: str) -> None:
    ODD[what](root)
    answer = run(*command, root)
    assert answer.code in (0, 1)
    assert "bug" not in answer.err
    assert "Traceback" not in answer.err
    if command != ("verify",):
        assert "other" in answer.out


# ---- files that cannot be read


def unreadable(name: str, code: int) -> FaultyFileSystem:
    def rule(call: Call) -> Fault | None:
        reads = call.operation in ("open", "open_writable", "pread", "map", "list")
        return Fault(code) if reads and call.path.endswith(name) else None

    return FaultyFileSystem(LOCAL, rule)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_directory_that_cannot_be_listed_does_not_stop_recovery(root: Path, dry_run: bool) -> None:
    done = recover_root(unreadable("odd-0", errno.EACCES), str(root), dry_run=dry_run)
    assert {one.partition.topic: one.error is None for one in done} == {"odd": False, "other": True}


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize(
    "name",
    [
        "odd-0",
        f"odd-0/{FIRST}",
        f"odd-0/{FIRST[:-4]}.index",
        f"odd-0/{FIRST[:-4]}.timeindex",
        "odd-0/leader-epoch-checkpoint",
        "odd-0/partition.metadata",
        "00000000000000000040.snapshot",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "meta.properties",
        "tidelog-journal",
        "bootstrap.checkpoint",
    ],
)
def test_one_unreadable_file_does_not_stop_the_check(root: Path, name: str, code: int) -> None:
    (root / "tidelog-journal").write_text("")
    findings = list(verify_root(unreadable(name, code), str(root)))
    found = [one for one in findings if one.kind is Kind.DAMAGE and one.file.endswith(name)]
    told = [one for one in findings if os.strerror(code) in one.cause]
    assert found or told
    assert not [one for one in findings if "other-0" in one.file and "snapshot" not in name]


# ---- offsets at their end


@pytest.mark.parametrize("start", [2**63 - 1, 2**63 - 2, 2**63 - 3, 2**62])
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_start_that_cannot_be(root: Path, start: int, clean: bool) -> None:
    """Offsets never become negative, and the store opens again and again."""
    (root / "log-start-offset-checkpoint").write_text(f"0\n1\nodd 0 {start}\n")
    if clean and start != 2**63 - 1:  # nothing explains it: the log is left alone until recovery is asked for
        kept = [log.read_bytes() for log in sorted((root / "odd-0").glob("*.log"))]
        with tidelog.open(root) as store:
            assert f"starts at {start}" in store.offline_partitions[TopicPartition("odd", 0)]
            assert len(values(store, "other")) == 40
        assert [log.read_bytes() for log in sorted((root / "odd-0").glob("*.log"))] == kept
        keeping = KeepingFileSystem(LOCAL)
        recover_root(keeping, str(root))
        assert [Path(name).read_bytes() for name, _ in sorted(keeping.kept)] == kept
    if not clean:
        (root / ".kafka_cleanshutdown").unlink()
        recover_root(LOCAL, str(root))
    for _ in range(3):
        with tidelog.open(root) as store:
            assert not store.offline_partitions
            partition = store.partition("odd")
            assert 0 <= partition.log_start_offset <= partition.log_end_offset
            before = partition.log_end_offset
            if before + 3 < 2**63:
                partition.append(some(3), sync=True)
                assert partition.log_end_offset == before + 3
            else:
                with pytest.raises(InvalidInputError, match="9223372036854775807 is the largest"):
                    partition.append(some(3), sync=True)
                assert partition.log_end_offset == before
            assert len(values(store, "other")) == 40
    if start == 2**63 - 1:
        with tidelog.open(root) as store:
            assert values(store, "odd")[:40] == [one.value for one in some(40)]


# ---- verify


def damage(root: Path) -> list[Finding]:
    return [one for one in verify_root(LOCAL, str(root)) if one.kind is Kind.DAMAGE]


@pytest.mark.parametrize("before", [0, 1, 7, 39, 40])
@pytest.mark.parametrize("epochs", [1, 3])
def test_a_trimmed_topic_is_sound(tmp_path: Path, before: int, epochs: int) -> None:
    """Epochs that ended before the log start are forgotten, as Kafka does; batches may be there still."""
    with tidelog.open(tmp_path / "root") as store:
        partition = store.create_topic("t")[0]
        for epoch in range(epochs):
            partition.append(some(40 // epochs), leader_epoch=epoch)
        partition.append(some(40 - partition.log_end_offset), leader_epoch=epochs - 1)
        partition.delete_records(before)
    for _ in range(2):
        assert damage(tmp_path / "root") == []
        with tidelog.open(tmp_path / "root") as store:
            assert store.partition("t").log_start_offset == before
    if before == 0:
        (tmp_path / "root" / "t-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
        assert "epoch 0 is missing" in damage(tmp_path / "root")[0].cause


def test_a_wrong_topic_id_is_found(root: Path) -> None:
    path = root / "odd-0" / "partition.metadata"
    path.unlink()
    write_partition_metadata(LOCAL, path, random_id())
    (found,) = damage(root)
    assert (found.file, "the metadata" in found.cause) == (str(path), True)


def test_partitions_of_one_topic_with_two_ids_are_found(tmp_path: Path) -> None:
    for number in range(3):
        with Log.open(tmp_path / f"t-{number}", topic_id=random_id() if number == 1 else None):
            pass
    same = random_id()
    for number in (0, 2):
        write_partition_metadata(LOCAL, tmp_path / f"t-{number}" / "partition.metadata", same)
    (found,) = damage(tmp_path)
    assert found.file == str(tmp_path / "t-1" / "partition.metadata")


# ---- making topics where roots fail


def two(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "r1"), str(tmp_path / "r2")]


@pytest.mark.parametrize("operation", ["make_directory", "create", "sync", "sync_directory", "pwrite"])
@pytest.mark.parametrize("count", [1, 4])
def test_a_root_that_fails_under_a_new_topic_gives_way_to_the_next(
    tmp_path: Path, operation: str, count: int
) -> None:
    failing = ""

    def rule(call: Call) -> Fault | None:
        return Fault(errno.EIO) if failing and call.operation == operation and failing in call.path else None

    fs = FaultyFileSystem(LOCAL, rule)
    store = tidelog.open(two(tmp_path), fs=fs)
    store.create_topic("before", 2)
    failing = f"{tmp_path}/r2"
    made = 0
    for number in range(3):
        topic = store.create_topic(f"t{number}", count)
        made += len([partition for partition in topic if partition.is_online])
        for partition in topic:
            partition.append(some(2), sync=True)
    assert made == 3 * count
    failing = ""
    store.close()
    with tidelog.open(two(tmp_path)) as again:
        assert set(again.topics) == {"before", "t0", "t1", "t2"}
        assert not again.offline_partitions
        assert all(len(values(again, f"t{n}", p)) == 2 for n in range(3) for p in range(count))


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_topic_that_cannot_be_made_leaves_nothing(tmp_path: Path, code: int, at: int) -> None:
    """No directory, no registered ghost; also of partitions that were to be added."""
    left = -1

    def rule(call: Call) -> Fault | None:
        nonlocal left
        if left < 0 or call.operation != "create" or not call.path.endswith(".index"):
            return None
        left -= 1
        if left >= 0:
            return None
        left = 0
        return Fault(code)

    fs = FaultyFileSystem(LOCAL, rule)
    root = tmp_path / "root"
    store = tidelog.open(root, fs=fs)
    store.create_topic("grows", 1)
    before = sorted(path.name for path in root.iterdir() if path.is_dir())
    for make in (lambda: store.create_topic("ghost", 8), lambda: store.create_partitions("grows", 9)):
        left = at
        with pytest.raises(OSError, match=os.strerror(code)):
            make()
        left = -1
        if code == errno.EIO:  # which takes the only root offline
            break
        assert sorted(path.name for path in root.iterdir() if path.is_dir()) == before
        assert (len(store.topic("grows")), "ghost" in store) == (1, False)
        store.partition("grows").append(some(1), sync=True)
    store.close()
    with tidelog.open(root) as again:
        assert ("ghost" in again, not again.offline_partitions) == (False, True)
        assert len(again.topic("grows")) == 1
        again.create_topic("ghost", 2)


def test_a_directory_that_was_there_before_is_not_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with tidelog.open(root) as store:
        store.create_topic("t")
        with Log.open(root / "new-1", topic_id=random_id()) as log:
            log.append_as_leader(some(3))
        size = (root / "new-1" / FIRST).stat().st_size
        with pytest.raises(TidelogError, match="new-1"):
            store.create_topic("new", 3)
        assert "new" not in store
        assert not (root / "new-0").exists()
    assert (root / "new-1" / FIRST).stat().st_size == size


def test_no_root_online(tmp_path: Path) -> None:
    fails = False
    fs = FaultyFileSystem(LOCAL, lambda call: Fault(errno.EIO) if fails else None)
    store = tidelog.open(two(tmp_path), fs=fs)
    store.create_topic("t", 2)
    fails = True
    store.checkpoint()  # finds out
    for call in (lambda: store.create_topic("v"), lambda: store.create_partitions("t", 5)):
        with pytest.raises(LogOfflineError, match="no root is online"):
            call()
    with pytest.raises(LogOfflineError):
        store.partition("t").append(some(1))
    assert set(store.offline_partitions) == {TopicPartition("t", 0), TopicPartition("t", 1)}
    store.close()


@pytest.mark.parametrize("data", [b"\x00\xff\x13garb age\n\x01", b""])
def test_a_meta_properties_that_does_not_tell_whose_the_root_is_is_left_as_it_is(
    root: Path, data: bytes
) -> None:
    (root / "meta.properties").write_bytes(data)
    with pytest.raises(InvalidInputError, match="names neither a node nor a cluster"):
        tidelog.open(root)
    assert (root / "meta.properties").read_bytes() == data
