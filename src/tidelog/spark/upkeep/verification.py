"""`verify`: the local command's checks, spread over tasks.

1. The driver lists the directories and cuts large segments into pieces at index entries.
2. Tasks check pieces and small segments, and answer a row of numbers each, with what they found.
3. The driver stitches the pieces (`verification.pieces`). Segments that did not fit together are checked
   whole in a second job: what is found is the local command's finding, word for word.
4. The driver checks the small files that tell about all segments, and about all partitions.

Nothing is written, so retries and speculation are harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import DataLossError, InvalidInputError
from tidelog.manager.verification.findings import Finding, Kind
from tidelog.manager.verification.partition import (
    PartitionFacts,
    SegmentSummary,
    conclude_partition,
    list_partition,
    verify_settled,
)
from tidelog.manager.verification.pieces import Piece, PieceFacts, plan_pieces, stitch, verify_piece
from tidelog.manager.verification.root import partition_directories, verify_root_files
from tidelog.manager.verification.segment import SegmentPlace, verify_segment
from tidelog.spark.runtime.jobs import Bin, pack, report_frame, run_job, share_bytes
from tidelog.storage import LOCAL
from tidelog.storage.directory import is_partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FINDINGS_SCHEMA", "directory_of", "find", "verify"]

FINDINGS_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("file", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("cause", pa.string()),
    ]
)
"""A row for each finding: `kind` is damage or note."""

_PRODUCERS = ("begun", "ended", "unlisted")
_PIECE_SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("sound", pa.bool_()),
        pa.field("first_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("largest_timestamp", pa.int64()),
        pa.field("earliest_entry", pa.int64()),
        *(pa.field(name, pa.list_(pa.int64())) for name in _PRODUCERS),
        pa.field("epochs", pa.map_(pa.int64(), pa.int64())),
        pa.field("findings", pa.list_(pa.struct(list(FINDINGS_SCHEMA)))),
    ]
)


def verify(
    spark: SparkSession,
    path: str | Path,
    *,
    deep: bool = False,
    piece_bytes: int | None = None,
    report: Callable[[int, int], None] | None = None,
) -> DataFrame:
    """Check logs, indexes, snapshots, leader epochs and checkpoints of a root or partition directory.

    The rows are the findings of the local `verify_root` or `verify_partition`, in their order, see
    `FINDINGS_SCHEMA`; none where all is sound. Driver and workers share the directory. Segments larger than
    `piece_bytes` are cut (default: by the number of cores); `report` is told of progress.
    """
    found = find(spark, directory_of(path), deep=deep, piece_bytes=piece_bytes, report=report)
    return report_frame(spark, [_finding_row(one) for one in found], FINDINGS_SCHEMA)


def directory_of(path: str | Path) -> str:
    """A directory's absolute path; InvalidInputError if it is none."""
    directory = Path(path).absolute()
    if not directory.is_dir():
        raise InvalidInputError(
            f"{directory} is not a directory: name a root (log.dirs) or a partition's directory in it"
        )
    return str(directory)


