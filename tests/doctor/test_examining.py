"""Doctor on golden roots: nothing to mend, in words and as JSON, and not a byte is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import tidelog
from tests.cli.command import run
from tests.doctor.harming import batch_at, flip, log, make_root
from tests.golden import GOLDEN
from tests.manager.damage import make_unclean
from tests.manager.test_coordinators import record, state
from tidelog import Record
from tidelog.doctor import Kind, RootVerdict, Severity, examine
from tidelog.doctor.fixing import make_plan
from tidelog.layout.roots import Checkpoint
from tidelog.log.log import clock_ms
from tidelog.records.batches import scan_batches
from tidelog.storage import LOCAL, File, LocalFileSystem, write_offset_checkpoint
from tidelog.testing.builders import LogBuilder
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

NOW_MS = 1_763_280_000_000


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a directory: mode, time and content."""
    found = {}
    for path in sorted([root, *root.rglob("*")]):
        stat = path.stat()
        data = b"" if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(root))] = (stat.st_mode, stat.st_mtime_ns, data)
    return found


def test_a_golden_root_is_sound(tmp_path: Path) -> None:
    root = Path(shutil.copytree(GOLDEN / "clean", tmp_path / "root"))
    before = snapshot(root)
    verdicts = list(examine(LOCAL, [str(root)], now_ms=NOW_MS))
    wrong = [one for verdict in verdicts for one in verdict.findings if one.severity.is_wrong]
    assert wrong == []
    (last,) = (one for one in verdicts if isinstance(one, RootVerdict))
    assert last.starts
    assert last.verdict == "a stock Kafka 4.3 starts"
    assert snapshot(root) == before


def test_an_unclean_root_is_recovered(tmp_path: Path) -> None:
    root = make_unclean(tmp_path / "root")
    before = snapshot(root)
    verdicts = list(examine(LOCAL, [str(root)], now_ms=NOW_MS))
    last = verdicts[-1]
    assert isinstance(last, RootVerdict)
    assert "not clean" in last.verdict
    assert last.recovery_bytes > 0
    assert snapshot(root) == before


def test_a_transaction_that_its_coordinator_knows_does_not_hang(tmp_path: Path) -> None:
    """A broker ends it as soon as it has loaded __transaction_state."""
    root = make_root(tmp_path / "root", "golden-txn-0")
    ongoing = {
        **state(16, 1, []),
        "transactionPartitions": [{"topic": "golden-txn", "partitionIds": [0]}],
    }
    with LogBuilder(root / "__transaction_state-0") as builder:
        builder.append([record("TransactionLog", {"transactionalId": "a"}, ongoing)])
    verdicts = examine(LOCAL, [str(root)], now_ms=NOW_MS + 365 * 86_400_000)
    found = [one for verdict in verdicts for one in verdict.findings if one.kind is Kind.TRANSACTION]
    (one,) = (each for each in found if each.file.endswith("golden-txn-0"))
    assert one.severity is Severity.NOTE
    assert "the coordinator knows it, and ends it at the start" in one.kafka
    assert "kafka-transactions.sh" not in one.advice


def test_a_hanging_transaction_pins_the_stable_offset(tmp_path: Path) -> None:
    """No coordinator's topic is here: its age tells."""
    root = make_root(tmp_path / "root", "golden-txn-0")
    verdicts = examine(LOCAL, [str(root)], now_ms=NOW_MS + 365 * 86_400_000)
    found = [one for verdict in verdicts for one in verdict.findings if one.kind is Kind.TRANSACTION]
    (one,) = (each for each in found if each.file.endswith("golden-txn-0"))
    assert one.severity is Severity.WARNING
    assert (one.offset, one.end_offset) == (1390, 1442)
    assert "--topic golden-txn --partition 0 --start-offset 1390" in one.advice


def test_the_command_prints_json_and_tables(tmp_path: Path) -> None:
    root = Path(shutil.copytree(GOLDEN / "clean", tmp_path / "root"))
    told = run("doctor", root, "--json")
    assert told.code == 0
    lines = [json.loads(line) for line in told.lines]
    assert {line["about"] for line in lines} == {"finding", "partition", "root"}
    assert lines[-1]["starts"] is True
    (root / "golden-txn-0" / "leader-epoch-checkpoint").write_text("garbage\n")
    told = run("doctor", root, "--quiet")
    assert told.code == 1
    assert "takes the whole disk offline" in told.out
    assert "does not start, or not with this disk" in told.lines[-1]


