"""Requests and responses as values: handlers need no socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tidelog.errors import TidelogError

__all__ = ["HTML", "JSON", "Refusal", "Request", "Response", "make_error", "make_json"]

HTML = "text/html; charset=utf-8"
JSON = "application/json"

_MAX_FIELDS = 64


class Refusal(TidelogError):
    """A request that is not answered, and the HTTP status that says so."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """A request: `path` and `query` are decoded, names of `headers` are in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, method: str, target: str, headers: Mapping[str, str]) -> Request:
        """A request from its line and headers. Raises Refusal."""
        try:
            parts = urlsplit(target)
            path = unquote(parts.path, errors="strict")
            found = parse_qs(
                parts.query,
                keep_blank_values=True,
                strict_parsing=bool(parts.query),
                errors="strict",
                max_num_fields=_MAX_FIELDS,
            )
        except ValueError:
            raise Refusal(400, "the request's address cannot be read") from None
        twice = [name for name, values in found.items() if len(values) > 1]
        if twice:
            raise Refusal(400, f"{twice[0]} is given more than once")
        query = {name: values[0] for name, values in found.items()}
        return cls(method, path, query, {name.lower(): value for name, value in headers.items()})


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; what every answer has besides is added by the guard."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


def make_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON, in ASCII: names of files need not be text."""
    body = json.dumps(value, separators=(",", ":")).encode("ascii")
    return Response(status, body, JSON, headers or {})


def make_error(status: int, sentence: str) -> Response:
    """What went wrong, in a sentence."""
    return make_json({"error": sentence}, status)
