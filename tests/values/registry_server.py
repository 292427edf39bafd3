"""A schema registry for tests: the REST answers that clients ask for, on this machine."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Registry", "running_registry"]


@dataclass
class Registry:
    """Its schemas, and what it was asked."""

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    user: str | None = None
    status: int = 200
    url: str = ""

    def register(self, subject: str, number: int, schema: str, **more: Any) -> None:
        """Add a version of a subject."""
        self.schemas[number] = {"schema": schema, **more}
        self.subjects.setdefault(subject, []).append(number)

    def answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        """A status, and what is told."""
        self.asked.append(path)
        if self.status != 200:
            return self.status, {"error_code": 50001, "message": "Error in the backend data store"}
        if (
            self.user is not None
            and authorization != "Basic " + base64.b64encode(self.user.encode()).decode()
        ):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["schemas", "ids"] and parts[3:] == ["subjects"]:
            return 200, [name for name, has in self.subjects.items() if int(parts[2]) in has]
        if parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
            return (
                (404, {"error_code": 40403, "message": "Schema not found"}) if found is None else (200, found)
            )
        numbers = self.subjects.get(parts[1])
        if numbers is None:
            return 404, {"error_code": 40401, "message": f"Subject '{parts[1]}' not found."}
        if len(parts) == 3:
            return 200, list(range(1, len(numbers) + 1))
        version = len(numbers) if parts[3] == "latest" else int(parts[3])
        number = numbers[version - 1]
        return 200, {"subject": parts[1], "version": version, "id": number, **self.schemas[number]}


@contextmanager
def running_registry() -> Iterator[Registry]:
    """A registry that answers on a port of its own."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, told = registry.answer(self.path, self.headers.get("Authorization"))
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