def test_one_partition_alone(tmp_path: Path) -> None:
    root = Path(shutil.copytree(GOLDEN / "clean", tmp_path / "root"))
    told = run("doctor", root / "golden-txn-0", "--json")
    assert told.code == 0
    abouts = [json.loads(line)["about"] for line in told.lines]
    assert abouts.count("partition") == 1
    assert "root" not in abouts


def test_retention_and_its_pins_are_foretold(tmp_path: Path) -> None:
    root, day = str(tmp_path / "data"), 86_400_000
    with tidelog.open(root) as store:
        old = store.create_topic("old", config={"retention.ms": day})
        late = store.create_topic("late", config={"retention.ms": day})
        old[0].append([Record(b"x", timestamp=NOW_MS - 3 * day)])
        late[0].append([Record(b"x", timestamp=NOW_MS + 3 * day)])
    found = [one for verdict in examine(LOCAL, [root], now_ms=NOW_MS) for one in verdict.findings]
    said = {(one.kind, one.severity, one.file.removeprefix(f"{root}/")[:5]) for one in found}
    assert (Kind.RETENTION, Severity.LOSS, "old-0") in said
    *_, last = examine(LOCAL, [root], now_ms=NOW_MS)
    assert last.verdict.endswith("starts; retention deletes 1 segment half a minute later")
    assert (Kind.FUTURE, Severity.WARNING, "late-") in said


def test_bad_usage(tmp_path: Path) -> None:
    assert run("doctor", tmp_path / "absent").code == 2
    assert run("doctor").code == 2


def test_the_documentation_lists_every_kind_and_severity() -> None:
    text = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    for name in [*(kind.value for kind in Kind), *(one.value for one in Severity)]:
        assert f"| `{name}` |" in text, name


def test_bad_batches_are_told_one_by_one(tmp_path: Path) -> None:
    """What lies between and behind them is sound, and not meant."""
    root = make_root(tmp_path / "root", "golden-none-0")
    path = log(root, number=1)
    spans = [batch_at(path, number) for number in (1, 3)]
    for begin, _ in spans:
        flip(path, begin + 70)
    verdicts = list(examine(LOCAL, [str(root)], now_ms=NOW_MS))
    bad = [one for verdict in verdicts for one in verdict.findings if one.kind is Kind.BATCH]
    assert [one.position for one in bad] == [begin for begin, _ in spans]
    table = scan_batches(path.read_bytes(), check_crc=False).require()
    assert [(one.offset, one.end_offset) for one in bad] == [
        (int(table.base_offset[n]), int(table.last_offset[n]) + 1) for n in (1, 3)
    ]


def test_threads_find_the_same_in_the_same_order(tmp_path: Path) -> None:
    root = make_unclean(tmp_path / "root")
    alone, together = (list(examine(LOCAL, [str(root)], now_ms=NOW_MS, threads=n)) for n in (1, 3))
    assert together == alone
    assert len(alone) > 3


def test_small_files_that_say_nonsense_are_findings(tmp_path: Path) -> None:
    """A manifest that is none, numbers that are too long to be any: each has its finding."""
    root = make_root(tmp_path / "root", "golden-none-0")
    (root / ".tidelog-fix-abc.json").write_text("noise")
    (root / "recovery-point-offset-checkpoint").write_text("9" * 5000 + "\n1\n")
    (root / "golden-none-0" / "leader-epoch-checkpoint").write_text("0\n" + "9" * 5000 + "\n")
    told = run("doctor", root, "-q", "--json")
    assert told.code == 1
    lines = [json.loads(line) for line in told.lines]
    assert [one["kind"] for one in lines if one["about"] == "finding"].count("kept-aside") == 1
    fatal = {Path(one["file"]).name for one in lines if one.get("severity") == "fatal"}
    assert fatal == {"recovery-point-offset-checkpoint", "leader-epoch-checkpoint"}
    assert lines[-1]["about"] == "root"


