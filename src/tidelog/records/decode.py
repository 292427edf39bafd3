"""Batches -> Arrow record batches: the functions to call. `records.chunks` does the work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.records.batches import BatchTable, walk_batches
from tidelog.records.chunks import COLUMN_LIMIT, ChunkDecoder
from tidelog.records.compression import MAX_DECOMPRESSED
from tidelog.records.schema import Projection

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["decode_batches", "iter_record_batches", "read_record_batches"]

MAX_ROWS = 1 << 17
MAX_BYTES = 4 << 20  # what is written stays in the processor's cache until it is read


def decode_batches(
    buffer: Buffer,
    table: BatchTable,
    *,
    topic: str = "",
    partition: int = 0,
    columns: Iterable[str] | None = None,
    origin: int = 0,
    source: str | None = None,
) -> pa.RecordBatch:
    """All records of `table`'s batches, which lie in `buffer` at their positions less `origin`, as one
    record batch.

    For more than a few megabytes use `iter_record_batches`, which keeps memory flat.
    """
    projection = Projection.of(columns)
    chunks = list(
        iter_record_batches(
            buffer,
            table,
            topic=topic,
            partition=partition,
            columns=projection.columns,
            origin=origin,
            source=source,
        )
    )
    if len(chunks) == 1:
        return chunks[0]
    if sum(chunk.nbytes for chunk in chunks) > COLUMN_LIMIT:
        raise InvalidInputError(
            "more than 2 GiB of records do not fit one record batch; use iter_record_batches"
        )
    return pa.concat_batches(chunks) if chunks else pa.RecordBatch.from_pylist([], schema=projection.schema)


def iter_record_batches(
    buffer: Buffer,
    table: BatchTable,
    *,
    topic: str = "",
    partition: int = 0,
    columns: Iterable[str] | None = None,
    origin: int = 0,
    source: str | None = None,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    max_decompressed: int = MAX_DECOMPRESSED,
    check_crc: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The records of `table`'s batches as record batches of about `max_rows` rows or `max_bytes` bytes at
    most.

    A batch is never split, so one that is larger by itself comes alone. `columns` names what to decode (see
    `records.schema`); a batch whose payload expands past `max_decompressed` bytes is a CompressionError.
    With `check_crc` the batches' checksums are taken on the way, for a table that was scanned without.
    """
    decoder = ChunkDecoder(
        buffer,
        Projection.of(columns),
        topic=topic,
        partition=partition,
        origin=origin,
        source=source,
        max_rows=max_rows,
        max_bytes=max_bytes,
        max_decompressed=max_decompressed,
        check_crc=check_crc,
    )
    yield from decoder.chunks(table)


def read_record_batches(
    buffer: Buffer,
    *,
    start: int = 0,
    end: int | None = None,
    topic: str = "",
    partition: int = 0,
    columns: Iterable[str] | None = None,
    origin: int = 0,
    source: str | None = None,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    max_decompressed: int = MAX_DECOMPRESSED,
) -> Iterator[pa.RecordBatch]:
    """Scan, check and decode buffer[start:end] in one pass over its bytes: the fast way to read a file."""
    decoder = ChunkDecoder(
        buffer,
        Projection.of(columns),
        topic=topic,
        partition=partition,
        origin=origin,
        source=source,
        max_rows=max_rows,
        max_bytes=max_bytes,
        max_decompressed=max_decompressed,
        check_crc=True,
    )
    for table in walk_batches(buffer, start=start, end=end, origin=origin, check_crc=False, source=source):
        yield from decoder.chunks(table)
