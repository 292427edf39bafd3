"""One partition's directory: what is wrong with its files, and what a stock broker's loader makes of them.

What verification finds says what is there now; the forecast says what becomes of it. Each finding gets the
broker's answer from the forecast: a file that is rebuilt or removed there mends itself, one that stays does
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidelog.cleanup import RetentionPlan
from tidelog.config import LogConfig
from tidelog.doctor.changes import Change, ChangeKind
from tidelog.doctor.disks import PartitionDirectory, refuses_checkpoint
from tidelog.doctor.findings import Finding, Kind, PartitionVerdict, Severity, counted
from tidelog.doctor.forecast import Forecast, Start, forecast_load
from tidelog.doctor.mending import damaged_swaps, take_out
from tidelog.doctor.misnamed import examine_names
from tidelog.errors import TidelogError
from tidelog.layout.partitions import list_partition
from tidelog.manager.verification import Finding as Verified
from tidelog.manager.verification import Kind as VerifiedKind
from tidelog.manager.verification import verify_partition
from tidelog.storage import FileSystem
from tidelog.storage.names import (
    CLUSTER_METADATA_TOPIC,
    INDEX_FILES,
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    DirectoryState,
    FileKind,
    Transient,
    parse_partition_directory,
    parse_segment_file,
)
from tidelog.storage.reading import FileReader

__all__ = ["Examined", "examine_partition"]

_KINDS = {
    FileKind.LOG.value: Kind.BATCH,
    FileKind.SNAPSHOT.value: Kind.SNAPSHOT,
} | {kind.value: Kind.INDEX for kind in INDEX_FILES}
_ASIDE = ".from-"


@dataclass(slots=True)
class Examined:
    """A partition's verdict, and the forecast that it was made from."""

    verdict: PartitionVerdict
    forecast: Forecast
    verified_end: int = 0
    """Where its log ends by verification."""


def examine_partition(
    fs: FileSystem,
    directory: PartitionDirectory,
    config: LogConfig,
    start: Start,
    *,
    advance: Callable[[int], None] = lambda size: None,
) -> Examined:
    """Look at a partition that a broker would load."""
    path = directory.path
    facts = verify_partition(fs, path, advance=advance)
    forecast = forecast_load(fs, path, config, start)
    verdict = PartitionVerdict(path, directory.name, size_bytes=facts.size_bytes)
    verdict.recovery_bytes = forecast.recovered_bytes
    names = list(examine_names(fs, path))
    fatal = [*_refused(fs, path, forecast), *(one for one in names if one.severity is Severity.FATAL)]
    if forecast.error is None:
        verdict.log_start_offset = forecast.log_start_offset
        verdict.log_end_offset = forecast.log_end_offset
        verdict.last_stable_offset = forecast.last_stable_offset
    told = {one.file for one in fatal}
    changed = {one.path: one for one in forecast.changes}
    logs = list_partition(fs, path).segments
    last = f"{path}/{logs[-1].base_offset:020d}." if logs else path
    verdict.findings += [*fatal, *(one for one in names if one not in fatal)]
    if not fatal:
        verdict.findings += [*_losses(path, forecast, start, facts.segments), *_replaced(fs, path)]
    for one in _exact(fs, facts.findings, changed, [each.base_offset for each in logs]):
        if one.file not in told and not one.file.endswith(PARTITION_METADATA_FILE):
            verdict.findings.append(_translated(one, path, changed, last, bool(fatal)))
    if not fatal and directory.partition.topic != CLUSTER_METADATA_TOPIC:
        verdict.findings += _pinned(path, forecast, config, start)
    verdict.findings += _aside(fs, path)
    verdict.verdict = _in_words(directory, forecast, verdict.findings, fatal)
    return Examined(verdict, forecast, facts.end_offset)


