"""The schema of a topic's values. JSON: the one given, the one kept in the target, or one inferred. Typed
values: that of their schemas, joined with the one kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.records.schema import Projection
from tidelog.scanning.ranges import OffsetRange
from tidelog.scanning.splits import Split, plan_splits
from tidelog.scanning.tasks import ScanTask, run_task
from tidelog.scanning.typed import decoder_of
from tidelog.spark.exporting.directory import ExportTarget, StagedFile
from tidelog.spark.exporting.parquet import ParquetSettings
from tidelog.spark.exporting.schema_evolution import (
    from_text,
    kept_name,
    rewrite_files,
    survey,
    to_text,
    types_changed,
)
from tidelog.spark.source.schemas import arrow_schema
from tidelog.values.decoding import Decoder, ValueDecoder, ValueFormat, infer_struct
from tidelog.values.existing import ExistingColumn, Widenings
from tidelog.values.json_reading import Misfit
from tidelog.values.json_types import check_struct, join
from tidelog.values.spec import Values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Evolution", "choose_decoders", "choose_typed", "files_to_rewrite", "struct_of"]

_SAMPLE_RECORDS = 10_000


class SchemaKeeper(Protocol):
    """A target that keeps the schemas of JSON values."""

    @property
    def widenings(self) -> Widenings:
        """Which types of typed values can become which others."""

    @property
    def folds_case(self) -> bool:
        """Whether names that differ in case only are one name."""

    @property
    def url(self) -> str:
        """How messages call it."""

    def schemas(self, names: Iterable[str]) -> dict[str, str]:
        """The schemas that are kept, as text, by topic (`kept_name`)."""

    def keep_schemas(self, schemas: dict[str, str], changed: Iterable[str]) -> None:
        """Keep schemas; those of some topics have `changed` types."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """How schemas may be widened (`schema_evolution`); `splits` is what is to be exported."""

    spark: SparkSession
    splits: Sequence[Split]
    fail_on_data_loss: bool


def choose_decoders(
    held: SchemaKeeper,
    ranges: list[OffsetRange],
    kind: ValueFormat,
    schema: Any,
    committed_only: bool,
    evolution: Evolution | None = None,
) -> dict[str, Decoder]:
    """A decoder for each topic; schemas are kept in the target, so that later runs have the same."""
    topics = sorted({wanted.partition.topic_partition.topic for wanted in ranges})
    if kind is not ValueFormat.JSON:
        return {topic: ValueDecoder(kind) for topic in topics}
    kept = held.schemas(topics)
    given = None if schema is None else struct_of(schema)
    structs = {
        topic: _first(held, topic, kept, given, evolution is not None)
        or _infer(topic, ranges, committed_only, evolution is not None)
        for topic in topics
    }
    if evolution is not None:
        structs = survey(evolution.spark, evolution.splits, structs, evolution.fail_on_data_loss)
    _keep(held, kept, structs)
    return {topic: ValueDecoder(kind, struct) for topic, struct in structs.items()}


def choose_typed(
    held: SchemaKeeper, ranges: list[OffsetRange], spec: Values, committed_only: bool, column: str = "value"
) -> dict[str, Decoder]:
    """A decoder for each topic by the schemas of its values, or keys. Columns get the fields and wider types
    that have come since the last run; what does not fit the type that is there is invalid.
    """
    tasks: dict[str, list[ScanTask]] = {}
    for split in plan_splits(ranges, committed_only=committed_only, with_control=False):
        tasks.setdefault(split.topic, []).extend(split.tasks)
    names = {topic: kept_name(topic, column) for topic in sorted(tasks)}
    kept = held.schemas(names.values())
    there = {
        topic: ExistingColumn(from_text(kept[name]), held.widenings, held.folds_case)
        for topic, name in names.items()
        if name in kept
    }
    found: dict[str, Decoder] = {
        topic: decoder_of(spec, column, tasks[topic], portable=True, existing=there.get(topic))
        for topic in names
    }
    _keep(held, kept, {names[topic]: one.fields[0].type for topic, one in found.items()})
    return found


def _keep(held: SchemaKeeper, kept: dict[str, str], structs: dict[str, pa.DataType]) -> None:
    """Keep schemas in the target, if they are new."""
    texts = {topic: to_text(struct) for topic, struct in structs.items()}
    if any(kept.get(topic) != text for topic, text in texts.items()):
        held.keep_schemas(
            texts, [one for one in texts if one in kept and types_changed(from_text(kept[one]), structs[one])]
        )


def _first(
    held: SchemaKeeper, topic: str, kept: dict[str, str], given: pa.DataType | None, evolving: bool
) -> pa.DataType | None:
    """The schema that is kept, and the one that was given; None where there is neither."""
    if topic not in kept:
        return given
    before = from_text(kept[topic])
    if pa.types.is_struct(before) and (given is None or given == before):
        return before
    try:
        both = None if given is None else join(before, given)
    except Misfit:
        both = None
    if both is None or not evolving:
        advice = "" if both is None else "evolve it (--evolve), or "
        where = f"{held.url} has values of {topic} under another schema"
        raise InvalidInputError(f"{where}: {advice}export to another directory")
    return both


def files_to_rewrite(held: ExportTarget, spark: SparkSession, settings: ParquetSettings) -> list[StagedFile]:
    """Older files, staged again, of topics whose types have changed."""
    way = held.agree({})
    again = way.get("rewrite", ())
    structs = {topic: way["schemas"][topic] for topic in again}
    return rewrite_files(spark, held, structs, settings) if again else []


def _infer(topic: str, ranges: list[OffsetRange], committed_only: bool, evolving: bool) -> pa.DataType:
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
                    return _named(topic, values, evolving)
    return _named(topic, values, evolving)


def _named(topic: str, values: list[bytes | None], evolving: bool) -> pa.DataType:
    try:
        return infer_struct(values, evolving=evolving)
    except InvalidInputError as error:
        raise InvalidInputError(f"topic {topic}: {error}") from error


def struct_of(schema: Any) -> pa.DataType:
    """A schema in any of the forms that are taken, as an Arrow struct."""
    from pyspark.errors import ParseException, PySparkTypeError
    from pyspark.sql.types import StructType

    if isinstance(schema, str):
        try:
            schema = StructType.fromDDL(schema)
        except ParseException as error:
            said = str(error).strip().partition("\n")[0]
            raise InvalidInputError(f"the schema is no DDL: {said}") from None
    if isinstance(schema, StructType):
        _refuse_variants(schema)
        try:
            schema = arrow_schema(schema)
        except PySparkTypeError as error:  # of a type that Arrow lacks, such as an interval
            raise InvalidInputError(
                f"the schema has a type that JSON values cannot be read as: {error}"
            ) from None
    if isinstance(schema, pa.Schema):
        schema = pa.struct(list(schema))
    if isinstance(schema, pa.StructType):
        return check_struct(schema)
    raise InvalidInputError(
        f"a schema is a DDL string, or one of Spark's or Arrow's, not {type(schema).__name__}"
    )


def _refuse_variants(kind: Any, where: str = "") -> None:
    """Arrow has no type for a variant: it would become a struct of its bytes."""
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if isinstance(kind, VariantType):
        raise InvalidInputError(f"the schema{where} is a variant, which JSON values cannot be read as")
    if isinstance(kind, StructType):
        for field in kind.fields:
            _refuse_variants(field.dataType, f"{where}.{field.name}")
    elif isinstance(kind, ArrayType):
        _refuse_variants(kind.elementType, f"{where}[]")
    elif isinstance(kind, MapType):
        _refuse_variants(kind.valueType, f"{where}{{}}")
