"""Random Avro schemas and values, and what they are as Arrow has them, told by fastavro's own decoding."""

from __future__ import annotations

import decimal
import io
import json
import random
import string
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro

from tidelog.values.avro_schema import parse_avro
from tidelog.values.avro_types import member_names

__all__ = ["Cases", "encode", "expected", "frame"]

_LEAVES = ("boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed", "null")
_LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
)


class Cases:
    """Makes schemas and values from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0

    def _name(self) -> str:
        self._names += 1
        return f"N{self._names}"

    def record(self, depth: int = 3, fields: int = 6) -> dict[str, Any]:
        """A record schema."""
        count = self._random.randint(0 if depth < 3 else 1, fields)
        kinds = [{"name": f"f{n}", "type": self.schema(depth - 1)} for n in range(count)]
        return {"type": "record", "name": self._name(), "fields": kinds}

    def schema(self, depth: int, *, in_union: bool = False) -> Any:
        """Any schema."""
        pick = self._random.random()
        if depth > 0 and pick < 0.1:
            return {"type": "array", "items": self.schema(depth - 1)}
        if depth > 0 and pick < 0.2:
            return {"type": "map", "values": self.schema(depth - 1)}
        if depth > 0 and pick < 0.3:
            return self.record(depth, 4)
        if pick < 0.55 and not in_union:
            return self._union(depth)
        if pick < 0.7:
            return self._logical()
        return self._leaf(self._random.choice(_LEAVES))

    def _leaf(self, kind: str) -> Any:
        if kind == "enum":
            return {
                "type": "enum",
                "name": self._name(),
                "symbols": list("ABC")[: self._random.randint(1, 3)],
            }
        if kind == "fixed":
            return {"type": "fixed", "name": self._name(), "size": self._random.randint(0, 9)}
        return kind

    def _logical(self) -> Any:
        pick = self._random.randrange(len(_LOGICAL) + 4)
        if pick < len(_LOGICAL):
            return dict(_LOGICAL[pick])
        if pick == len(_LOGICAL):
            return {"type": "fixed", "name": self._name(), "size": 12, "logicalType": "duration"}
        if pick == len(_LOGICAL) + 1:
            return {"type": "fixed", "name": self._name(), "size": 16, "logicalType": "uuid"}
        precision = self._random.choice((1, 5, 18, 19, 38, 39, 60))
        made = {"logicalType": "decimal", "precision": precision, "scale": self._random.randint(0, precision)}
        if pick == len(_LOGICAL) + 2:
            return {"type": "bytes", **made}
        return {"type": "fixed", "name": self._name(), "size": self._random.choice((26, 32, 40)), **made}

    def _union(self, depth: int) -> Any:
        branches = {}
        for _ in range(self._random.randint(1, 3)):
            one = self.schema(depth - 1, in_union=True)
            branches[one if isinstance(one, str) else one.get("name", one["type"])] = one
        found = list(branches.values())
        if "null" not in branches and self._random.random() < 0.7:
            found.insert(self._random.choice((0, len(found))), "null")
        return found

    # ---- values

    def value(self, schema: Any) -> Any:
        """A value; (number of the branch, value) in unions."""
        pick = self._random
        if isinstance(schema, list):
            at = pick.randrange(len(schema))
            return (at, self.value(schema[at]))
        if isinstance(schema, str):
            return self._plain(schema)
        kind = schema["type"]
        if kind == "record":
            return {one["name"]: self.value(one["type"]) for one in schema["fields"]}
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(pick.choice((0, 1, 2, 5)))]
        if kind == "map":
            return {self._text(): self.value(schema["values"]) for _ in range(pick.choice((0, 1, 3)))}
        if kind == "enum":
            return pick.choice(schema["symbols"])
        return self._of_logical(schema) if "logicalType" in schema else pick.randbytes(schema["size"])

    def _of_logical(self, schema: dict[str, Any]) -> Any:
        pick, logical = self._random, schema["logicalType"]
        if logical == "decimal":
            digits = pick.randrange(10 ** pick.randint(1, schema["precision"]))
            return Decimal(pick.choice((1, -1)) * digits).scaleb(-schema["scale"], _wide())
        if logical == "uuid":
            return uuid.UUID(int=pick.getrandbits(128)) if schema["type"] == "string" else pick.randbytes(16)
        if logical == "duration":
            return pick.randbytes(12)
        if logical == "date":
            return date(1, 1, 1) + timedelta(days=pick.randrange(3_000_000))
        if logical.startswith("time-"):
            step = 1000 if logical.endswith("millis") else 1
            return (
                datetime(2000, 1, 1) + timedelta(microseconds=pick.randrange(86_400_000_000 // step) * step)
            ).time()
        step = 1000 if logical.endswith("millis") else 1
        moment = datetime(1800, 1, 1) + timedelta(microseconds=pick.randrange(10**16 // step) * step)
        return moment if logical.startswith("local") else moment.replace(tzinfo=UTC)

    def _plain(self, kind: str) -> Any:
        pick = self._random
        if kind == "null":
            return None
        if kind == "boolean":
            return pick.random() < 0.5
        if kind in ("int", "long"):
            bits = 31 if kind == "int" else 63
            found = pick.getrandbits(pick.randint(0, bits))
            return found if pick.random() < 0.5 else -found - 1
        if kind in ("float", "double"):
            return pick.choice((0.0, -1.5, 2.0**100, float("inf"), 0.125))
        return self._text() if kind == "string" else pick.randbytes(pick.choice((0, 1, 3, 40)))

    def _text(self) -> str:
        letters = string.ascii_letters if self._random.random() < 0.8 else "aäß語🌊"
        return "".join(self._random.choices(letters, k=self._random.choice((0, 1, 5, 30))))


def _wide() -> Any:
    return decimal.Context(prec=80)


def encode(value: Any, schema: Any) -> bytes:
    """A value in Avro's binary encoding.

    Structure is written here, so that branches are those that were chosen and blocks of both kinds come;
    leaves are fastavro's.
    """
    out = io.BytesIO()
    _write(out, value, schema)
    return out.getvalue()


def _write(out: io.BytesIO, value: Any, schema: Any) -> None:
    if isinstance(schema, list):
        fastavro.schemaless_writer(out, "long", value[0])
        _write(out, value[1], schema[value[0]])
    elif isinstance(schema, dict) and schema["type"] == "record":
        for one in schema["fields"]:
            _write(out, value[one["name"]], one["type"])
    elif isinstance(schema, dict) and schema["type"] in ("array", "map"):
        _write_blocks(out, value, schema)
    elif schema != "null":
        fastavro.schemaless_writer(out, schema, value)


def _write_blocks(out: io.BytesIO, value: Any, schema: Any) -> None:
    items = list(value.items()) if schema["type"] == "map" else list(value)
    halves = [items[:2], items[2:]]  # several blocks
    for number, block in enumerate(halves):
        if not block:
            continue
        body = io.BytesIO()
        for one in block:
            if schema["type"] == "map":
                fastavro.schemaless_writer(body, "string", one[0])
                _write(body, one[1], schema["values"])
            else:
                _write(body, one, schema["items"])
        sized = number == 0  # a negative count, then the size
        fastavro.schemaless_writer(out, "long", -len(block) if sized else len(block))
        if sized:
            fastavro.schemaless_writer(out, "long", len(body.getvalue()))
        out.write(body.getvalue())
    out.write(b"\0")


def frame(number: int, value: bytes) -> bytes:
    """With Confluent's magic byte and id."""
    return b"\0" + number.to_bytes(4, "big") + value


