"""Timestamps without a zone (`timestamp_ntz`) as instants: in the session's time zone, as Spark casts them.

Spark hands its settings to tasks as local properties. Where `spark.sql.session.timeZone` was never set, it is
the JVM's zone: that of the machine.

An hour that comes twice, when clocks are set back, is the first; one that never was, when they are set
forward, is as much later as clocks were set. That is Java's rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import InvalidInputError

__all__ = ["in_zone", "parse_zone", "session_zone"]

_PROPERTY = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)


def session_zone() -> str | None:
    """In a task: the session's time zone; None for that of the machine."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_PROPERTY)


def parse_zone(name: str | None) -> tzinfo:
    """The zone that Java knows by a name; InvalidInputError if it is none."""
    if name is None:
        found = datetime.now().astimezone().tzinfo
        local = _local_zone()
        return local or found or UTC
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        hours, minutes, seconds = (int(one or 0) for one in offset.groups()[1:])
        length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(length if offset[1] == "+" else -length)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInputError(
            f"the session's time zone {name!r} is not known here, so that column 'timestamp' cannot be read "
            "in it: cast it to timestamp"
        ) from None


def _local_zone() -> tzinfo | None:
    """The machine's zone with its rules; None where only its offset can be told."""
    import os
    from pathlib import Path

    named = os.environ.get("TZ", "").lstrip(":")
    where = named or str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")[2]
    try:
        return ZoneInfo(where) if where else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def in_zone(batches: Iterator[pa.RecordBatch], zone: str | None) -> Iterator[pa.RecordBatch]:
    """Batches whose column `timestamp`, if it has no zone, was read in one."""
    for batch in batches:
        at = batch.schema.get_field_index("timestamp")
        kind = None if at < 0 else batch.schema.field(at).type
        if kind is not None and pa.types.is_timestamp(kind) and kind.tz is None:
            column = _instants(batch.column(at), parse_zone(zone))
            batch = batch.set_column(at, pa.field("timestamp", column.type), column)
        yield batch


def _instants(column: pa.Array, zone: tzinfo) -> pa.Array:
    kind = pa.timestamp(column.type.unit, "UTC")
    if isinstance(zone, ZoneInfo):
        try:
            return pc.assume_timezone(column, zone.key, ambiguous="earliest", nonexistent="raise").cast(kind)
        except pa.ArrowException:  # an hour that never was, a zone that Arrow lacks, a year that it lacks
            pass
    micros = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    shifted = [None if one is None else one - _offset_us(one, zone) for one in micros.to_pylist()]
    return pa.array(shifted, pa.int64()).cast(pa.timestamp("us", "UTC")).cast(kind)


def _offset_us(local_us: int, zone: tzinfo) -> int:
    """What a zone's clocks are ahead at a local time."""
    try:
        offset = zone.utcoffset((_EPOCH + timedelta(microseconds=local_us)).replace(tzinfo=zone))
    except OverflowError:  # a year that Python has not
        offset = zone.utcoffset(_EPOCH.replace(tzinfo=zone))
    return 0 if offset is None else offset // timedelta(microseconds=1)
