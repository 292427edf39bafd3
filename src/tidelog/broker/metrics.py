"""What a broker counts, as Prometheus reads it.

    tidelog_broker_requests_total{api}             requests
    tidelog_broker_request_seconds{api}            how long they took, waiting included (a histogram)
    tidelog_broker_request_errors_total            requests that were garbage, or failed
    tidelog_broker_received_bytes_total, sent_bytes_total, connections
    tidelog_log_size_bytes, log_start_offset, log_end_offset{topic,partition}
    tidelog_group_lag{group,topic,partition}       records behind the high watermark

A text is made when somebody asks for it, by a small HTTP server on a port of its own.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
from collections.abc import Callable, Iterable, Iterator

from tidelog.broker.context import Broker
from tidelog.broker.coordinators import Coordinators
from tidelog.broker.settings import Endpoint
from tidelog.errors import TidelogError

__all__ = ["Metrics", "MetricsServer", "render"]

_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ASK_S = 5.0
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class _Times:
    """How long the requests of one API took."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS_S) + 1)
        self.total_s = 0.0


class Metrics:
    """Counters of a server."""

    def __init__(self) -> None:
        self._times: dict[str, _Times] = {}
        self.errors = 0
        self.received_bytes = 0
        self.sent_bytes = 0

    def took(self, api: str, seconds: float) -> None:
        """A request has been answered."""
        times = self._times.get(api)
        if times is None:
            times = self._times[api] = _Times()
        times.counts[bisect.bisect_left(_BOUNDS_S, seconds)] += 1
        times.total_s += seconds

    def lines(self, connections: int) -> Iterator[str]:
        """The counters."""
        yield from _head("tidelog_broker_connections", "gauge", "Connections of clients.")
        yield f"tidelog_broker_connections {connections}"
        for name, value, doc in (
            ("received_bytes", self.received_bytes, "Bytes of requests."),
            ("sent_bytes", self.sent_bytes, "Bytes of responses."),
            ("request_errors", self.errors, "Requests that ended their connection."),
        ):
            yield from _head(f"tidelog_broker_{name}_total", "counter", doc)
            yield f"tidelog_broker_{name}_total {value}"
        yield from _head("tidelog_broker_requests_total", "counter", "Requests by API.")
        for api, times in sorted(self._times.items()):
            yield f'tidelog_broker_requests_total{{api="{api}"}} {sum(times.counts)}'
        yield from _head("tidelog_broker_request_seconds", "histogram", "Time from request to response.")
        for api, times in sorted(self._times.items()):
            so_far = 0
            for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), times.counts, strict=True):
                so_far += count
                yield f'tidelog_broker_request_seconds_bucket{{api="{api}",le="{bound}"}} {so_far}'
            yield f'tidelog_broker_request_seconds_sum{{api="{api}"}} {times.total_s:.6f}'
            yield f'tidelog_broker_request_seconds_count{{api="{api}"}} {so_far}'


def _head(name: str, kind: str, doc: str) -> Iterable[str]:
    return (f"# HELP {name} {doc}", f"# TYPE {name} {kind}")


def _label(text: str) -> str:
    return text.translate(_ESCAPES)


def render(metrics: Metrics, connections: int, broker: Broker, coordinators: Coordinators | None) -> str:
    """All of it as text."""
    lines = list(metrics.lines(connections))
    lines += _log_lines(broker)
    if coordinators is not None:
        lines += _lag_lines(broker, coordinators)
    return "\n".join(lines) + "\n"


def _log_lines(broker: Broker) -> Iterator[str]:
    if not broker.catalog.is_writable:
        return
    found = [one for _, one in sorted(broker.catalog.store.metrics().partitions.items())]
    for name, doc in (
        ("size_bytes", "Bytes of a partition's log."),
        ("log_start_offset", "Its first offset."),
        ("log_end_offset", "Its next offset."),
    ):
        title = f"tidelog_log_{name.removeprefix('log_')}"
        yield from _head(title, "gauge", doc)
        for one in found:
            where = f'topic="{_label(one.partition.topic)}",partition="{one.partition.partition}"'
            yield f"{title}{{{where}}} {getattr(one, name)}"


def _lag_lines(broker: Broker, coordinators: Coordinators) -> Iterator[str]:
    yield from _head("tidelog_group_lag", "gauge", "Records that a group has not read yet.")
    offsets = coordinators.groups.table.offsets
    for group in sorted(offsets.groups()):
        for (topic, number), committed in sorted(offsets.of(group).items()):
            log = broker.catalog.log(topic, number)
            if log is None:
                continue
            with contextlib.suppress(TidelogError, OSError):
                lag = max(0, log.ends.high_watermark - committed.offset)
                where = f'group="{_label(group)}",topic="{_label(topic)}",partition="{number}"'
                yield f"tidelog_group_lag{{{where}}} {lag}"


class MetricsServer:
    """Answers `GET /metrics`."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._server: asyncio.Server | None = None

    async def start(self, where: Endpoint) -> Endpoint:
        """Listen; where it does."""
        self._server = await asyncio.start_server(self._answer, where.host or None, where.port, limit=8192)
        return Endpoint(where.host or "localhost", self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_ASK_S):
                asked = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].split()
                found = len(asked) == 3 and asked[0] == b"GET" and asked[1] in (b"/metrics", b"/")
                status, body = ("200 OK", self._text()) if found else ("404 Not Found", "")
                data = body.encode()
                kind = "text/plain; version=0.0.4; charset=utf-8"
                head = (
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + data)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()
