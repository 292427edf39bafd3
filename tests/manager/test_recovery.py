"""Recovery of what Kafka left: after a kill, with golden damage, and with any damage as Kafka takes it."""

from __future__ import annotations

import base64
import contextlib
import errno
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tests.golden import GOLDEN, golden_partition, read_json_lines
from tests.log.logs import send
from tests.manager.damage import DATA_CONFIG, TornCase, damage, make_torn, make_unclean, torn_cases
from tidelog.config import LogConfig
from tidelog.errors import TidelogError
from tidelog.log import Log
from tidelog.manager import BrokerConfig, Store
from tidelog.manager.metadata.files import METADATA_DIRECTORY
from tidelog.manager.upkeep.kept_aside import KeepingFileSystem
from tidelog.manager.upkeep.recovery import recover_partition, recover_root
from tidelog.manager.upkeep.rehearsal import Rehearsal
from tidelog.records import Record, decode_records
from tidelog.storage import LOCAL
from tidelog.storage.files import write_again
from tidelog.testing.builders import flip_bit
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import Call, Fault, FaultyFileSystem
from tidelog.types import FetchIsolation

if TYPE_CHECKING:
    from tests.oracle import Oracle

CONFIG = LogConfig.from_properties(DATA_CONFIG)
NOW_MS = 1_794_732_400_000
NAMES = sorted(path.name for path in (GOLDEN / "clean").glob("golden-*"))

Facts = tuple[int, int, bytes | None, bytes | None]


def stored(directory: Path) -> list[Facts]:
    """Every record in a partition's files."""
    return [
        (record.offset, record.timestamp, record.key, record.value)
        for log in sorted(directory.glob("*.log"))
        for record in decode_records(log.read_bytes(), source=str(log))
    ]


