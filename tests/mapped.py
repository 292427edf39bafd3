"""How much of a mapped file counts as memory of this process."""

from __future__ import annotations

from pathlib import Path

__all__ = ["resident_bytes"]


def resident_bytes(path: Path) -> int:
    """The bytes of all mappings of a file that are in this process's memory now."""
    after_each = Path("/proc/self/smaps").read_text().split(f"{path}\n")[1:]
    return sum(int(part.split("Rss:")[1].split()[0]) << 10 for part in after_each)
