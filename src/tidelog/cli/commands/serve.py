"""`tidelog serve`: one Kafka broker on these roots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Force, Json, ServerProperties, app
from tidelog.cli.declare import Argument, Option

__all__ = ["serve"]


@app.command()
def serve(
    roots: Annotated[
        list[Path] | None, Argument(metavar="ROOT", help="Roots (log.dirs); created if they are missing.")
    ] = None,
    listen: Annotated[
        list[str] | None,
        Option(
            "--listen", metavar="HOST:PORT", help="The address to listen on.", show_default="127.0.0.1:9092"
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        Option("--advertise", metavar="HOST:PORT", help="The address that clients are told to connect to."),
    ] = None,
    config: Annotated[
        list[str] | None, Option("--config", metavar="KEY=VALUE", help="A key of server.properties.")
    ] = None,
    server_properties: ServerProperties = None,
    users: Annotated[
        Path | None,
        Option("--users", metavar="FILE", help="Require SASL; the file has lines of name=password."),
    ] = None,
    tls: Annotated[
        Path | None, Option("--tls", metavar="PEM", help="Use TLS with the certificate and key in this file.")
    ] = None,
    tls_clients: Annotated[
        Path | None,
        Option(
            "--tls-clients", metavar="PEM", help="Require client certificates signed by a CA in this file."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        Option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus on this address."),
    ] = None,
    read_only: Annotated[bool, Option("--read-only", help="Serve without changing anything.")] = False,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Serve roots as one Kafka broker, for any Kafka client, until Ctrl-C or SIGTERM.

    A root that was not closed cleanly is recovered first, as a broker does. A second signal stops at once.
    """
    from tidelog.cli.actions.serve import run_broker
    from tidelog.cli.render.output import make_output

    run_broker(
        [str(root) for root in roots or ()],
        listen or [],
        advertise,
        config or [],
        server_properties,
        make_output(json=json),
        users=users,
        tls=tls,
        tls_clients=tls_clients,
        metrics=metrics,
        read_only=read_only,
        force=force,
        debug=debug,
    )