def _exact(
    fs: FileSystem, findings: Sequence[Verified], changed: Mapping[str, Change], bases: Sequence[int]
) -> Iterator[Verified]:
    """The findings; what is said of the bytes of a log that stays as it is becomes a finding for each stretch
    of bad bytes: verification stops at the first, and what comes after it may be sound.
    """
    told: set[str] = set()
    for one in findings:
        if one.position is None or one.file in changed or not _is_log(one.file):
            yield one
        elif one.file not in told:
            told.add(one.file)
            base = int(one.file.rpartition("/")[2].partition(".")[0])
            yield from _stretches(fs, one, base, next((each for each in bases if each > base), None))


def _stretches(fs: FileSystem, one: Verified, base: int, next_base: int | None) -> Iterator[Verified]:
    try:
        source = FileReader.open(fs, one.file)
        parts = list(take_out(fs, one.file, source, base, next_base))
    except (OSError, TidelogError):
        parts = []
    bad = [part for part in parts if part[0] < 0]
    for number, (size, position, first, end) in enumerate(bad):
        is_there = number == 0 and position <= (one.position or 0) < position - size
        cause = one.cause if is_there else f"{-size} bytes that are no sound batch of this log"
        yield replace(one, cause=cause, position=position, offset=first, end_offset=end)
    if not bad:
        yield one


def _refused(fs: FileSystem, path: str, forecast: Forecast) -> Iterator[Finding]:
    """What keeps a broker from loading the partition at all."""
    epochs = f"{path}/{LEADER_EPOCH_FILE}"
    answer = refuses_checkpoint(fs, epochs, 2)
    if answer is not None:
        stops = "takes the whole disk offline" if answer == "offline" else "stops: it does not start"
        yield Finding(
            Severity.FATAL,
            Kind.EPOCHS,
            epochs,
            "the file of leader epochs cannot be read",
            f"it {stops}",
            "tidelog fix rebuilds it from the batches",
        )
    elif forecast.error is not None:
        yield Finding(
            Severity.FATAL,
            Kind.UNREADABLE,
            path,
            f"the log cannot be loaded: {forecast.error}",
            "it takes the whole disk offline, or does not start",
            "restore the partition from another replica, or move it away",
        )


def _losses(path: str, forecast: Forecast, start: Start, segments: int) -> Iterator[Finding]:
    """Records that loading removes."""
    removed = [one for one in forecast.changes if one.kind is ChangeKind.REMOVE and _is_log(one.path)]
    if removed and len(removed) == segments:
        yield Finding(
            Severity.LOSS,
            Kind.EMPTIED,
            path,
            f"its log start in the checkpoint ({start.log_start_offset}) is past the log's end",
            "it deletes all segments and starts an empty log there",
            "tidelog fix lowers the log start in log-start-offset-checkpoint",
            offset=0,
            end_offset=start.log_start_offset,
        )
        return
    for one in forecast.changes:
        if not _is_log(one.path):
            continue
        if one.kind is ChangeKind.CUT:
            yield Finding(
                Severity.LOSS,
                Kind.TRUNCATION,
                one.path,
                f"{forecast.cause}",
                f"it cuts off {(one.before or 0) - one.size} bytes, and all later segments: the log ends at "
                f"offset {forecast.log_end_offset}",
                "if another replica has the records, let it; else `tidelog salvage` first. tidelog fix cuts "
                "it too, and keeps what is cut",
                one.size,
                forecast.log_end_offset,
            )
        elif one.kind is ChangeKind.REMOVE:
            yield Finding(
                Severity.LOSS,
                Kind.TRUNCATION,
                one.path,
                "it lies behind the place where the log is cut",
                f"it deletes the segment ({one.before} bytes)",
                "tidelog fix removes it too, and keeps it",
                0,
                int(one.path.rpartition("/")[2].partition(".")[0]),
            )