def expected(name: str) -> list[Facts]:
    """Every record as Kafka decoded it."""

    def plain(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    return [
        (line["offset"], line["timestamp"], plain(line["key"]), plain(line["value"]))
        for line in golden_partition(name).records()
    ]


def files(directory: Path, *suffixes: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in suffixes}


# ---- after a kill


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_unclean(tmp_path_factory.mktemp("unclean") / "root")
    with tidelog.open(root, recover=True) as store:
        assert not store.offline_partitions
        assert not store.skipped
    return root


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_brokers_partition_recovers_to_its_records(recovered: Path, name: str) -> None:
    assert stored(recovered / name) == expected(name)
    clean = GOLDEN / "clean" / name
    indexes = files(recovered / name, ".index", ".timeindex", ".txnindex")
    assert indexes == files(clean, ".index", ".timeindex", ".txnindex")


def test_a_killed_brokers_root_is_in_order_again(recovered: Path) -> None:
    assert (recovered / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    log = f"{METADATA_DIRECTORY}/{0:020}.log"
    unclean = make_unclean(recovered.parent / "again")
    assert (recovered / log).read_bytes() == (unclean / log).read_bytes(), "the metadata log is not ours"
    points = dict(
        line.rsplit(" ", 1)
        for line in (recovered / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]
    )
    assert points["golden-none 0"] == "1560"
    assert "golden-trimmed 0 333" in (recovered / "log-start-offset-checkpoint").read_text()
    with tidelog.open(recovered, recover=True) as store:
        none = store.partition("golden-none")
        assert (none.log_start_offset, none.log_end_offset) == (0, 1560)
        assert store.partition("golden-trimmed").log_start_offset == 333


# ---- golden damage


def check_answers(log: Log, answers: list[dict[str, Any]]) -> None:
    """The log answers as Kafka's did after its own recovery."""
    for line in answers:
        if "log_end_offset" in line:
            found = {
                "log_start_offset": log.log_start_offset,
                "log_end_offset": log.log_end_offset,
                "segments": len(log.segments),
                "size": log.size,
            }
            assert found == line
        elif "last_stable_offset" in line:
            assert log.last_stable_offset == line["last_stable_offset"]
        elif "batch_offset" in line:
            segment = log.segments.floor(line["offset"])
            assert segment is not None
            entry = segment.offset_index.lookup(line["offset"])
            batch = segment.translate_offset(line["offset"])
            assert batch is not None
            assert (segment.base_offset, entry.offset, entry.position, batch.offset, batch.position) == (
                line["segment"],
                line["index_offset"],
                line["index_position"],
                line["batch_offset"],
                line["batch_position"],
            )
        elif "timestamp" in line:
            found_time = log.offset_for_timestamp(line["timestamp"])
            told = (
                None
                if found_time is None
                else {"timestamp": found_time.timestamp, "offset": found_time.offset}
            )
            assert told == line["found"]
        elif "committed_from" in line:
            start = line["committed_from"]
            aborted = log.read(start, 1 << 30, FetchIsolation.TXN_COMMITTED).aborted_transactions or ()
            assert [[txn.producer_id, txn.first_offset] for txn in aborted] == line["aborted"]


@pytest.mark.parametrize("case", torn_cases(), ids=lambda case: f"{case.name} {case.damage}")
def test_golden_damage_is_cut_as_kafka_cuts_it(case: TornCase, tmp_path: Path) -> None:
    directory = make_torn(case, tmp_path)
    answers = read_json_lines(GOLDEN / "expected" / f"{case.name}.torn.lookups.jsonl.gz")
    with Log.open(directory, CONFIG, recovery_point=case.recovery_point) as log:
        log.update_high_watermark(log.log_end_offset)
        assert len(answers) > 50
        check_answers(log, answers)
    assert stored(directory) == expected(case.of)[: case.records_after]


# ---- any damage, as Kafka takes it


def settled_epochs(text: str, log_start: int, log_end: int) -> str:
    """Kafka's file of leader epochs as it will be: a thread of its own brings it up to the log's bounds."""
    entries = [[int(word) for word in line.split()] for line in text.splitlines()[2:]]
    entries = [[epoch, start] for epoch, start in entries if start < log_end]
    while len(entries) > 1 and entries[1][1] <= log_start:
        del entries[0]
    if entries:
        entries[0][1] = max(entries[0][1], log_start)
    return "".join(f"{line}\n" for line in ("0", len(entries), *(f"{e} {start}" for e, start in entries)))


def compare_recoveries(oracle: Oracle, tmp_path: Path, seed: int, count: int) -> None:
    dice = random.Random(seed)
    cases, compared = [], 0
    for number in range(count):
        source = GOLDEN / "clean" / dice.choice(NAMES)
        ours = shutil.copytree(source, tmp_path / "ours" / f"t-{number}")
        ends = sorted(int(log.stem) for log in ours.glob("*.log"))
        point = dice.choice([0, dice.choice(ends), dice.choice(ends) + dice.randrange(100)])
        what = [damage(ours, point, dice) for _ in range(dice.choice([1, 1, 2]))]
        theirs = shutil.copytree(ours, tmp_path / "kafka" / ours.name)
        start = 333 if "trimmed" in source.name else 0
        cases.append((source.name, what, ours, theirs, start, point))
    asked = [
        {
            "dir": str(theirs),
            "config": dict(DATA_CONFIG),
            "log_start": start,
            "recovery_point": point,
            "now_ms": NOW_MS,
        }
        for _, _, _, theirs, start, point in cases
    ]
    answers = oracle.programs.ask("tidelog.oracle.Recover", {"cases": asked})
    for (name, what, ours, theirs, start, point), answer in zip(cases, answers, strict=True):
        told = (name, what, point)
        opening: dict[str, Any] = {
            "log_start_offset": start,
            "recovery_point": point,
            "now_ms": lambda: NOW_MS,
        }
        if "threw" in answer:  # Kafka does not open it at all; we may
            with contextlib.suppress(TidelogError), Log.open(ours, CONFIG, **opening):
                pass
            continue
        compared += 1
        with Log.open(ours, CONFIG, **opening) as log:
            log.update_high_watermark(log.log_end_offset)
            found = {
                "log_start_offset": log.log_start_offset,
                "log_end_offset": log.log_end_offset,
                "base_offsets": [segment.base_offset for segment in log.segments],
            }
            stable = log.last_stable_offset
            theirs_stable = answer.pop("last_stable_offset")
            # Kafka names the first batch behind a hole that compaction left, we the hole.
            hole = [record for record in stored(ours) if stable <= record[0] < theirs_stable]
            assert stable <= theirs_stable, told
            assert not hole, told
        assert found == answer, told
        for suffix in (".log", ".index", ".timeindex", ".txnindex"):
            assert files(ours, suffix) == files(theirs, suffix), (*told, suffix)
        epochs = "leader-epoch-checkpoint"
        kafkas = settled_epochs(
            (theirs / epochs).read_text(), found["log_start_offset"], found["log_end_offset"]
        )
        assert (ours / epochs).read_text() == kafkas, told
    assert compared > count * 0.8


def test_any_damage_leaves_what_kafka_leaves(oracle: Oracle, tmp_path: Path) -> None:
    compare_recoveries(oracle, tmp_path, seed=1, count=30)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_much_damage_leaves_what_kafka_leaves(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    compare_recoveries(oracle, tmp_path, seed=seed, count=60)


# ---- what recovery would do


@pytest.mark.parametrize("case", torn_cases(), ids=lambda case: f"{case.name} {case.damage}")
def test_a_dry_run_foresees_golden_damage(case: TornCase, tmp_path: Path) -> None:
    directory = make_torn(case, tmp_path)
    foreseen(directory, case.recovery_point)


def foreseen(directory: Path, point: int) -> None:
    """A dry run changes nothing and says what recovery then does."""
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    plan = recover_partition(LOCAL, str(directory), recovery_point=point, dry_run=True)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    done = recover_partition(LOCAL, str(directory), recovery_point=point)
    assert (plan.error is None) == (done.error is None), (plan, done)
    if done.error is None:
        assert (plan.cause is None) == (done.bytes_cut == 0), (plan, done)
        assert replace(plan, cause=None) == done


@pytest.mark.parametrize("seed", range(10))
def test_a_dry_run_foresees_any_damage(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(6):
        source = GOLDEN / "clean" / dice.choice(NAMES)
        directory = Path(shutil.copytree(source, tmp_path / f"t-{number}"))
        bases = sorted(int(log.stem) for log in directory.glob("*.log"))
        point = dice.choice([0, dice.choice(bases)])
        damage(directory, point, dice)
        foreseen(directory, point)


# ---- the store's clock and configuration


@pytest.mark.parametrize(("idle_ms", "known"), [(999, {1, 2}), (1000, {2})])
def test_opening_recovers_by_the_stores_clock_and_expiration(idle_ms: int, known: set[int]) -> None:
    fs, clock = CrashFileSystem(), NOW_MS
    config = BrokerConfig.from_properties({"producer.id.expiration.ms": "1000"})

    def opened() -> Store:
        return tidelog.open(
            ["/a"], config=config, fs=fs, now_ms=lambda: clock, background=False, recover=True
        )

    store = opened()
    log = store.create_topic("t", 1)[0].log
    send(log, 1, 0, Record(b"one", timestamp=clock), transactional=False)
    log.roll()  # its snapshot knows the producer; the next segment does not
    clock += idle_ms
    send(log, 2, 0, Record(b"two", timestamp=clock), transactional=False)
    store.partition("t").go_offline(RuntimeError("killed"))
    assert opened().partition("t").log.active_producers.keys() == known


def test_a_dry_run_that_writes_again_holds_nothing_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(b"records")
    rehearsal = Rehearsal(LOCAL)
    file = rehearsal.open(path, writable=True)
    state = file.state()
    write_again(file)
    assert file.state() == state
    file.pwrite(b"other", 2)
    assert file.pread(9, 0) == b"reother"
    assert path.read_bytes() == b"records"
    rehearsal.close()


@pytest.mark.parametrize("opened", [True, False])
def test_a_copy_that_a_move_had_begun_is_recovered_with_its_root(tmp_path: Path, opened: bool) -> None:
    root = tmp_path / "root"
    with tidelog.open(root) as store:
        store.create_topic("orders", 1)
        for number in range(4):
            store.partition("orders").append([Record(b"%d" % number)])
    future = root / "orders-0.0123456789abcdef0123456789abcdef-future"
    shutil.copytree(root / "orders-0", future)
    log = future / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-5])
    (root / ".kafka_cleanshutdown").unlink()
    if opened:
        with tidelog.open(root, recover=True):
            pass
    else:
        recover_root(LOCAL, str(root))
    assert (root / ".kafka_cleanshutdown").exists()
    assert len(list(decode_records(log.read_bytes()))) == 3, (
        "what the clean-shutdown file vouches for is sound"
    )
    with tidelog.open(root) as store:
        assert store.partition("orders").log_end_offset == 4


def test_a_full_disk_leaves_no_part_of_what_was_to_be_kept(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with tidelog.open(root) as store:
        store.create_topic("orders", 1)
        store.partition("orders").append([Record(b"v")] * 100)
    log = root / "orders-0" / f"{0:020}.log"
    flip_bit(log, 100)
    (root / ".kafka_cleanshutdown").unlink()
    (root / "recovery-point-offset-checkpoint").unlink()
    before = log.read_bytes()

    def full(call: Call) -> Fault | None:
        kept = call.operation == "pwrite" and ".from-" in call.path
        return Fault(errno.ENOSPC, call.size // 2) if kept else None

    done = recover_root(KeepingFileSystem(FaultyFileSystem(LOCAL, full)), str(root))
    assert "No space left" in str(done[0].error)
    assert log.read_bytes() == before
    assert not list((root / "orders-0").glob("*.from-*"))
