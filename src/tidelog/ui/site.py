"""The handlers: each answers one path behind the token.

(empty)          the page: the report, live, and the browser of records
facts            the report's facts as JSON; 304 if they are those that the browser has
api/partitions   which partitions there are
api/records      records of a partition (`query` has the parameters)
api/record       one record in every form: topic, partition, offset
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from tidelog.decoding import Decoder, make_decoder
from tidelog.errors import InvalidInputError, TidelogError, UnknownTopicOrPartitionError
from tidelog.report.page import page
from tidelog.scanning.partitions import Partition, list_partitions
from tidelog.storage.names import CLUSTER_METADATA_TOPIC
from tidelog.types import TopicPartition
from tidelog.ui.commands import record_commands, search_command
from tidelog.ui.exchange import HTML, JSON, Refusal, Request, Response, make_error, make_json
from tidelog.ui.forms import in_forms, record_row
from tidelog.ui.guard import Guard, security_headers
from tidelog.ui.query import parse_query, parse_record
from tidelog.ui.records import Limits, RecordPage, read_page, read_record
from tidelog.ui.watching import FactsWatch

__all__ = ["Schemas", "Site"]

_NOTHING = "default-src 'none'; frame-ancestors 'none'"
"""The policy of what is not a page: it loads and runs nothing."""
_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')

_MESSAGES = {
    "__consumer_offsets": "consumer-offsets",
    "__transaction_state": "transaction-state",
    "__share_group_state": "share-group-state",
    CLUSTER_METADATA_TOPIC: "cluster-metadata",
}
"""The decoders of Kafka's own topics."""
_ONE_RECORD = Limits(field_bytes=1 << 20)


@dataclass(frozen=True, slots=True)
class Schemas:
    """Files with the Avro schemas of values: by topic, and one for all other topics."""

    by_topic: Mapping[str, Path] = field(default_factory=dict)
    default: Path | None = None

    def of(self, topic: str) -> Path | None:
        """The schema of a topic's values."""
        return self.by_topic.get(topic, self.default)