def _replaced(fs: FileSystem, path: str) -> Iterator[Finding]:
    """Sound segments that a damaged `.swap` log replaces."""
    for file, error in damaged_swaps(fs, path):
        yield Finding(
            Severity.LOSS,
            Kind.LEFTOVER,
            file,
            f"a segment that a cleaning has written is damaged: {error.reason}",
            "it puts the segment in the place of those that it was made from, and checks nothing",
            "tidelog fix takes it away, and keeps it: the segments that it was made from are still there",
            error.position,
            error.offset,
        )


def _is_log(path: str) -> bool:
    file = parse_segment_file(path.rpartition("/")[2])
    return file is not None and file.kind is FileKind.LOG and file.transient is Transient.NONE


def _translated(
    one: Verified,
    path: str,
    changed: dict[str, Change],
    last: str,
    unloaded: bool,
) -> Finding:
    """A finding of verification with what a broker does about it."""
    name = one.file.removeprefix(f"{path}/")
    parsed = parse_segment_file(name)
    is_leftover = parsed is not None and parsed.transient is not Transient.NONE
    suffix = "." + name.rpartition(".")[2]
    kind = Kind.LEFTOVER if is_leftover or name.endswith(".*") else _KINDS.get(suffix, Kind.SEGMENTS)
    kind = Kind.EPOCHS if name == LEADER_EPOCH_FILE else kind
    severity = Severity.DAMAGE if one.kind is VerifiedKind.DAMAGE else Severity.NOTE
    kafka, advice = "it does not load the partition", "mend that first"
    if not unloaded:
        kafka, advice = _answer(kind, one, changed, one.file.startswith(last))
    return Finding(
        severity, kind, one.file, one.cause, kafka, advice, one.position, one.offset, one.end_offset
    )


def _answer(kind: Kind, one: Verified, changed: dict[str, Change], is_last: bool) -> tuple[str, str]:
    """What a broker does about a finding, and what to do."""
    change = changed.get(one.file)
    match kind:
        case Kind.BATCH if change is not None:
            return "it cuts the log there", "see truncation"
        case Kind.BATCH:
            return (
                "it does not notice: the segment was safe when it stopped. Reading these offsets fails",
                "restore the segment from another replica; else tidelog fix takes the bad bytes out",
            )
        case Kind.INDEX | Kind.SNAPSHOT if change is not None:
            return "it rebuilds or removes the file", "nothing; tidelog fix or tidelog reindex do it now"
        case Kind.INDEX if one.file.endswith(".index") and is_last:
            return (
                "it takes the log's end from this index: it may give offsets out a second time",
                "tidelog fix (or tidelog reindex) rebuilds it; do that before the start",
            )
        case Kind.INDEX:
            return (
                "it does not notice, and finds records at wrong places or not at all",
                "tidelog fix (or tidelog reindex) rebuilds it",
            )
        case Kind.SNAPSHOT:
            return "it does not read the file, or takes an older one", "tidelog fix removes it"
        case Kind.EPOCHS if change is not None:
            return "it writes the file anew", "nothing"
        case Kind.EPOCHS:
            return (
                "it goes by the file: followers may truncate at a wrong offset",
                "tidelog fix rebuilds it from the batches",
            )
        case Kind.LEFTOVER:
            return "it finishes or removes it at its start", "nothing; tidelog fix does it now, and keeps it"
    return "it takes it as it is", "nothing"


