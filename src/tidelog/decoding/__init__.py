"""Payloads as people read them: text, JSON, Avro, and the messages of Kafka's own topics."""

from __future__ import annotations

from tidelog.decoding.decoder import DECODERS, Decoded, Decoder, Undecodable, make_decoder, text_of

__all__ = ["DECODERS", "Decoded", "Decoder", "Undecodable", "make_decoder", "text_of"]
