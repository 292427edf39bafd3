"""The Arrow types of Avro types.

Avro                                    Arrow                            Spark and tables (`portable`)
int, long, float, double, boolean       int32, int64, float, double, bool
bytes, fixed; string, enum              binary; string
array; map; record                      list; map of strings; struct
union of null and one type              that type
other unions                            a struct, a field each: `member_string`, `member_int`, ...
decimal                                 decimal128, decimal256           binary above 38 digits
uuid                                    string
date                                    date32
time-millis, time-micros                time32, time64                   int, long
timestamp-millis, -micros               timestamp in microseconds, UTC
timestamp-nanos                         timestamp in nanoseconds, UTC    long
local-timestamp-*                       likewise, without a zone
duration                                struct of months, days, milliseconds
recursive types                         string: Avro's JSON encoding
"""

from __future__ import annotations

import pyarrow as pa

from tidelog.values.avro_schema import AvroType

__all__ = ["DURATION", "arrow_type", "member_names"]

DURATION = pa.struct(
    [pa.field("months", pa.int64()), pa.field("days", pa.int64()), pa.field("milliseconds", pa.int64())]
)
_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    "uuid": pa.string(),
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "duration": DURATION,
}
_NOT_PORTABLE = frozenset({"time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos"})


def arrow_type(avro: AvroType, *, portable: bool = False) -> pa.DataType:
    """The Arrow type of an Avro type."""
    if avro.is_recursive:
        return pa.string()
    if avro.logical == "decimal":
        if avro.precision <= 38:
            return pa.decimal128(avro.precision, avro.scale)
        return pa.binary() if portable else pa.decimal256(avro.precision, avro.scale)
    if avro.logical and not (portable and avro.logical in _NOT_PORTABLE):
        return _LOGICAL[avro.logical]
    if avro.kind == "record":
        return pa.struct([pa.field(one.name, arrow_type(one.type, portable=portable)) for one in avro.fields])
    if avro.kind in ("array", "map"):
        assert avro.items is not None
        inner = arrow_type(avro.items, portable=portable)
        return pa.list_(inner) if avro.kind == "array" else pa.map_(pa.string(), inner)
    if avro.kind == "union":
        members = avro.members
        if len(members) > 1:
            kinds = [arrow_type(one, portable=portable) for one in members]
            return pa.struct(list(map(pa.field, member_names(avro), kinds)))
        return arrow_type(members[0], portable=portable) if members else pa.null()
    return _PRIMITIVES[avro.kind]


def member_names(avro: AvroType) -> list[str]:
    """The fields of the struct that a union becomes; the same for a branch wherever it stands."""
    shorts = [one.short_name.lower() for one in avro.members]
    return [
        f"member_{one.short_name if shorts.count(short) == 1 else one.name.replace('.', '_')}"
        for one, short in zip(avro.members, shorts, strict=True)
    ]
