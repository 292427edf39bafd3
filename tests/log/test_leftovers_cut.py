"""Power cuts while opening a log finishes, or takes back, what an earlier crash has left."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.log.logs import SMALL, Clock, abort, all_records, record, send
from tests.segment.crafting import batch
from tidelog.log import Log
from tidelog.records import scan_batches
from tidelog.segment import ActiveSegment
from tidelog.storage.names import FileKind, Transient, format_segment_file
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.journal import Operation, Rename, SyncNames, UnsetName

PATH = "/t-0"


def on_a_disk(files: dict[str, bytes]) -> CrashFileSystem:
    """A partition with these files, all of them on the disk."""
    fs = CrashFileSystem()
    fs.make_directory(PATH)
    for name, data in files.items():
        file = fs.open(f"{PATH}/{name}", create=True)
        file.pwrite(data, 0)
        file.sync()
        file.close()
    fs.sync_directory(PATH)
    fs.sync_directory("/")
    return fs.crash(kept="synced")


def after_cuts(fs: CrashFileSystem, **options: int) -> Iterator[Log]:
    """Open the log, and once more after a power cut at each step by which names are brought in order."""
    with Log.open(PATH, SMALL, fs=fs, now_ms=Clock(), **options) as log:
        yield log
    kinds = (Rename, UnsetName, SyncNames)
    names = itertools.takewhile(lambda step: isinstance(fs.operation(step), kinds), itertools.count(1))
    for step in names:
        for seed in range(32):
            after = fs.crash(step, seed=seed, kept="some" if seed else "all")
            with Log.open(PATH, SMALL, fs=after, now_ms=Clock(), **options) as log:
                yield log


def test_a_replacement_that_was_not_complete_never_looks_complete() -> None:
    parts = [batch(0), batch(5), batch(10)]
    fs = on_a_disk(
        {
            format_segment_file(0, FileKind.LOG): b"".join(parts),
            format_segment_file(0, FileKind.LOG, Transient.CLEANED): parts[0],
            format_segment_file(5, FileKind.LOG, Transient.SWAP): parts[1] + parts[2],
        }
    )
    for log in after_cuts(fs):
        assert [segment.base_offset for segment in log.segments] == [0]
        assert [one.offset for one in all_records(log)] == [0, 5, 10]


def test_a_replacement_that_was_complete_keeps_what_is_known_of_aborted_transactions() -> None:
    fs = CrashFileSystem()
    with Log.open(PATH, SMALL, fs=fs, clean=True, now_ms=Clock()) as log:
        send(log, 1, 0, record(0))
        abort(log, 1)
        log.roll()
        send(log, 1, 1, record(1), transactional=False)
        end = log.log_end_offset
    for entry in reversed(fs.list(PATH)):  # the order of a listing means nothing
        if entry.name.startswith(f"{0:020d}."):
            fs.rename(f"{PATH}/{entry.name}", f"{PATH}/{entry.name}{Transient.SWAP.value}")
    fs.sync_directory(PATH)
    for log in after_cuts(fs.crash(kept="synced"), recovery_point=end):
        assert log.log_end_offset == end
        assert [txn.producer_id for txn in log.aborted_transactions(0, end)] == [1]


def test_segments_that_were_joined_are_gone_before_the_new_one_has_its_name() -> None:
    parts = [batch(0), batch(5)]
    fs = on_a_disk(
        {
            format_segment_file(base, kind): data if kind is FileKind.LOG else b""
            for base, data in zip((0, 5), parts, strict=True)
            for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
        }
    )
    with Log.open(PATH, SMALL, fs=fs, clean=True, now_ms=Clock()) as log:
        log.roll()
        joined = ActiveSegment.create(log.directory, 0, SMALL, clock=Clock(), transient=Transient.CLEANED)
        joined.append(b"".join(parts), scan_batches(b"".join(parts)).require())
        log.replace_segments([joined.seal()], list(log.segments)[:-1])
        assert [one.offset for one in all_records(log)] == [0, 5]
    log_name, *indexes = (step for step in range(1, fs.steps) if _is_named(fs.operation(step)))
    before = {entry.name for entry in fs.crash(log_name - 1, kept="synced").list(PATH)}
    assert before.isdisjoint(format_segment_file(base, FileKind.LOG) for base in (0, 5))
    for step in indexes:  # an index that came before its log would look like one of the old segment
        names = {entry.name for entry in fs.crash(step - 1, kept="synced").list(PATH)}
        assert format_segment_file(0, FileKind.LOG) in names


def _is_named(operation: Operation) -> bool:
    """Whether a file of a segment that takes the place of others gets its name."""
    return isinstance(operation, Rename) and operation.name.endswith(Transient.SWAP.value)
