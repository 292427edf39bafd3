"""A site without a socket: paths in, JSON out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tidelog.ui.exchange import Request, Response
from tidelog.ui.guard import Guard
from tidelog.ui.records import Limits
from tidelog.ui.site import Schemas, Site

__all__ = ["HOST", "TOKEN", "Asked", "cat_rows"]

TOKEN = "t0ken"
HOST = "127.0.0.1:8080"


class Asked:
    """A site about paths, as its own page asks it."""

    def __init__(self, *paths: Path, limits: Limits | None = None, schemas: Schemas | None = None) -> None:
        guard = Guard(TOKEN, 8080, "127.0.0.1")
        self.site = Site([str(path) for path in paths], guard, limits=limits, schemas=schemas)

    def answer(self, path: str, headers: dict[str, str] | None = None, /, **query: object) -> Response:
        """The answer to a path behind the token."""
        target = f"/{TOKEN}/{path}" + (f"?{urlencode(query)}" if query else "")
        return self.site.answer(Request.parse("GET", target, {"Host": HOST, **(headers or {})}))

    def json(self, path: str, /, **query: object) -> Any:
        """What a path answers if all is well."""
        found = self.answer(path, **query)
        assert found.status == 200, found.body
        return json.loads(found.body)

    def error(self, path: str, /, **query: object) -> tuple[int, str]:
        """What a path answers if something is wrong."""
        found = self.answer(path, **query)
        assert found.content_type == "application/json"
        told = json.loads(found.body)
        assert list(told) == ["error"], told
        return found.status, told["error"]


def cat_rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of an answer with the fields that `tidelog cat --json` has."""
    names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    return [{name: record[name] for name in names} for record in records]