def find(
    spark: SparkSession,
    path: str,
    *,
    deep: bool = False,
    piece_bytes: int | None = None,
    report: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """The findings of `verify`."""
    alone = is_partition(LOCAL, path)
    names, findings = ({}, []) if alone else partition_directories(LOCAL, path)
    paths = [path] if alone else [f"{path}/{name}" for name in names]

    def verify_all(paths: Sequence[str]) -> list[PartitionFacts]:
        files = [list_partition(LOCAL, at) for at in paths]
        places = [place for one in files for place in one.segments]
        summaries = iter(_check(spark, places, deep, piece_bytes, report))
        return [conclude_partition(LOCAL, one, list(islice(summaries, len(one.segments)))) for one in files]

    partitions = verify_settled(LOCAL, paths, verify_all)
    for at in paths:
        findings += partitions[at].findings
    if not alone:
        facts = {named: partitions[f"{path}/{name}"] for name, named in names.items()}
        findings += verify_root_files(LOCAL, path, facts)
    return findings


@dataclass(frozen=True, slots=True)
class VerifyWork:
    """What a task does with a bin: check each piece."""

    deep: bool

    def __call__(self, number: int, pieces: Bin[Piece]) -> list[dict[str, Any]]:
        """Check pieces; a row each."""
        return [{"number": n} | self._check(piece) for n, piece in enumerate(pieces.items, pieces.first)]

    def _check(self, piece: Piece) -> dict[str, Any]:
        if not piece.is_whole:
            facts = verify_piece(LOCAL, piece, deep=self.deep)
            producers = {name: sorted(getattr(facts, name)) for name in _PRODUCERS}
            row = asdict(facts) | producers
            return row | {"epochs": list((facts.epochs or {}).items()), "findings": []}
        summary = SegmentSummary.of(verify_segment(LOCAL, piece.place, deep=self.deep))
        return {
            "sound": not summary.findings,
            "last_offset": summary.next_offset - 1,
            "epochs": list(summary.epochs.items()),
            "findings": [_finding_row(one) for one in summary.findings],
        }


def _check(
    spark: SparkSession,
    places: Sequence[SegmentPlace],
    deep: bool,
    piece_bytes: int | None,
    report: Callable[[int, int], None] | None,
) -> list[SegmentSummary]:
    """What each segment comes to, in order."""
    share = share_bytes(spark, sum(place.size for place in places))
    planned = [plan_pieces(LOCAL, place, piece_bytes or share) for place in places]
    rows = iter(_run(spark, [piece for pieces in planned for piece in pieces], share, deep, report))
    summaries: dict[int, SegmentSummary] = {}
    again: list[int] = []
    for number, (place, pieces) in enumerate(zip(places, planned, strict=True)):
        answers = [next(rows) for _ in pieces]
        if len(pieces) == 1:
            summaries[number] = _summary(place, answers[0])
            continue
        stitched = stitch(place, [_piece_facts(answer) for answer in answers])
        if stitched is None:
            again.append(number)
        else:
            summaries[number] = stitched
    whole = [Piece(places[number], 0, places[number].size) for number in again]
    for number, row in zip(again, _run(spark, whole, share, deep, None), strict=True):
        summaries[number] = _summary(places[number], row)
    return [summaries[number] for number in range(len(places))]


def _run(
    spark: SparkSession,
    pieces: Sequence[Piece],
    share: int,
    deep: bool,
    report: Callable[[int, int], None] | None,
) -> list[Mapping[str, Any]]:
    """A row for each piece, in order."""
    rows = run_job(spark, VerifyWork(deep), pack(pieces, share), _PIECE_SCHEMA, report)
    found: dict[int, Mapping[str, Any]] = {row["number"]: row for row in rows}
    if len(rows) != len(pieces) or len(found) != len(pieces):
        raise DataLossError(f"Spark answered {len(rows)} reports for {len(pieces)} pieces; run it again")
    return [found[number] for number in range(len(pieces))]


def _summary(place: SegmentPlace, row: Mapping[str, Any]) -> SegmentSummary:
    findings = [Finding(**(one | {"kind": Kind(one["kind"])})) for one in row["findings"]]
    return SegmentSummary(place.size, row["last_offset"] + 1, dict(row["epochs"]), findings)


def _piece_facts(row: Mapping[str, Any]) -> PieceFacts:
    return PieceFacts(
        row["sound"],
        row["first_offset"],
        row["last_offset"],
        row["largest_timestamp"],
        row["earliest_entry"],
        dict(row["epochs"]),
        *(frozenset(row[name] or ()) for name in _PRODUCERS),
    )


def _finding_row(finding: Finding) -> dict[str, Any]:
    return asdict(finding) | {"kind": finding.kind.value}
