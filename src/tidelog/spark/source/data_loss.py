"""Data that should be there and is not: `failOnDataLoss` decides whether a query fails or continues without
it.

A gap in the offsets of a log is no loss: cleaning and transactions leave such gaps. A loss is what a query
was asked for by offset and the log does not reach, a segment whose file is gone, and bytes that are
damaged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidelog.errors import CorruptRecordError, DataLossError
from tidelog.records.schema import Projection
from tidelog.scanning.losses import Corrupt, Loss, log_loss
from tidelog.scanning.salvage import run_with
from tidelog.scanning.tasks import ScanTask

__all__ = ["LossPolicy"]

_log = logging.getLogger(__name__)
_HINT = "set failOnDataLoss to false to go on without it, or corrupt to skip if it is damaged"


@dataclass(frozen=True, slots=True)
class LossPolicy:
    """What to do about lost data: fail, or say so in the log and continue."""

    fail: bool = True
    corrupt: Corrupt = Corrupt.FAIL

    def lost(self, what: str) -> None:
        """Told of a loss."""
        if self.fail:
            raise DataLossError(f"{what}; {_HINT}")
        _log.warning("%s", what)

    def run(
        self, task: ScanTask, projection: Projection, *, max_rows: int, max_bytes: int
    ) -> Iterator[pa.RecordBatch | Loss]:
        """The records of a task; damage and missing files end it, or are skipped and told in the log."""
        try:
            for found in run_with(self.corrupt, task, projection, max_rows=max_rows, max_bytes=max_bytes):
                if isinstance(found, Loss):
                    log_loss(found)
                yield found
        except (CorruptRecordError, DataLossError) as error:
            raise DataLossError(f"{error}; {_HINT}") from error
