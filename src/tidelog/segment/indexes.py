"""The indexes of a segment that is to be written."""

from __future__ import annotations

from tidelog.config import LogConfig
from tidelog.index import ActiveOffsetIndex, ActiveTimeIndex, TransactionIndex
from tidelog.storage import Directory
from tidelog.storage.names import Transient

__all__ = ["open_indexes"]


def open_indexes(
    directory: Directory, base_offset: int, config: LogConfig, transient: Transient
) -> tuple[ActiveOffsetIndex, ActiveTimeIndex, TransactionIndex]:
    """Open or make them, with room for `segment.index.bytes` of entries."""
    offset_index = ActiveOffsetIndex(directory, base_offset, config.segment_index_bytes, transient)
    time_index = ActiveTimeIndex(directory, base_offset, config.segment_index_bytes, transient)
    for index in (offset_index, time_index):
        index.resize(max(index.max_index_size, index.size_in_bytes))
    return offset_index, time_index, TransactionIndex(directory, base_offset, transient)
