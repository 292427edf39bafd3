"""Which partition of a coordinator's topic a group or a transactional id belongs to."""

from __future__ import annotations

__all__ = ["java_hash", "partition_for"]


def java_hash(text: str) -> int:
    """What Java's `String.hashCode` answers."""
    units = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for at in range(0, len(units), 2):
        total = (31 * total + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return total - (1 << 32) if total & 0x80000000 else total


def partition_for(name: str, partitions: int) -> int:
    """The partition of a name, as Kafka chooses it."""
    found = java_hash(name)
    return 0 if found == -(1 << 31) else abs(found) % partitions
