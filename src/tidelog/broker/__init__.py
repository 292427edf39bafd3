"""One Kafka broker in one Python process.

    running            a broker in this thread or one of its own; sockets: `server`, `connection`, `limits`
    wire/              bytes on a connection <-> Kafka's messages
    handlers/          one for each API: a request and the broker's state in, a response out
    catalog            the topics that are served; `settings`, `fetch_sessions`, `watching`
    effects            what coordinators are told and what they want done, and the loop that does it
    messages           kio's messages of many versions: read a field, build the response of a request
    coordinators       `Coordinators`: groups and transactions behind one `step(event, now_ms)`, `load_groups`
                       and `load_transactions(partition, records)`, and `verify_or_add` for Produce
    groups/            the group coordinator: `__consumer_offsets`
    transactions/      the transaction coordinator: `__transaction_state`

Coordinators decide; the server carries out what they decide.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def _import_kio() -> None:
    """Import the part of kio that would import hypothesis, where that is installed, for kio's own tests.

    That would take as long as all else at a broker's start, and a tenth of its memory.
    """
    modules: dict[str, Any] = sys.modules
    if "hypothesis" in modules:
        return
    modules["hypothesis"] = None  # "not installed", for as long as this takes
    try:
        import_module("kio.static._phantom")
    finally:
        del modules["hypothesis"]


_import_kio()
