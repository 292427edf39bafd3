"""The manifest of a rewrite: what was done where, with digests before and after. No key, value or header."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tidelog.rewriting.edits import Edits
from tidelog.rewriting.segments import MOST_RANGES, SegmentDone
from tidelog.storage.names import FileKind, format_segment_file
from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.rewriting.rewrite import RewrittenPartition

__all__ = ["evidence"]

VERSION = 1


def evidence(
    root: str, edits: Edits, partitions: Sequence[RewrittenPartition], *, run: str | None, now_ms: int
) -> dict[str, Any]:
    """The manifest; `run` is the quarantine's name of it, None if it has no originals."""
    changed = any(one.changed for one in partitions)
    return {
        "version": VERSION,
        "tool": f"tidelog {__version__}",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms / 1000)),
        "root": root,
        "originals": "in quarantine" if run is not None else "discarded" if changed else "unchanged",
        "run": run,
        "edits": edits.told(),
        "partitions": [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "log_end_offset": one.log_end_offset,
                "unchanged_segments": sum(not done.changed for done in one.segments),
                "segments": [_segment(done) for done in one.segments if done.changed],
            }
            for one in partitions
        ],
    }


def _segment(done: SegmentDone) -> dict[str, Any]:
    return {
        "file": format_segment_file(done.base_offset, FileKind.LOG),
        "bytes_before": done.size_before,
        "sha256_before": done.digest_before,
        "bytes_after": done.size_after,
        "sha256_after": done.digest_after,
        **asdict(done.stats),
        "offset_ranges": [list(one) for one in done.offset_ranges],
        "all_ranges": len(done.offset_ranges) < MOST_RANGES,
    }
