"""Cleaning a log as it is found: with segments that are not on the disk yet, or that cannot be indexed.

A record may go only when the later one of its key is safe, and that may lie in a segment which was rolled but
not flushed: all of them are flushed first. Kafka's cleaner stops at a segment whose offsets reach too far,
lets the log split it and starts again at its next turn; so does this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Unpack

from tidelog.cleanup.cleaner import CleanReport, clean_log
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.cleanup.progress import Hooks
from tidelog.errors import IndexOffsetOverflowError
from tidelog.log import Log

__all__ = ["clean_splitting", "splitting"]

_logger = logging.getLogger(__name__)


def clean_splitting(
    log: Log,
    offset_map: OffsetMap,
    *,
    first_dirty_offset: int,
    upper_bound: int,
    now_ms: int,
    **hooks: Unpack[Hooks],
) -> CleanReport:
    """`clean_log`; a segment whose offsets reach too far is split, and cleaning starts again."""
    bounds = {"first_dirty_offset": first_dirty_offset, "upper_bound": upper_bound, "now_ms": now_ms}
    return splitting(log, lambda: clean_log(log, offset_map, **bounds, **hooks))


def splitting(log: Log, clean: Callable[[], CleanReport]) -> CleanReport:
    """Clean a log in whatever way, after it was flushed; again whenever segments had to be split."""
    log.flush(active=False)
    while True:
        try:
            return clean()
        except IndexOffsetOverflowError as error:
            _logger.warning("%s: %s", log.path, error)
            if not _split(log):
                raise


def _split(log: Log) -> bool:
    """Split what reaches too far in the sealed segments; whether there was any."""
    far = [segment for segment in list(log.segments)[:-1] if segment.has_overflow]
    for segment in far:
        log.split_overflowed_segment(segment)
    return bool(far)
