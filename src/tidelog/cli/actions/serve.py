"""Serving roots as a broker."""

from __future__ import annotations

import gc
import json
import logging
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.actions.directories import parse_settings
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Column, Output
from tidelog.errors import MissingLibraryError
from tidelog.storage import LOCAL, read_file
from tidelog.storage.metadata import parse_properties

if TYPE_CHECKING:
    from tidelog.broker.server import Server

__all__ = ["run_broker"]


def run_broker(
    roots: Sequence[str],
    listen: Sequence[str],
    advertise: str | None,
    config: Sequence[str],
    server_properties: Path | None,
    out: Output,
    *,
    users: Path | None,
    tls: Path | None,
    tls_clients: Path | None,
    metrics: str | None,
    read_only: bool,
    force: bool,
    debug: bool,
) -> None:
    """Serve until a signal."""
    gc.disable()  # until clients can connect: what a start makes stays
    try:
        from tidelog.broker.authentication import parse_users
        from tidelog.broker.running import BrokerOptions, serve
        from tidelog.broker.settings import broker_config, parse_endpoint
    except ImportError as error:
        raise MissingLibraryError(
            f"tidelog serve needs the package {error.name}: pip install 'tidelog[broker]'"
        ) from error
    given: dict[str, str] = {}
    if server_properties is not None:
        given = _properties(server_properties)
    given |= parse_settings(config)
    wanted = list(roots) or list(broker_config(given).log_dirs)
    if not wanted:
        raise UsageError("name a root to serve, or give log.dirs with --server-properties")
    _log_to_stderr(as_json=out.json, debug=debug)
    options = BrokerOptions(
        roots=wanted,
        listen=[parse_endpoint(text) for text in listen or _listeners(given)],
        advertise=None if advertise is None else parse_endpoint(advertise, default_port=0),
        read_only=read_only,
        properties=given,
        force=force,
        users=None if users is None else parse_users(_properties(users)),
        tls=None if tls is None else _tls_context(tls, tls_clients),
        metrics=None if metrics is None else parse_endpoint(metrics, default_port=0),
    )
    serve(options, lambda server: _tell(server, wanted, out, read_only=read_only))


class _JsonLines(logging.Formatter):
    """A log's record as a JSON object on a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        told = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


def _log_to_stderr(*, as_json: bool, debug: bool) -> None:
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_JsonLines() if as_json else plain)
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler])


def _properties(path: Path) -> dict[str, str]:
    return dict(parse_properties(read_file(LOCAL, path), str(path)))


def _listeners(given: Mapping[str, str]) -> list[str]:
    """The `listeners` of a server.properties but the controller's; else the loopback."""
    named = [one.strip() for one in given.get("listeners", "").split(",") if one.strip()]
    return [one for one in named if not one.startswith("CONTROLLER:")] or ["127.0.0.1:9092"]


def _tls_context(certificate: Path, clients: Path | None) -> ssl.SSLContext:
    """A server's side of TLS; with `clients`, only clients whose certificate these have signed come in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate)
        if clients is not None:
            context.load_verify_locations(clients)
            context.verify_mode = ssl.CERT_REQUIRED
    except ssl.SSLError as error:
        raise UsageError(f"{certificate}: not a certificate and its key in PEM ({error})") from None
    return context


def _tell(server: Server, roots: Sequence[str], out: Output, *, read_only: bool) -> None:
    """Say where it listens."""
    where = ",".join(map(str, server.endpoints))
    if out.json:
        out.table([Column("listening", "listening"), Column("roots", "roots")], [(where, ",".join(roots))])
    else:
        how = "read-only " if read_only else ""
        out.say(f"broker {server.broker.catalog.node_id} serves {', '.join(roots)} {how}at {where}")
    out.flush()
    gc.freeze()  # a collection would look at all that was imported, and clients would wait for it
    gc.enable()
