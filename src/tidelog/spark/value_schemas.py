"""The schema of a topic's JSON values: the one given, the one kept in the target, or one inferred."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.records.schema import Projection
from tidelog.scanning.ranges import OffsetRange
from tidelog.scanning.splits import plan_splits
from tidelog.scanning.tasks import run_task
from tidelog.spark.schemas import arrow_schema
from tidelog.spark.targets import ExportTarget
from tidelog.spark.values import ValueDecoder, ValueFormat, infer_struct

__all__ = ["choose_decoders"]

_SAMPLE_RECORDS = 10_000


def choose_decoders(
    held: ExportTarget, ranges: list[OffsetRange], kind: ValueFormat, schema: Any, committed_only: bool
) -> dict[str, ValueDecoder]:
    """A decoder for each topic; inferred schemas are kept in the target, so that later runs have the same."""
    topics = sorted({wanted.partition.topic_partition.topic for wanted in ranges})
    if kind is not ValueFormat.JSON:
        return {topic: ValueDecoder(kind) for topic in topics}
    kept: dict[str, str] = held.agree({}).get("schemas", {})
    if schema is not None:
        structs = dict.fromkeys(topics, _struct(schema))
    else:
        structs = {
            topic: _from_text(kept[topic]) if topic in kept else _infer(topic, ranges, committed_only)
            for topic in topics
        }
    texts = {topic: _to_text(struct) for topic, struct in structs.items()}
    for topic, text in texts.items():
        if kept.get(topic, text) != text:
            raise InvalidInputError(
                f"{held.place.url} has values of {topic} under another schema: export to another directory"
            )
    if texts.keys() - kept.keys():
        held.remember("schemas", kept | texts)
    return {topic: ValueDecoder(kind, struct) for topic, struct in structs.items()}


def _infer(topic: str, ranges: list[OffsetRange], committed_only: bool) -> pa.DataType:
    """The type of the JSON objects in a topic's first records."""
    mine = [wanted for wanted in ranges if wanted.partition.topic_partition.topic == topic]
    left = _SAMPLE_RECORDS
    values: list[bytes | None] = []
    for split in plan_splits(mine, committed_only=committed_only, with_control=False):
        for task in split.tasks:
            for batch in run_task(task, Projection(("value",)), max_rows=left):
                values += batch.column("value").slice(0, left).to_pylist()
                left = _SAMPLE_RECORDS - len(values)
                if left <= 0:
                    return _named(topic, values)
    return _named(topic, values)


def _named(topic: str, values: list[bytes | None]) -> pa.DataType:
    try:
        return infer_struct(values)
    except InvalidInputError as error:
        raise InvalidInputError(f"topic {topic}: {error}") from error


def _struct(schema: Any) -> pa.DataType:
    """A schema in any of the forms that are taken, as an Arrow struct."""
    from pyspark.sql.types import StructType

    if isinstance(schema, str):
        schema = StructType.fromDDL(schema)
    if isinstance(schema, StructType):
        schema = arrow_schema(schema)
    if isinstance(schema, pa.Schema):
        return pa.struct(list(schema))
    if isinstance(schema, pa.StructType):
        return schema
    raise InvalidInputError(
        f"a schema is a DDL string, or one of Spark's or Arrow's, not {type(schema).__name__}"
    )


def _to_text(struct: pa.DataType) -> str:
    data: bytes = pa.schema(list(struct)).serialize().to_pybytes()
    return data.hex()


def _from_text(text: str) -> pa.DataType:
    return pa.struct(list(pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))))
