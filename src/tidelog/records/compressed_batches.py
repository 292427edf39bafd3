"""Uncompressed batches in memory, compressed and sealed: sizes, positions and checksums made anew."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.errors import RecordTooLargeError
from tidelog.kernels.batch_headers import seal
from tidelog.records.batches import HEADER_SIZE, BatchTable
from tidelog.records.compression import compress
from tidelog.types import Codec

__all__ = ["compress_batches"]

_MAX_BATCH = (1 << 31) - 1


def compress_batches(
    data: memoryview, table: BatchTable, which: npt.NDArray[np.bool_], level: int | None = None
) -> memoryview:
    """The batches of `table`, those marked compressed by the codec in their attributes.

    The table's rows tell where the batches lie in the answer. Marked batches get their headers from the rows.
    """
    gap = bytes(HEADER_SIZE)
    parts: list[bytes | memoryview] = []
    spans = zip(table.position.tolist(), table.size.tolist(), table.codec.tolist(), which, strict=True)
    for at, size, codec, marked in spans:
        # a message of magic 0 or 1, which stays as it is, may be shorter than a header
        header, records = data[at : at + min(HEADER_SIZE, size)], data[at + HEADER_SIZE : at + size]
        parts += (gap, compress(codec, records, level=level)) if marked else (header, records)
    sizes = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)).reshape(-1, 2).sum(axis=1)
    if int(sizes.max()) > _MAX_BATCH:
        codecs = " and ".join(Codec(codec).label for codec in np.unique(table.codec[which]).tolist())
        raise RecordTooLargeError(
            f"a batch is larger than {_MAX_BATCH} bytes after compression with {codecs}"
        )
    table.position[:] = np.cumsum(sizes) - sizes
    table.size[:] = sizes
    out = np.frombuffer(bytearray().join(parts), dtype=np.uint8)
    sealed = table.rows[which]
    seal(out, sealed)
    table.rows[which] = sealed
    return out.data
