"""ApiVersions: what this broker serves. SaslHandshake and SaslAuthenticate where nobody asked for them."""

from __future__ import annotations

from typing import Any

from tidelog.broker.context import Broker, Client, Values
from tidelog.broker.errors import Code
from tidelog.broker.wire.versions import APIS
from tidelog.manager.metadata.registration import FEATURES

__all__ = ["api_versions", "late_authenticate", "late_handshake", "unsupported_api_versions"]

_LEVELS = {"metadata.version": (7, 30), "group.version": (0, 1), "transaction.version": (0, 2)}
"""The features that clients look at, and the levels that Kafka 4.3 has of them."""

_ADVERTISED_FROM = {"Produce": 0}
"""Kafka says so of versions that it refuses: without them, older librdkafkas (2.0) do not compress."""


def api_versions(request: Any, broker: Broker, client: Client) -> Values:
    """All APIs and their versions."""
    return {**_served(broker), **_features()}


def unsupported_api_versions(broker: Broker) -> Values:
    """What a client hears that asks in a version that is not known, in version 0 of the response."""
    return {"error_code": Code.UNSUPPORTED_VERSION, **_served(broker)}


def late_handshake(request: Any, broker: Broker, client: Client) -> Values:
    """A handshake of a client that is let in already, or need not be (`authentication` has the others)."""
    return {"error_code": Code.ILLEGAL_SASL_STATE, "mechanisms": []}


def late_authenticate(request: Any, broker: Broker, client: Client) -> Values:
    """Likewise, a token."""
    return {
        "error_code": Code.ILLEGAL_SASL_STATE,
        "error_message": "this client is let in already",
        "auth_bytes": b"",
    }


def _served(broker: Broker) -> Values:
    return {
        "api_keys": [
            {
                "api_key": api.key,
                "min_version": _ADVERTISED_FROM.get(api.name, api.lowest),
                "max_version": api.highest,
            }
            for api in APIS.values()
            if api.key in broker.served
        ]
    }


def _features() -> Values:
    return {
        "supported_features": [
            {"name": name, "min_version": low, "max_version": high} for name, (low, high) in _LEVELS.items()
        ],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level}
            for name, level in FEATURES.items()
        ],
    }
