"""Serving the page of `tidelog ui`."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from tidelog.cli.errors import UsageError, explain
from tidelog.cli.render.output import Column, Output
from tidelog.decoding import make_decoder
from tidelog.scanning.partitions import list_partitions
from tidelog.ui.server import UiServer, serve_until_signal
from tidelog.ui.site import Schemas, Site

__all__ = ["parse_schemas", "run_ui"]

_MAX_PORT = 65535


def run_ui(
    paths: Sequence[str],
    out: Output,
    *,
    host: str,
    port: int,
    other_hosts: bool,
    schemas: Sequence[str],
    browser: bool | None,
) -> None:
    """Serve until a signal; `browser` None opens one if a person is there."""
    if port > _MAX_PORT:
        raise UsageError(f"--port {port}: a port is a number from 0 to {_MAX_PORT}")
    asked = [path if "://" in path else str(Path(path).absolute()) for path in paths]
    list_partitions(asked)  # what is wrong with a path is told before anything is served
    given = parse_schemas(schemas)
    for schema in {*given.by_topic.values(), *([given.default] if given.default else [])}:
        make_decoder("avro", avro_schema=schema)
    try:
        server = UiServer(
            lambda guard: Site(asked, guard, schemas=given, explain=lambda error: explain(error)[0]),
            host=host,
            port=port,
            other_hosts=other_hosts,
        )
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    wants_browser = sys.stdout.isatty() and not out.json if browser is None else browser
    with server:
        server.site.warm_up()
        serve_until_signal(server, lambda: _tell(server, asked, out, open_it=wants_browser))


def parse_schemas(given: Sequence[str]) -> Schemas:
    """Schemas from `FILE` and `TOPIC=FILE`. Raises UsageError if two are given for the same."""
    by_topic: dict[str, Path] = {}
    default: Path | None = None
    for text in given:
        topic, equals, file = text.partition("=")
        if equals and not Path(text).exists():
            if topic in by_topic:
                raise UsageError(f"--avro-schema: topic {topic} has two schemas")
            by_topic[topic] = Path(file)
        elif default is not None:
            raise UsageError("--avro-schema: two schemas are given for all topics: write TOPIC=FILE")
        else:
            default = Path(text)
    return Schemas(by_topic, default)


def _tell(server: UiServer, paths: Sequence[str], out: Output, *, open_it: bool) -> None:
    """Say where it is."""
    if out.json:
        out.table(
            [Column("url", "url"), Column("port", "port"), Column("roots", "roots")],
            [(server.url, server.port, ",".join(paths))],
        )
    else:
        out.say(f"{', '.join(paths)}: {server.url} (read-only; Ctrl-C stops it)")
    out.flush()
    if open_it and not webbrowser.open(server.url):
        out.warn("tidelog: cannot start a browser: open the address yourself")
