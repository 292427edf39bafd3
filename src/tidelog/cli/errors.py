"""What an error means to the person at the keyboard: a sentence with what to do next, and an exit code."""

from __future__ import annotations

import errno

from tidelog.errors import (
    ChecksumError,
    CompressionError,
    CorruptRecordError,
    InvalidInputError,
    TidelogError,
    TornBatchError,
    UnknownMagicError,
)

__all__ = ["FOUND_WRONG", "USAGE", "UndecodableError", "UsageError", "explain"]

FOUND_WRONG = 1
USAGE = 2

_NO_SUCH_NAME = {errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
_HINTS: tuple[tuple[type[CorruptRecordError], str], ...] = (
    (
        TornBatchError,
        "; unless a broker is writing to it now, its last write was cut short, and a broker removes that "
        "at its next start",
    ),
    (ChecksumError, ", but these bytes are not those that were written: copy the file from another replica"),
    (CompressionError, ", but this batch was written by a faulty producer: other readers will stop here too"),
    (CorruptRecordError, ": copy the file from another replica, or cut it at that position"),
)


class UsageError(InvalidInputError):
    """A command was asked for what it cannot do."""


class UndecodableError(TidelogError):
    """Payloads are not what they were said to be."""


def explain(error: Exception) -> tuple[str, int]:
    """The sentence, with what to do next, and the exit code."""
    if isinstance(error, OSError):
        return _explain_os(error)
    if isinstance(error, CorruptRecordError):
        return f"{error}: {_hint(error)}", FOUND_WRONG
    return str(error), USAGE if isinstance(error, InvalidInputError) else FOUND_WRONG


def _hint(error: CorruptRecordError) -> str:
    if error.position == 0 and isinstance(error, (TornBatchError, UnknownMagicError)):
        return "it is not a log file, or its first write was cut short"
    advice = next(hint for kind, hint in _HINTS if isinstance(error, kind))
    return f"what comes before it in the file is sound{advice}"


def _explain_os(error: OSError) -> tuple[str, int]:
    name = error.filename
    what = error.strerror or str(error)
    sentence = f"{name}: {what}" if name is not None else what
    if error.errno == errno.EISDIR:
        return f"{sentence}: name the files in it, such as {str(name).rstrip('/')}/*.log", USAGE
    if error.errno == errno.ENOENT:
        return f"{sentence}: check the name", USAGE
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{sentence}: run as the user that Kafka runs as", USAGE
    if error.errno in _NO_SUCH_NAME or error.errno == errno.EEXIST:
        return sentence, USAGE
    return f"{sentence}: check the disk and the kernel's log", FOUND_WRONG
