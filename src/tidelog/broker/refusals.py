"""Why a coordinator refuses a request: an error code, as an exception inside its handlers."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

__all__ = ["Refused", "append_error"]


class Refused(Exception):
    """The request is answered with this error."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


_OF_APPENDS = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
}


def append_error(code: ErrorCode) -> ErrorCode:
    """What a client is told when the coordinator's own append failed."""
    return _OF_APPENDS.get(code, code)
