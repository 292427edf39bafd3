"""Logs for tests, told step by step.

    LogBuilder(tmp_path / "orders-0").records(100).roll().records(50, codec=Codec.ZSTD).close()
    LogBuilder(tmp_path / "orders-0").transaction(records=5).transaction(records=3, commit=False).close()

Nothing is left to chance or to the clock: record n (counted from 0 over the whole log) is `value-n` under the
key `key-n`, and a second younger than the one before it. What comes out is what a leader would have written;
Kafka reads it. To hurt it afterwards, there are `flip_bit` and `cut_off`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError
from tidelog.log import AppendOrigin, Log
from tidelog.protocol.control_records import EndTxnMarker
from tidelog.records import Record, encode_end_txn_marker
from tidelog.types import Codec

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["FIRST_TIMESTAMP_MS", "STEP_MS", "LogBuilder", "cut_off", "flip_bit", "some_records"]

FIRST_TIMESTAMP_MS = 1_700_000_000_000
"""Of record 0: 2023-11-14 22:13:20 UTC."""
STEP_MS = 1000
"""How much younger each record is than the one before it."""


def some_records(count: int, first: int = 0) -> list[Record]:
    """Records by number, from `first` on."""
    return [
        Record(b"value-%d" % n, b"key-%d" % n, timestamp=FIRST_TIMESTAMP_MS + n * STEP_MS)
        for n in range(first, first + count)
    ]


class LogBuilder:
    """A partition's log under construction. Every step gives the builder back; end with `close` or `with`."""

    def __init__(self, path: StrPath, config: LogConfig | None = None) -> None:
        """`path` is a partition's directory, `<topic>-<partition>`, that is made."""
        self.path = Path(path)
        self._clock_ms = FIRST_TIMESTAMP_MS
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._log = Log.open(self.path, config, clean=True, now_ms=lambda: self._clock_ms, seed=0)
        self._closed = False
        self._made = 0
        self._epoch = 0
        self._sequences: dict[int, int] = {}

    def __enter__(self) -> Self:
        """The builder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the log in order."""
        self.close()

    @property
    def log(self) -> Log:
        """The log, for what the builder has no word for."""
        return self._log

    # Records

    def records(self, count: int, *, per_batch: int = 10, codec: Codec = Codec.NONE) -> Self:
        """The next so many records, `per_batch` in a batch."""
        for batch in self._batches(count, per_batch):
            self._log.append_as_leader(batch, leader_epoch=self._epoch, codec=codec)
        return self

    def append(self, records: Iterable[Record], *, codec: Codec = Codec.NONE) -> Self:
        """Records of your own, in one append."""
        self._log.append_as_leader(list(records), leader_epoch=self._epoch, codec=codec)
        return self

    def transaction(
        self, producer_id: int = 1, *, records: int = 10, per_batch: int = 10, commit: bool | None = True
    ) -> Self:
        """The next records, in a transaction that is committed, aborted (False) or left open (None)."""
        for batch in self._batches(records, per_batch):
            sequence = self._sequences.get(producer_id, 0)
            self._log.append_as_leader(
                batch,
                leader_epoch=self._epoch,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
            self._sequences[producer_id] = sequence + len(batch)
        return self if commit is None else self.end_transaction(producer_id, commit=commit)

    def end_transaction(self, producer_id: int = 1, *, commit: bool = True) -> Self:
        """The marker that commits or aborts a transaction."""
        marker = encode_end_txn_marker(
            EndTxnMarker(committed=commit, coordinator_epoch=0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=self._clock_ms,
        )
        self._log.append_as_leader(
            marker, leader_epoch=self._epoch, origin=AppendOrigin.COORDINATOR, transaction_version=0
        )
        return self

    def _batches(self, count: int, per_batch: int) -> Iterable[list[Record]]:
        if count < 0 or per_batch < 1:
            raise InvalidInputError(f"{count} records, {per_batch} in a batch, cannot be made")
        for start in range(0, count, per_batch):
            batch = some_records(min(per_batch, count - start), self._made)
            self._made += len(batch)
            self._clock_ms = batch[-1].timestamp or self._clock_ms
            yield batch

    # Segments and offsets

    def roll(self) -> Self:
        """Begin a new segment."""
        self._log.roll()
        return self

    def gap(self, offsets: int) -> Self:
        """Leave offsets out, as a compaction does: what comes next begins a segment after them."""
        end = self._log.log_end_offset + offsets
        self._log.roll(end)
        config = self._log.config
        self._log.close()
        self._log = Log.open(
            self.path, config, clean=True, recovery_point=end, now_ms=lambda: self._clock_ms, seed=0
        )
        return self

    def leader_epoch(self, epoch: int) -> Self:
        """What follows is written by the leader of this epoch."""
        self._epoch = epoch
        return self

    def close(self) -> Path:
        """Close the log in order; its directory."""
        if not self._closed:
            self._closed = True
            self._log.close()
        return self.path

    def crash(self) -> Path:
        """Leave the log as a killed process does; its directory. The next open has to recover it."""
        self._closed = True
        self._log.close_handlers()
        return self.path


def flip_bit(file: StrPath, position: int, bit: int = 0) -> None:
    """Change one bit of a file; a position below 0 counts from its end."""
    path = Path(file)
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def cut_off(file: StrPath, size: int) -> None:
    """Take so many bytes off the end of a file: a write that was cut short."""
    path = Path(file)
    data = path.read_bytes()
    if size > len(data):
        raise InvalidInputError(f"{path} has {len(data)} bytes, {size} cannot be cut off")
    path.write_bytes(data[: len(data) - size])