class Site:
    """Answers requests about these paths."""

    def __init__(
        self,
        paths: Sequence[str],
        guard: Guard,
        *,
        schemas: Schemas | None = None,
        limits: Limits | None = None,
        explain: Callable[[Exception], str] = str,
    ) -> None:
        """`explain` makes a sentence of an error."""
        self._paths = list(paths)
        self._guard = guard
        self._schemas = schemas or Schemas()
        self._limits = limits or Limits()
        self._explain = explain
        self._decoders: dict[str, Decoder] = {}
        self.watch = FactsWatch(self._paths)
        self._handlers: dict[str, Callable[[Request], Response]] = {
            "": self._page,
            "facts": self._facts,
            "api/partitions": self._partitions,
            "api/records": self._records,
            "api/record": self._record,
        }

    def answer(self, request: Request) -> Response:
        """The answer, an error as a sentence in JSON; with the headers that every answer has."""
        try:
            path = self._guard.admit(request)
            if path not in self._handlers:
                raise Refusal(404, "there is nothing at this address")
            found = self._handlers[path](request)
        except (TidelogError, OSError) as error:
            found = self._refuse(error)
        policy = found.headers.get("Content-Security-Policy", _NOTHING)
        headers = {**security_headers(policy), **found.headers}
        return Response(found.status, found.body, found.content_type, headers)

    def warm_up(self) -> None:
        """Begin to gather the facts, before somebody asks for them."""

        def gather() -> None:
            with contextlib.suppress(TidelogError, OSError):  # whoever asks is told
                self.watch.current()

        threading.Thread(target=gather, name="tidelog-ui-facts", daemon=True).start()

    def _refuse(self, error: Exception) -> Response:
        match error:
            case Refusal():
                status = error.status
            case UnknownTopicOrPartitionError():
                status = 404
            case InvalidInputError():
                status = 400
            case _:
                status = 500
        return make_error(status, self._explain(error))

    def _page(self, request: Request) -> Response:
        text = page(self.watch.current().facts, live="facts", sections=self._section)
        found = _POLICY.search(text)
        policy = f"{found[1]}; frame-ancestors 'none'" if found else _NOTHING
        return Response(200, text.encode(), HTML, {"Content-Security-Policy": policy})

    @cached_property
    def _section(self) -> str:
        """The browser of records, as a part of the page."""
        parts = {name: _asset(f"records.{name}") for name in ("css", "html", "js")}
        return f"<style>{parts['css']}</style>\n{parts['html']}\n<script>{parts['js']}</script>"

    def _facts(self, request: Request) -> Response:
        now = self.watch.current()
        headers = {"ETag": now.etag, "Cache-Control": "private, no-cache"}
        if request.headers.get("if-none-match") == now.etag:
            return Response(304, b"", JSON, headers)
        return Response(200, now.body, JSON, headers)

    def _partitions(self, request: Request) -> Response:
        found = sorted({one.topic_partition for one in self._listed()})
        return make_json({"partitions": [{"topic": one.topic, "partition": one.partition} for one in found]})

    def _records(self, request: Request) -> Response:
        query = parse_query(request.query)
        partition = self._find(query.partition)
        found = read_page(partition, query, self._limits, time.time_ns() // 1_000_000)
        command = search_command(partition.url, query, skip_damage=bool(found.losses))
        return make_json(self._told(found) | {"commands": [command]})

    def _told(self, found: RecordPage) -> dict[str, Any]:
        return {
            "records": [record_row(row, self._limits.field_bytes) for row in found.rows],
            "log_start_offset": str(found.log_start_offset),
            "log_end_offset": str(found.log_end_offset),
            "searched_from": str(found.searched_from),
            "next_offset": str(found.next_offset),
            "is_complete": found.is_complete,
            "damage": [str(loss) for loss in found.losses],
        }

    def _record(self, request: Request) -> Response:
        name, offset = parse_record(request.query)
        partition = self._find(name)
        row, losses = read_record(partition, offset, _ONE_RECORD)
        if row is None:
            lost = f": {losses[0]}" if losses else ", or it is of a control record"
            raise Refusal(404, f"{name} has no record at offset {offset}{lost}")
        decoders = self._decoders_of(name.topic)
        batch = {
            each: row[each]
            for each in row
            if each not in ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
        }
        return make_json(
            {
                "record": record_row(row, _ONE_RECORD.field_bytes),
                "batch": batch,
                "forms": in_forms(row, decoders),
                "commands": record_commands(
                    partition.url, row["log_name"], offset, list(decoders), self._schemas.of(name.topic)
                ),
            }
        )

    def _listed(self) -> list[Partition]:
        """The live partitions of each path by itself: two roots may hold the same one."""
        return [one for path in self._paths for one in list_partitions(path)]

    def _find(self, name: TopicPartition) -> Partition:
        listed = self._listed()
        found = {one.url: one for one in listed if one.topic_partition == name}
        if len(found) > 1:
            raise InvalidInputError(f"{name} is there twice, {' and '.join(found)}: choose one root")
        if found:
            return next(iter(found.values()))
        if any(one.topic_partition.topic == name.topic for one in listed):
            raise UnknownTopicOrPartitionError(f"topic {name.topic} has no partition {name.partition}")
        raise UnknownTopicOrPartitionError(f"there is no topic {name.topic}")

    def _decoders_of(self, topic: str) -> dict[str, Decoder]:
        """The decoders that may read a topic's records, the likeliest first."""
        names = [_MESSAGES[topic]] if topic in _MESSAGES else []
        schema = self._schemas.of(topic)
        found = {name: self._decoder(name) for name in [*names, "json"]}
        if schema is not None:
            key = f"avro {schema}"
            if key not in self._decoders:
                self._decoders[key] = make_decoder("avro", avro_schema=schema)
            found = {"avro": self._decoders[key], **found}
        return found

    def _decoder(self, name: str) -> Decoder:
        if name not in self._decoders:
            self._decoders[name] = make_decoder(name)
        return self._decoders[name]


def _asset(name: str) -> str:
    return resources.files("tidelog.ui").joinpath("static", name).read_text(encoding="utf-8")