def expected(found: Any, schema: Any, given: Any) -> Any:
    """What fastavro read, as Arrow tells it; `given` tells the branches of unions."""
    if isinstance(schema, list):
        at, inner = given
        members = [one for one in schema if one != "null"]
        if schema[at] == "null":
            return None
        one = expected(found, schema[at], inner)
        if len(members) < 2:
            return one
        names = member_names(_parsed(schema))
        return {
            name: one if branch is schema[at] else None for name, branch in zip(names, members, strict=True)
        }
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return {
            one["name"]: expected(found[one["name"]], one["type"], given[one["name"]])
            for one in schema["fields"]
        }
    if kind == "array":
        return [expected(one, schema["items"], want) for one, want in zip(found, given, strict=True)]
    if kind == "map":
        return [(key, expected(found[key], schema["values"], want)) for key, want in given.items()]
    logical = "" if isinstance(schema, str) else schema.get("logicalType", "")
    if logical == "uuid":
        return str(found if isinstance(found, uuid.UUID) else uuid.UUID(bytes=found))
    if logical == "duration":
        parts = [int.from_bytes(found[n : n + 4], "little") for n in (0, 4, 8)]
        return dict(zip(("months", "days", "milliseconds"), parts, strict=True))
    return found


def _parsed(schema: Any) -> Any:
    return parse_avro(json.dumps(schema))
