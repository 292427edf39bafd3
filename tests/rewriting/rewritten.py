"""Roots to rewrite, made of golden partitions, and what they hold."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tests.doctor.harming import make_root
from tests.golden import GOLDEN, golden_partitions
from tidelog.records.decode import read_record_batches
from tidelog.records.schema import Projection
from tidelog.rewriting.edits import Edits
from tidelog.rewriting.rewrite import Rewriting, Rewritten, rewrite_root, threads
from tidelog.storage import LOCAL, FileSystem

COLUMNS = (
    "offset",
    "timestamp_ms",
    "timestampType",
    "key",
    "value",
    "headers",
    "producer_id",
    "producer_epoch",
    "sequence",
    "leader_epoch",
    "transactional",
    "control",
)
DATA = [one.name for one in golden_partitions() if not one.name.startswith("__") and not one.legacy]
LEGACY = [one.name for one in golden_partitions() if one.legacy]


def root_with(path: Path, *names: str) -> Path:
    """A root that was closed cleanly, with some golden partitions, old formats too."""
    root = make_root(path, *(name for name in names if name not in LEGACY))
    for name in names:
        if name in LEGACY:
            shutil.copytree(GOLDEN / "legacy" / name, root / name)
    return root


def records(root: Path, name: str, columns: Sequence[str] = COLUMNS) -> pa.Table:
    """All records of a partition, also those below its log start."""
    schema = Projection.of(columns).schema
    logs = sorted((root / name).glob("*.log"))
    batches = [batch for log in logs for batch in read_record_batches(log.read_bytes(), columns=columns)]
    return pa.Table.from_batches(batches, schema).combine_chunks()


def without(table: pa.Table, gone: pa.Array) -> pa.Table:
    """The records that are not meant."""
    return table.filter(pc.invert(pc.fill_null(gone, False)))


def run(
    root: Path | str, edits: Edits, *names: str, fs: FileSystem = LOCAL, discard: bool = False
) -> Rewritten:
    """Rewrite partitions of a root."""
    return rewrite_root(Rewriting(fs, str(root), names, edits, discard, True), threads(fs))


def files(root: Path) -> dict[str, bytes]:
    """All files of a root by name, but for its lock."""
    found = sorted(path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in found}