def test_an_offset_past_the_end_is_told_of_every_checkpoint(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "root", background=False) as store:
        store.create_topic("t", config={"cleanup.policy": "compact"})[0].append([Record(b"v", b"k")])
    for kind in Checkpoint:
        write_offset_checkpoint(LOCAL, tmp_path / "root" / kind.value, {TopicPartition("t", 0): 9})
    found = examine(LOCAL, [str(tmp_path / "root")], now_ms=NOW_MS)
    told = {one.file: one for verdict in found for one in verdict.findings if one.kind is Kind.CHECKPOINT}
    assert set(told) == {str(tmp_path / "root" / kind.value) for kind in Checkpoint}
    for kind in Checkpoint:
        assert (
            f"the {kind.label} of t-0 is 9, but its log ends at 1"
            in told[str(tmp_path / "root" / kind.value)].cause
        )


def test_retention_is_not_foretold_of_the_metadata_log(tmp_path: Path) -> None:
    root = make_root(tmp_path / "root", "golden-none-0")
    verdicts = list(examine(LOCAL, [str(root)], now_ms=NOW_MS + 1000 * 86_400_000))
    said = {one.partition: one.verdict for one in verdicts if not isinstance(one, RootVerdict)}
    assert "retention" not in said["__cluster_metadata-0"]


def test_retention_goes_by_the_last_slot_of_a_time_index(tmp_path: Path) -> None:
    """Zeros at the end, which nobody has trimmed, are the time 0 to a broker (KAFKA-10207)."""
    root, now_ms = tmp_path / "data", clock_ms()
    with tidelog.open(root) as store:
        topic = store.create_topic(
            "orders", config={"retention.ms": 10 * 86_400_000, "segment.bytes": 1024 * 1024}
        )
        for _ in range(3):
            topic[0].append([Record(b"x" * 400_000, timestamp=now_ms)])
            topic[0].append([Record(b"x" * 400_000, timestamp=now_ms)])

    def deleted() -> list[int | None]:
        found = [one for verdict in examine(LOCAL, [str(root)], now_ms=now_ms) for one in verdict.findings]
        return [one.end_offset for one in found if one.kind is Kind.RETENTION]

    assert deleted() == []
    first = min((root / "orders-0").glob("*.timeindex"))
    with first.open("ab") as file:
        file.write(bytes(12 * 20))
    assert deleted() == [2]


def test_partitions_without_a_directory_are_made_anew(tmp_path: Path) -> None:
    root = tmp_path / "data"
    with tidelog.open(root) as store:
        store.create_topic("orders", partitions=2)[1].append([Record(b"x")])
    verdicts = list(examine(LOCAL, [str(root)], now_ms=clock_ms()))
    assert not [one for verdict in verdicts for one in verdict.findings if one.kind is Kind.MISSING]
    shutil.rmtree(root / "orders-1")
    *_, last = examine(LOCAL, [str(root)], now_ms=clock_ms())
    (one,) = (one for one in last.findings if one.kind is Kind.MISSING)
    assert "orders-1 to this disk" in one.cause
    assert one.kafka == "it makes them anew, empty"


class Restless(LocalFileSystem):
    """A disk on which somebody appends whenever it is looked at."""

    def __init__(self, append: Callable[[], object]) -> None:
        super().__init__()
        self._append, self._left = append, 60

    def open(self, path: StrPath, *, writable: bool = False, create: bool = False) -> File:
        if self._left and "hot-0/" in str(path):
            self._left -= 1
            self._append()
        return super().open(path, writable=writable, create=create)


def test_a_partition_that_is_written_to_is_not_damaged(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "root") as store:
        config = {"retention.ms": -1, "segment.bytes": 1 << 20, "index.interval.bytes": 100}
        hot = store.create_topic("hot", config=config)[0]
        hot.append([Record(b"first")])
        fs = Restless(lambda: hot.append([Record(bytes(30_000))] * 3))
        found = list(examine(fs, [str(tmp_path / "root")], now_ms=NOW_MS))
        plan = make_plan(fs, [str(tmp_path / "root")], now_ms=NOW_MS)
    said = [(one.kind, one.cause) for verdict in found for one in verdict.findings if one.severity.is_wrong]
    assert said == []
    assert [one for step in plan.steps for one in step.actions if one.path.endswith(".log")] == []