def _pinned(path: str, forecast: Forecast, config: LogConfig, start: Start) -> Iterator[Finding]:
    """What holds offsets back, and what retention does first."""
    here = parse_partition_directory(path.rpartition("/")[2]).topic_partition
    for txn in forecast.transactions:
        age_min = (start.now_ms - txn.last_timestamp) // 60_000
        state = f"has been silent for {age_min} minutes: it hangs" if txn.is_late else "is open"
        ending = "the coordinator ends it only if it still knows it"
        if txn.ends_ms is not None:
            left_s = (txn.ends_ms - start.now_ms + 999) // 1000
            when = f"{left_s} s after" if left_s > 0 else "at"
            ending = f"the coordinator knows it, and ends it {when} the start"
        yield Finding(
            Severity.WARNING if txn.is_late else Severity.NOTE,
            Kind.TRANSACTION,
            path,
            f"the transaction of producer {txn.producer_id} (epoch {txn.producer_epoch}) from offset "
            f"{txn.first_offset} on {state}",
            f"read_committed consumers stop at {forecast.last_stable_offset}, and compaction too; {ending}",
            f"kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {here.topic} "
            f"--partition {here.partition} --start-offset {txn.first_offset}"
            if txn.is_late
            else "nothing, if its producer is alive",
            None,
            txn.first_offset,
            forecast.log_end_offset,
        )
    timed = config.delete and config.retention_ms >= 0
    for one in forecast.future:
        days = (one.timestamp - start.now_ms) / 86_400_000
        yield Finding(
            Severity.WARNING if timed else Severity.NOTE,
            Kind.FUTURE,
            f"{path}/{one.base_offset:020d}.log",
            f"its newest timestamp, {one.timestamp}, is {days:.1f} days in the future",
            "retention.ms deletes neither this segment nor any later one before then"
            if timed
            else "nothing, for as long as the topic has no retention.ms",
            "set message.timestamp.after.max.ms for the topic; tidelog trim deletes by offset",
            None,
            one.base_offset,
        )
    if forecast.retention is not None and forecast.retention.deletions:
        yield _retention(path, forecast.retention)


def _retention(path: str, plan: RetentionPlan) -> Finding:
    first, last = plan.deletions[0], plan.deletions[-1]
    return Finding(
        Severity.LOSS,
        Kind.RETENTION,
        path,
        f"{counted(len(plan.deletions), 'segment')} past retention: {first.detail}",
        f"it deletes {plan.size} bytes half a minute after its start, up to offset {last.end_offset}",
        "raise retention.ms or retention.bytes before the start, if the records are still wanted",
        None,
        first.base_offset,
        last.end_offset,
    )


def _aside(fs: FileSystem, path: str) -> Iterator[Finding]:
    """What earlier recoveries and repairs have kept."""
    for entry in sorted(fs.list(path)):
        if _ASIDE in entry.name and not entry.is_directory:
            yield Finding(
                Severity.NOTE,
                Kind.KEPT_ASIDE,
                f"{path}/{entry.name}",
                "an earlier recovery kept what it cut here",
                "it ignores the file",
                "delete it when you no longer need it",
            )


def _in_words(
    directory: PartitionDirectory,
    forecast: Forecast,
    findings: Sequence[Finding],
    fatal: Sequence[Finding],
) -> str:
    """The verdict in one sentence."""
    if fatal:
        return f"not loaded: {fatal[0].cause}"
    marked = directory.parsed.state is not DirectoryState.LIVE
    said = []
    cuts = [one for one in findings if one.kind in (Kind.TRUNCATION, Kind.EMPTIED)]
    if any(one.kind is Kind.EMPTIED for one in cuts):
        said.append("emptied")
    elif cuts:
        said.append(f"truncated to offset {forecast.log_end_offset}")
    rebuilt = [one for one in forecast.changes if one.path.endswith(("index",))]
    is_metadata = directory.partition.topic == CLUSTER_METADATA_TOPIC
    if rebuilt and not is_metadata:  # always recovered whole
        said.append(f"{counted(len(rebuilt), 'index file')} rebuilt or removed")
    if forecast.retention is not None and forecast.retention.deletions and not marked and not is_metadata:
        said.append(f"{counted(len(forecast.retention.deletions), 'segment')} deleted by retention")
    if not said:
        said.append("as it is")
    words = f"loaded: {', '.join(said)}"
    changed = {one.path for one in forecast.changes}
    if any(one.severity is Severity.DAMAGE and one.file not in changed for one in findings):
        words += "; damage remains"
    return words
