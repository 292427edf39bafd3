"""Roots for tests of the report: many partitions, and names that mean harm."""

from __future__ import annotations

from pathlib import Path

from tidelog.testing.builders import LogBuilder

__all__ = ["HOSTILE", "make_many"]

HOSTILE = (
    "</script><script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed = 2'>",
    "\u202edlrow\u202c \u200f{b}{c|d} \x1b[31mred",
)


def make_many(root: Path, partitions: int, segments: int) -> Path:
    """A root of so many partitions, all links to the files of one."""
    builder = LogBuilder(root.parent / "seed-0")
    for _ in range(segments):
        builder.records(200, per_batch=20).roll()
    files = sorted(builder.close().iterdir())
    for number in range(partitions):
        directory = root / f"topic-{number // 20:03d}-{number % 20}"
        directory.mkdir(parents=True)
        for file in files:
            (directory / file.name).hardlink_to(file)
    return root
