"""Exports of values whose schema changes: what the target can take it takes, the rest is kept as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tests.spark.test_tables import Kind
from tests.values.avro_cases import encode, frame
from tidelog import Record, Values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _avro(**fields: Any) -> str:
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    )


def _proto(**fields: str) -> str:
    told = " ".join(f"{kind} {name} = {at};" for at, (name, kind) in enumerate(fields.items(), 1))
    return f'syntax = "proto3"; message R {{ {told} }}'


def _json(**fields: str) -> str:
    return json.dumps({"type": "object", "properties": {n: {"type": t} for n, t in fields.items()}})


def _varint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


@dataclass(frozen=True)
class Language:
    """How a schema and a value of it are written; the names of its types."""

    name: str
    ending: str
    schema: Any
    whole: str
    """A number that is whole, and the next wider one."""
    wide: str

    def value(self, schema: str, id: int, row: dict[str, Any]) -> bytes:
        if self.name == "avro":
            return frame(id, encode(row, json.loads(schema)))
        if self.name == "jsonschema":
            return frame(id, json.dumps(row).encode())
        out = b"\0"
        for at, one in enumerate(row.values(), 1):
            if isinstance(one, str):
                out += bytes([at << 3 | 2, len(one)]) + one.encode()
            elif isinstance(one, float):
                raise AssertionError("no doubles here")
            else:
                out += bytes([at << 3]) + _varint(one)
        return frame(id, out)


AVRO = Language("avro", "avsc", _avro, "int", "long")
PROTOBUF = Language("protobuf", "proto", _proto, "int32", "int64")
JSON = Language("jsonschema", "json", _json, "integer", "number")
SLOW = pytest.mark.slow
LANGUAGES = [AVRO, PROTOBUF, JSON]


class Life:
    """A topic whose schema changes, and its export."""

    def __init__(self, spark: SparkSession, kind: Kind, language: Language, *, by_key: bool = False) -> None:
        self._spark, self._kind, self._language, self._by_key = spark, kind, language, by_key
        self._schemas = kind.directory / "schemas"
        (self._schemas / "orders-value").mkdir(parents=True)
        self._log = kind.directory / "log"
        self._texts: dict[int, str] = {}
        with tidelog.open(self._log) as store:
            store.create_topic("orders")

    def schema(self, number: int, /, **fields: Any) -> None:
        self._texts[number] = self._language.schema(**fields)
        path = self._schemas / "orders-value" / f"{number}.{self._language.ending}"
        path.write_text(self._texts[number])

    def write(self, id: int, *rows: Any) -> list[bytes]:
        made = [self._language.value(self._texts[id], id, row) for row in rows]
        with tidelog.open(self._log) as store:
            topic = store["orders"]
            start = topic[0].log_end_offset
            topic[0].append([Record(one, key=b"%d" % (start + n)) for n, one in enumerate(made)])
        return made

    def export(self) -> int:
        """How many values were invalid."""
        report = self._kind.export(
            self._spark,
            self._log,
            value_format=Values(self._language.name, self._schemas),
            by_key=self._by_key,
        )
        return sum(one.invalid_values for one in report.collect())

    def rows(self) -> list[dict[str, Any]]:
        if self._kind.format == "parquet":
            frame = self._spark.read.option("mergeSchema", True).parquet(self._kind.target)
            found = [one.asDict(recursive=True) for one in frame.collect()]
        else:
            found = self._kind.read().to_pylist()
        return sorted(found, key=lambda row: row["offset"])


FORMATS = ("parquet", "delta", "iceberg")
QUICK = [
    ("parquet", False, AVRO),
    ("delta", True, AVRO),
    ("iceberg", False, PROTOBUF),
    ("delta", False, JSON),
]
"""What the default run tries; slow runs try all."""


def _cases() -> Iterator[Any]:
    for format in FORMATS:
        for by_key in (False, True) if format != "parquet" else (False,):
            for language in LANGUAGES:
                case = (format, by_key, language)
                name = f"{format}-{language.name}{'-by-key' if by_key else ''}"
                yield pytest.param(*case, id=name, marks=() if case in QUICK else SLOW)


@pytest.mark.parametrize(("format", "by_key", "language"), list(_cases()))
def test_values_of_a_schema_that_does_not_fit_are_kept_whole(
    spark: SparkSession, format: str, by_key: bool, language: Language, tmp_path: Path
) -> None:
    """A number becomes text: the table goes on with numbers. Then it is a number again, with a new field."""
    life = Life(spark, Kind(format, tmp_path), language, by_key=by_key)
    life.schema(1, id=language.whole)
    life.write(1, {"id": 1}, {"id": 2})
    assert life.export() == 0
    life.schema(2, id="string")
    (three, four) = life.write(2, {"id": "three"}, {"id": "4"})
    life.write(1, {"id": 5})
    assert life.export() == 2
    (six,) = life.write(2, {"id": "six"})
    assert life.export() == 1
    life.schema(3, id=language.whole, note="string")
    life.write(3, {"id": 7, "note": "n"})
    life.write(1, {"id": 8})
    (nine,) = life.write(2, {"id": "nine"})
    assert life.export() == 1
    rows = life.rows()
    assert len(rows) == 9
    assert [one["value"] for one in rows] == [
        *[{"id": n, "note": None} for n in (1, 2)],
        None,
        None,
        {"id": 5, "note": None},
        None,
        {"id": 7, "note": "n"},
        {"id": 8, "note": None},
        None,
    ]
    assert {one["offset"]: one["value_invalid"] for one in rows if one["value_invalid"]} == {
        2: three,
        3: four,
        5: six,
        8: nine,
    }
    assert all((one["value_error"] is None) == (one["value"] is not None) for one in rows)
    assert "fit" in rows[2]["value_error"]


@pytest.mark.parametrize(
    ("format", "language"),
    [
        pytest.param(format, language, id=f"{format}-{language.name}", marks=() if number == at else SLOW)
        for number, format in enumerate(FORMATS)
        for at, language in enumerate((AVRO, JSON, PROTOBUF))
    ],
)
def test_types_become_wider_where_the_format_can(
    spark: SparkSession, format: str, language: Language, tmp_path: Path
) -> None:
    """Where it cannot, numbers that fit go on, and others are kept as they were."""
    life = Life(spark, Kind(format, tmp_path), language)
    life.schema(1, id=language.whole)
    life.write(1, {"id": 1})
    assert life.export() == 0
    life.schema(2, id=language.wide, note="string")
    large = 0.5 if language is JSON else 1 << 40
    (raw,) = life.write(2, {"id": large, "note": "large"})
    life.write(2, {"id": 3, "note": "small"})
    life.write(1, {"id": 4})
    is_wider = format == "parquet" or (format == "iceberg" and language is not JSON)
    assert life.export() == (0 if is_wider else 1)
    rows = life.rows()
    assert [one["value"] for one in rows] == [
        {"id": 1, "note": None},
        {"id": large, "note": "large"} if is_wider else None,
        {"id": 3, "note": "small"},
        {"id": 4, "note": None},
    ]
    assert rows[1]["value_invalid"] == (None if is_wider else raw)


@pytest.mark.parametrize("format", ["parquet", "delta", pytest.param("iceberg", marks=SLOW)])
def test_values_that_are_no_records_change_too(spark: SparkSession, format: str, tmp_path: Path) -> None:
    life = Life(
        spark, Kind(format, tmp_path), Language("avro", "avsc", lambda kind: json.dumps(kind), "", "")
    )
    life.schema(1, kind="int")
    life.write(1, 1)
    assert life.export() == 0
    life.schema(2, kind="string")
    (raw,) = life.write(2, "two")
    life.write(1, 3)
    assert life.export() == 1
    rows = life.rows()
    assert [(one["value"], one["value_invalid"]) for one in rows] == [(1, None), (None, raw), (3, None)]


@pytest.mark.parametrize("format", ["delta", pytest.param("iceberg", marks=SLOW)])
def test_fields_whose_names_differ_in_case_only_are_not_added_to_a_table(
    spark: SparkSession, format: str, tmp_path: Path
) -> None:
    life = Life(spark, Kind(format, tmp_path), AVRO)
    life.schema(1, id="int")
    life.write(1, {"id": 1})
    life.export()
    life.schema(2, id="int", ID="int")
    (raw,) = life.write(2, {"id": 2, "ID": 2})
    life.write(1, {"id": 3})
    assert life.export() == 1
    rows = life.rows()
    assert [one["value"] for one in rows] == [{"id": 1}, None, {"id": 3}]
    assert (rows[1]["value_invalid"], "ID" in rows[1]["value_error"]) == (raw, True)


@pytest.mark.parametrize("format", ["delta", pytest.param("parquet", marks=SLOW)])
def test_a_run_in_which_no_schema_is_known_goes_on(spark: SparkSession, format: str, tmp_path: Path) -> None:
    """No subject has a version any more, and the values have no id, or an unknown one."""
    life = Life(spark, Kind(format, tmp_path), AVRO)
    life.schema(1, id="int")
    (kept,) = life.write(1, {"id": 1})
    assert life.export() == 0
    (tmp_path / "schemas" / "orders-value" / "1.avsc").rename(tmp_path / "schemas" / "9.avsc")
    with tidelog.open(tmp_path / "log") as store:
        store["orders"][0].append([Record(None, key=b"none"), Record(b"bad"), Record(kept)])
    assert life.export() == 2
    rows = life.rows()
    assert [one["value"] for one in rows] == [{"id": 1}, None, None, None]
    assert [one["value_invalid"] for one in rows] == [None, None, b"bad", kept]
    assert rows[3]["value_error"] == "schema 1 is unknown"


LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}


@pytest.mark.parametrize("in_map", [False, True])
def test_local_times_come_to_a_delta_table_at_any_time(
    spark: SparkSession, in_map: bool, tmp_path: Path
) -> None:
    """Delta has a table feature for them, which a table gets with the first."""
    kind: Any = {"type": "map", "values": LOCAL} if in_map else LOCAL
    value: Any = {"k": 1_700_000_000_000_000} if in_map else 1_700_000_000_000_000
    when = datetime(2023, 11, 14, 22, 13, 20)
    read: Any = [("k", when)] if in_map else when
    for first in (kind, "int"):
        life = Life(spark, Kind("delta", tmp_path / str(first == kind)), AVRO)
        life.schema(1, id="int", at=first) if first == kind else life.schema(1, id="int")
        life.write(1, {"id": 1, "at": value} if first == kind else {"id": 1})
        life.export()
        life.schema(2, id="int", at=kind)
        life.write(2, {"id": 2, "at": value})
        assert life.export() == 0
        assert [one["value"] for one in life.rows()] == [
            {"id": 1, "at": read if first == kind else None},
            {"id": 2, "at": read},
        ]
