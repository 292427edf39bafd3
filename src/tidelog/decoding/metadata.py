"""The records of KRaft's metadata log, as kafka-dump-log shows them.

    {"type":"TOPIC_RECORD","version":0,"data":{"name":"orders","topicId":"..."}}

A record of a type or version that is not known here has its api key, and its message in hex.
"""

from __future__ import annotations

import re
from functools import cache

from tidelog.decoding.decoder import Decoded, Undecodable
from tidelog.errors import CorruptRecordError
from tidelog.protocol.metadata_formats import METADATA
from tidelog.protocol.metadata_records import FRAME_VERSION
from tidelog.protocol.notation import Message, parse_messages
from tidelog.protocol.primitives import Reader

__all__ = ["MetadataDecoder"]


@cache
def _messages() -> dict[int, Message]:
    return parse_messages(METADATA)


class MetadataDecoder:
    """Reads metadata records."""

    def decode(self, key: bytes | None, value: bytes | None) -> Decoded:
        """The record; metadata has no keys."""
        try:
            body = Reader(value or b"", "metadata record")
            frame, api_key, version = (body.unsigned_varint() for _ in range(3))
            if frame != FRAME_VERSION:
                raise Undecodable(f"frame version {frame}, but only {FRAME_VERSION} is known")
            message = _messages().get(api_key)
            if message is None or not 0 <= version <= message.newest_version:
                told = {
                    "type": f"UNKNOWN({api_key})",
                    "version": version,
                    "hex": body.take(body.remaining).hex(),
                }
                return Decoded(value=told, has_key=False)
            data = message.decode(body, version)
        except CorruptRecordError as error:
            raise Undecodable(error.reason) from None
        return Decoded(
            value={"type": _type_name(message.name), "version": version, "data": data}, has_key=False
        )


def _type_name(name: str) -> str:
    """As Kafka calls the type: RegisterBrokerRecord is REGISTER_BROKER_RECORD."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
