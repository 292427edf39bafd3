"""The names of all commands, by the task that they are for, and what each does in a few words.

`tidelog --help` prints this table. No command is imported for it.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COMMANDS", "TASKS"]

TASKS: Mapping[str, Mapping[str, str]] = {
    "Look": {
        "ls": "List partitions: size, offsets, time span, health.",
        "describe": "Draw one partition: segments, indexes, gaps.",
        "topics": "List, describe, create or delete topics.",
        "groups": "List consumer groups with offsets and lag.",
        "transactions": "List open, hanging and aborted transactions.",
        "profile": "Count records, bytes, keys and codecs by hour.",
        "report": "Draw roots or partitions as one HTML page.",
        "ui": "Show roots in a browser, live and read-only.",
    },
    "Read records": {
        "cat": "Print records, as text, JSON or hex.",
        "tail": "Print the last records; -f follows.",
        "search": "Find records in many partitions.",
        "find": "Look up offsets and timestamps.",
        "dump": "Print files of every kind, as kafka-dump-log.",
    },
    "Check and repair": {
        "doctor": "Say what stock Kafka would do with these disks.",
        "fix": "Plan, apply and undo repairs.",
        "verify": "Check every file; change nothing.",
        "recover": "Recover logs after a crash, as Kafka does.",
        "reindex": "Rebuild indexes from the log.",
        "salvage": "Copy all sound batches to a new root.",
        "reconcile": "Merge the copies of replicas into one log.",
        "tidy": "Rename directories without a topic to -stray.",
        "unstray": "Give -stray directories their names back.",
    },
    "Change": {
        "append": "Append text lines, JSON lines or Parquet.",
        "config": "Show or change the configuration of topics.",
        "trim": "Delete the oldest records.",
        "retention": "Delete segments that are too old or too many.",
        "compact": "Keep the last value of every key.",
        "rewrite": "Erase, redact, recompress; offsets stay.",
    },
    "Move data": {
        "export": "Export topics to Parquet, Delta or Iceberg.",
        "ingest": "Write files or tables to topics, exactly once.",
        "pipeline": "Run ingest, compact, export and other steps.",
        "copy": "Copy a partition, as a follower does.",
        "move": "Move a partition between roots of one node.",
        "adopt": "Take a topic of another cluster into a root.",
    },
    "Serve": {
        "serve": "Serve roots as one Kafka broker.",
        "completion": "Print a shell's completion script.",
    },
}
"""What each command does, in at most 48 characters: a line of 80 columns has room for it."""

COMMANDS = frozenset(name for commands in TASKS.values() for name in commands)
"""All commands; each is in the module of its name under `commands`."""
