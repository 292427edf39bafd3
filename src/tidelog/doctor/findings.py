"""What an examination finds, and what it comes to for each partition and root."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

__all__ = ["Finding", "Kind", "PartitionVerdict", "RootVerdict", "Severity", "counted"]


class Severity(enum.Enum):
    """How bad it is, the worst first."""

    FATAL = "fatal"
    """A stock broker does not start, or takes the disk offline."""
    LOSS = "loss"
    """A stock broker cuts off, deletes or hides records that are there now."""
    DAMAGE = "damage"
    """Something is broken that a stock broker does not notice or does not mend."""
    WARNING = "warning"
    """Worth a look: it works, but not as somebody may expect."""
    NOTE = "note"
    """Worth knowing; nothing needs to be done."""

    @property
    def is_wrong(self) -> bool:
        """Whether it makes the exit code 1."""
        return self in (Severity.FATAL, Severity.LOSS, Severity.DAMAGE)


class Kind(enum.Enum):
    """What it is about; docs/doctor.md describes each."""

    IN_USE = "in-use"
    UNCLEAN = "unclean-shutdown"
    IDENTITY = "identity"
    FOREIGN = "foreign-directory"
    LINK = "link"
    MARKED = "marked-directory"
    STRAY = "stray"
    MISSING = "missing-partition"
    DUPLICATE = "duplicate-partition"
    METADATA = "metadata"
    CHECKPOINT = "checkpoint"
    JOURNAL = "journal"
    PERMISSION = "permission"
    KEPT_ASIDE = "kept-aside"
    TOPIC_ID = "topic-id"
    UNREADABLE = "unreadable"
    TRUNCATION = "truncation"
    EMPTIED = "emptied"
    BATCH = "bad-batch"
    INDEX = "index"
    SNAPSHOT = "producer-snapshot"
    EPOCHS = "leader-epochs"
    LEFTOVER = "leftover"
    SEGMENTS = "segments"
    RETENTION = "retention"
    TRANSACTION = "open-transaction"
    FUTURE = "future-timestamp"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be, and what becomes of it."""

    severity: Severity
    kind: Kind
    file: str
    cause: str
    """What is found."""
    kafka: str
    """What a stock broker does with it."""
    advice: str
    """What to do."""
    position: int | None = None
    """The byte position in the file."""
    offset: int | None = None
    """The first offset that is affected."""
    end_offset: int | None = None
    """The first offset that is not affected any more; None: all from there on, or not known."""


@dataclass(slots=True)
class PartitionVerdict:
    """What a stock broker makes of a partition's directory."""

    path: str
    partition: str
    verdict: str = ""
    size_bytes: int = 0
    recovery_bytes: int = 0
    """What its recovery reads."""
    log_start_offset: int | None = None
    """Where the log starts when it is loaded; None if it is not."""
    log_end_offset: int | None = None
    last_stable_offset: int | None = None
    findings: list[Finding] = field(default_factory=list)


@dataclass(slots=True)
class RootVerdict:
    """What a stock broker makes of a root."""

    path: str
    starts: bool = True
    verdict: str = ""
    partitions: int = 0
    size_bytes: int = 0
    recovery_bytes: int = 0
    recovery_seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    """Those about the root itself; a partition's are with its verdict."""


def counted(number: int, noun: str) -> str:
    """`1 segment`, `2 segments`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
