"""Requests as they come: a frame is a length (int32) and so many bytes, a header and a message.

    header 1   api key int16, api version int16, correlation id int32, client id nullable string
    header 2   the same, then tagged fields: of versions that are flexible

A request that cannot be understood is one of two things. An API or a version that this broker does not serve
is answered with UNSUPPORTED_VERSION: ApiVersions as version 0, so that any client can read it, others in the
nearest version there is. Anything else is garbage: MalformedRequestError, and the connection ends. Bytes
behind a message are ignored, as in Kafka: librdkafka sends some.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from tidelog.broker.wire.encoding import Pieces, encoder_of
from tidelog.broker.wire.lengths import MOST_ITEMS, Check, check_of, skip_varint
from tidelog.broker.wire.versions import APIS, Api

__all__ = [
    "MalformedRequestError",
    "RequestHeader",
    "UnsupportedVersionError",
    "decode_request",
    "encode_response",
    "encode_unsupported",
    "join_pieces",
    "read_header",
]

_HEAD = struct.Struct(">hhih")
_LENGTH = struct.Struct(">i")
_FRAME = struct.Struct(">ii")
_API_VERSIONS = 18
_GATHERED = 16 << 10
"""Pieces below this size are joined; larger ones are sent as they are."""


class MalformedRequestError(Exception):
    """Bytes that are no request."""


class UnsupportedVersionError(Exception):
    """A request for an API or a version that is not served."""


class RequestHeader(NamedTuple):
    """What stands before a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int
    """Where the header ends, if it is of version 1."""


class _Codec(NamedTuple):
    api: Api
    check: Check
    read: Callable[[bytes, int], tuple[Any, int]]
    flexible: bool
    encode: Callable[[Any], Pieces]
    head: bool
    """Whether the response's header has tagged fields."""


def read_header(frame: bytes) -> RequestHeader:
    """The header of a request, but for tagged fields."""
    if len(frame) < _HEAD.size:
        raise MalformedRequestError(f"a request of {len(frame)} bytes has no header")
    key, version, correlation, size = _HEAD.unpack_from(frame)
    end = _HEAD.size + max(size, 0)
    if size < -1 or end > len(frame):
        raise MalformedRequestError(f"a client id of {size} bytes in a request of {len(frame)}")
    try:
        client = None if size < 0 else frame[_HEAD.size : end].decode()
    except UnicodeDecodeError as error:
        raise MalformedRequestError(f"the client id is not text: {error}") from None
    return RequestHeader(key, version, correlation, client, end)


@functools.cache
def _codec(key: int, version: int) -> _Codec:
    api = APIS.get(key)
    if api is None or not api.lowest <= version <= api.highest:
        raise UnsupportedVersionError(f"api key {key} version {version} is not served")
    request: Any = load_request_schema(key, version)
    response: Any = load_response_schema(key, version)
    head = bool(response.__flexible__) and key != _API_VERSIONS
    is_flexible = bool(request.__flexible__)
    return _Codec(api, check_of(request), entity_reader(request), is_flexible, encoder_of(response), head)


def decode_request(header: RequestHeader, frame: bytes, most_items: int = MOST_ITEMS) -> tuple[Api, Any]:
    """The message of a request, as kio's dataclass; UnsupportedVersionError, MalformedRequestError."""
    codec = _codec(header.api_key, header.api_version)
    at = header.end
    try:
        if codec.flexible:
            at = _skip_tags(frame, at)
        message, _ = codec.read(codec.check(frame, at, most_items), at)
    except (SerialError, ValueError, LookupError, struct.error, ArithmeticError, TypeError) as error:
        raise MalformedRequestError(f"{codec.api.name} version {header.api_version}: {error}") from None
    return codec.api, message


def _skip_tags(frame: bytes, at: int) -> int:
    count, at = skip_varint(frame, at)
    for _ in range(count):
        _, at = skip_varint(frame, at)
        size, at = skip_varint(frame, at)
        at += size
        if at > len(frame):
            raise MalformedRequestError("a tagged field reaches beyond its request")
    return at


def encode_response(key: int, version: int, correlation_id: int, response: Any) -> Pieces:
    """A response's frame, in pieces. `response` is values (`encoding`) or kio's dataclass."""
    codec = _codec(key, version)
    pieces = _encode_entity(response) if dataclasses.is_dataclass(response) else codec.encode(response)
    size = sum(map(len, pieces)) + 4 + codec.head
    head = _FRAME.pack(size, correlation_id)
    pieces.insert(0, head + b"\0" if codec.head else head)
    return pieces


def encode_unsupported(header: RequestHeader, code: int) -> Pieces:
    """The frame that refuses an API or a version: in the nearest form there is, else a bare error code."""
    key, version = header.api_key, header.api_version
    known = schema_name_map.get(api_key_map.get(key, ""), {})
    if not known:
        return [_FRAME.pack(6, header.correlation_id), struct.pack(">h", code)]
    response: Any = load_response_schema(key, min(max(version, min(known)), max(known)))
    body = encoder_of(response)({"error_code": code, "error_message": "the version is not supported"})
    tags = b"\0" if response.__flexible__ else b""
    size = 4 + len(tags) + sum(map(len, body))
    return [_FRAME.pack(size, header.correlation_id) + tags, *body]


def _encode_entity(entity: Any) -> Pieces:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return [out.getvalue()]


def join_pieces(pieces: Pieces) -> Pieces:
    """The same bytes in few pieces: small ones are joined, large ones stay as they are."""
    joined: Pieces = []
    small: Pieces = []
    for piece in pieces:
        if len(piece) < _GATHERED:
            small.append(piece)
        else:
            joined += [b"".join(small), piece] if small else [piece]
            small = []
    if small:
        joined.append(b"".join(small))
    return joined
