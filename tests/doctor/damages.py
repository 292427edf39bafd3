"""Damages by name, each done to a small root (`harming`), and what is to be said of it.

`tracker` cites Kafka's issue tracker where the damage, or Kafka's code that meets it, is known from there:

    KAFKA-3919    offsets that go back after an unclean shutdown kept a broker from starting
    KAFKA-6264    a split of a segment that was cut short leaves .cleaned and .swap files
    KAFKA-7283    indexes below the recovery point are not checked at start
    KAFKA-10207   a time index with zeros at its end, which was never trimmed: retention deleted the segment
    KAFKA-10471   a crash while logs are loaded counts as an unclean shutdown
    KAFKA-14402   hanging transactions
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.doctor.harming import (
    append,
    beside,
    cut,
    edit,
    flip,
    future_times,
    hide,
    index,
    leave,
    log,
    noise,
    other_cluster,
    other_directory_id,
    overwrite,
    rename,
    repeat_batch,
    same_directory_id,
    second,
    small,
    split_segment,
    swap_segment,
    twin,
    write_line,
)
from tidelog.doctor import Kind, Severity

__all__ = ["DAMAGES", "Damage"]

CLEAN = ".kafka_cleanshutdown"
EPOCHS = "leader-epoch-checkpoint"
TOPIC_ID = "partition.metadata"
FATAL, LOSS, HURT, WARNING, NOTE = Severity


@dataclass(frozen=True)
class Damage:
    """What is done to a root, and what is to be said of it."""

    name: str
    kind: Kind
    severity: Severity
    make: Callable[[Path], object]
    partition: str = "golden-none-0"
    clean: bool = True
    two_disks: bool = False
    """Whether a second disk of the same broker is there: `<root>2`, with golden-multi-0."""
    starts: bool = True
    fixed: bool = True
    """Whether fix mends it, so that verify and doctor find nothing wrong."""
    tracker: str = ""


OTHER_ID = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEA"

DAMAGES = [
    # ---- logs
    Damage("torn-tail", Kind.TRUNCATION, LOSS, lambda root: cut(log(root), 100), clean=False),
    Damage(
        "noise-after-the-end", Kind.TRUNCATION, LOSS, lambda root: append(log(root), noise(900)), clean=False
    ),
    Damage(
        "zeros-after-the-end", Kind.TRUNCATION, LOSS, lambda root: append(log(root), bytes(4096)), clean=False
    ),
    Damage(
        "bit-flipped-past-the-recovery-point",
        Kind.TRUNCATION,
        LOSS,
        lambda root: (
            write_line(root, "recovery-point-offset-checkpoint", "golden-none 0 0"),
            flip(log(root, number=2), 900),
        ),
        clean=False,
    ),
    Damage(
        "offsets-go-back",
        Kind.TRUNCATION,
        LOSS,
        lambda root: (
            write_line(root, "recovery-point-offset-checkpoint", "golden-none 0 0"),
            repeat_batch(root),
        ),
        clean=False,
        tracker="KAFKA-3919",
    ),
    Damage("bit-flipped-in-a-safe-segment", Kind.BATCH, HURT, lambda root: flip(log(root, number=2), 5000)),
    Damage(
        "zeros-in-a-safe-segment",
        Kind.BATCH,
        HURT,
        lambda root: overwrite(log(root, number=2), 5000, bytes(600)),
    ),
    Damage(
        "noise-over-a-header", Kind.BATCH, HURT, lambda root: overwrite(log(root, number=2), 0, noise(64))
    ),
    Damage("safe-segment-cut", Kind.BATCH, HURT, lambda root: cut(log(root, number=1), 700)),
    Damage(
        "safe-segment-emptied",
        Kind.INDEX,
        HURT,
        lambda root: edit(log(root, number=1), lambda data: data.clear()),
    ),
    Damage("safe-segment-repeats-a-batch", Kind.BATCH, HURT, repeat_batch, tracker="KAFKA-3919"),
    Damage(
        "damage-below-the-recovery-point-with-its-index-gone",
        Kind.TRUNCATION,
        LOSS,
        lambda root: (flip(log(root, number=2), 5000), beside(log(root, number=2), ".index").unlink()),
        tracker="KAFKA-7283",
    ),
    # ---- indexes
    Damage("offset-index-missing", Kind.INDEX, HURT, lambda root: index(root).unlink()),
    Damage(
        "time-index-missing",
        Kind.INDEX,
        HURT,
        lambda root: index(root, ".timeindex").unlink(),
    ),
    Damage(
        "offset-index-cut-in-an-entry",
        Kind.INDEX,
        HURT,
        lambda root: cut(index(root), 3),
    ),
    Damage(
        "offset-index-is-noise",
        Kind.INDEX,
        HURT,
        lambda root: index(root).write_bytes(noise(40)),
        tracker="KAFKA-7283",
    ),
    Damage(
        "offset-index-of-another-segment",
        Kind.INDEX,
        HURT,
        lambda root: shutil.copy2(
            beside(log(root, "golden-outoforder-0", 0), ".index"),
            beside(log(root, "golden-outoforder-0", 1), ".index"),
        ),
        partition="golden-outoforder-0",
    ),
    Damage(
        "offset-index-never-trimmed",
        Kind.INDEX,
        HURT,
        lambda root: append(index(root), bytes(800)),
    ),
    Damage(
        "time-index-never-trimmed",
        Kind.INDEX,
        HURT,
        lambda root: append(index(root, ".timeindex", number=0), bytes(12 * 20)),
        tracker="KAFKA-10207",
    ),
    Damage(
        "time-index-cut-in-an-entry",
        Kind.INDEX,
        HURT,
        lambda root: cut(index(root, ".timeindex"), 5),
    ),
    Damage(
        "time-index-goes-back",
        Kind.INDEX,
        HURT,
        lambda root: overwrite(index(root, ".timeindex"), 12, bytes(8)),
    ),
    Damage(
        "transaction-index-missing",
        Kind.INDEX,
        HURT,
        lambda root: index(root, ".txnindex", "golden-txn-0").unlink(),
        partition="golden-txn-0",
    ),
    Damage(
        "transaction-index-of-another-version",
        Kind.UNREADABLE,
        FATAL,
        lambda root: overwrite(index(root, ".txnindex", "golden-txn-0"), 0, b"\7\0"),
        partition="golden-txn-0",
        starts=False,
    ),
    Damage(
        "transaction-index-of-a-version-that-kafka-overlooks",
        Kind.INDEX,
        HURT,
        lambda root: overwrite(index(root, ".txnindex", "golden-txn-0"), 0, b"\0\7"),
        partition="golden-txn-0",
    ),
    Damage(
        "transaction-index-cut-in-an-entry",
        Kind.INDEX,
        HURT,
        lambda root: cut(index(root, ".txnindex", "golden-txn-0"), 3),
        partition="golden-txn-0",
    ),
    Damage("index-without-a-log", Kind.LEFTOVER, NOTE, lambda root: log(root, number=0).unlink()),
    # ---- small files of a partition
    Damage(
        "producer-snapshot-damaged",
        Kind.SNAPSHOT,
        HURT,
        lambda root: flip(root / "golden-txn-0" / "00000000000000000369.snapshot", 20),
        partition="golden-txn-0",
    ),
    Damage(
        "last-producer-snapshot-empty",
        Kind.SNAPSHOT,
        HURT,
        lambda root: (root / "golden-txn-0" / "00000000000000001442.snapshot").write_bytes(b""),
        partition="golden-txn-0",
    ),
    Damage(
        "leader-epochs-are-noise",
        Kind.EPOCHS,
        FATAL,
        lambda root: small(root, EPOCHS).write_bytes(noise(30)),
        starts=False,
    ),
    Damage(
        "leader-epochs-with-a-bad-number",
        Kind.EPOCHS,
        FATAL,
        lambda root: small(root, EPOCHS).write_text("0\n1\nzero 0\n"),
        starts=False,
    ),
    Damage(
        "leader-epochs-of-a-wrong-count",
        Kind.EPOCHS,
        FATAL,
        lambda root: small(root, EPOCHS).write_text("0\n3\n0 0\n"),
        starts=False,
    ),
    Damage("leader-epochs-missing", Kind.EPOCHS, HURT, lambda root: small(root, EPOCHS).unlink()),
    Damage(
        "leader-epochs-forget-one",
        Kind.EPOCHS,
        HURT,
        lambda root: small(root, EPOCHS).write_text("0\n1\n0 0\n"),
    ),
    # ---- leftovers
    Damage("deleted-files", Kind.LEFTOVER, NOTE, lambda root: leave(root, ".deleted")),
    Damage("cleaned-files", Kind.LEFTOVER, NOTE, lambda root: leave(root, ".cleaned")),
    Damage("swap-files", Kind.LEFTOVER, NOTE, swap_segment),
    Damage("split-cut-short", Kind.LEFTOVER, NOTE, split_segment, tracker="KAFKA-6264"),
    Damage(
        "copy-of-a-log",
        Kind.SEGMENTS,
        FATAL,
        lambda root: small(root, "backup.log").write_bytes(b"mine"),
        starts=False,
    ),
    Damage(
        "copy-of-an-index",
        Kind.SEGMENTS,
        FATAL,
        lambda root: small(root, "backup.index").write_bytes(b"mine"),
        starts=False,
    ),
    Damage(
        "copy-of-a-snapshot",
        Kind.SEGMENTS,
        FATAL,
        lambda root: small(root, "backup.snapshot").write_bytes(b"mine"),
        starts=False,
    ),
    Damage(
        "cleaned-file-of-no-offset",
        Kind.SEGMENTS,
        FATAL,
        lambda root: small(root, "backup.log.cleaned").write_bytes(b"mine"),
        starts=False,
    ),
    Damage(
        "swap-file-of-no-offset",
        Kind.SEGMENTS,
        FATAL,
        lambda root: small(root, "backup.log.swap").write_bytes(b"mine"),
        starts=False,
    ),
    Damage(
        "log-with-a-short-name", Kind.SEGMENTS, HURT, lambda root: small(root, "5.log").write_bytes(b"mine")
    ),
    # ---- topic ids and directories
    Damage("topic-id-missing", Kind.TOPIC_ID, LOSS, lambda root: small(root, TOPIC_ID).unlink()),
    Damage(
        "topic-id-empty",
        Kind.TOPIC_ID,
        FATAL,
        lambda root: small(root, TOPIC_ID).write_bytes(b""),
        starts=False,
    ),
    Damage(
        "topic-id-is-noise",
        Kind.TOPIC_ID,
        FATAL,
        lambda root: small(root, TOPIC_ID).write_bytes(noise(43)),
        starts=False,
    ),
    Damage(
        "topic-made-again",
        Kind.STRAY,
        LOSS,
        lambda root: small(root, TOPIC_ID).write_text(OTHER_ID),
    ),
    Damage(
        "partition-of-no-topic",
        Kind.STRAY,
        LOSS,
        lambda root: (
            rename(root, "golden-none-0", "unknown-7"),
            (root / "unknown-7" / TOPIC_ID).write_text(OTHER_ID),
        ),
    ),
    Damage(
        "foreign-directory",
        Kind.FOREIGN,
        FATAL,
        lambda root: ((root / "backup").mkdir(), (root / "backup" / "notes.txt").write_text("hello")),
        starts=False,
    ),
    Damage(
        "foreign-directory-with-a-dash",
        Kind.FOREIGN,
        FATAL,
        lambda root: (root / "my-files").mkdir(),
        starts=False,
    ),
    Damage(
        "lost-and-found",
        Kind.FOREIGN,
        FATAL,
        lambda root: (root / "lost+found").mkdir(),
        starts=False,
        fixed=False,
    ),
    Damage(
        "partition-spelt-otherwise",
        Kind.FOREIGN,
        WARNING,
        lambda root: rename(root, "golden-none-0", "golden-none-00"),
        fixed=False,
    ),
    Damage(
        "partition-spelt-twice",
        Kind.FOREIGN,
        FATAL,
        lambda root: shutil.copytree(root / "golden-none-0", root / "golden-none-00"),
        starts=False,
        fixed=False,
    ),
    Damage(
        "marked-for-deletion",
        Kind.MARKED,
        NOTE,
        lambda root: rename(root, "golden-none-0", f"golden-none-0.{'a' * 32}-delete"),
    ),
    Damage(
        "marked-as-stray",
        Kind.MARKED,
        WARNING,
        lambda root: rename(root, "golden-none-0", f"golden-none-0.{'a' * 32}-stray"),
    ),
    Damage(
        "marked-as-future",
        Kind.MARKED,
        FATAL,
        lambda root: shutil.copytree(root / "golden-none-0", root / f"golden-none-0.{'a' * 32}-future"),
        starts=False,
    ),
    # ---- two disks
    Damage("partition-on-two-disks", Kind.DUPLICATE, FATAL, twin, two_disks=True, starts=False),
    Damage(
        "disk-of-another-cluster",
        Kind.IDENTITY,
        FATAL,
        other_cluster,
        two_disks=True,
        starts=False,
        fixed=False,
    ),
    Damage(
        "directory-id-twice",
        Kind.IDENTITY,
        FATAL,
        same_directory_id,
        two_disks=True,
        starts=False,
        fixed=False,
    ),
    Damage(
        "second-disk-without-identity",
        Kind.IDENTITY,
        FATAL,
        lambda root: (second(root) / "meta.properties").unlink(),
        two_disks=True,
        starts=False,
    ),
    Damage(
        "second-disk-with-a-bad-identity",
        Kind.IDENTITY,
        FATAL,
        lambda root: (second(root) / "meta.properties").write_text("version=1\n"),
        two_disks=True,
        starts=False,
    ),
    Damage(
        "metadata-log-on-two-disks",
        Kind.METADATA,
        FATAL,
        lambda root: shutil.copytree(root / "__cluster_metadata-0", second(root) / "__cluster_metadata-0"),
        two_disks=True,
        starts=False,
        fixed=False,
    ),
    Damage(
        "directory-id-changed",
        Kind.IDENTITY,
        LOSS,
        lambda root: other_directory_id(root),
        fixed=False,
    ),
    # ---- files of a root
    Damage(
        "identity-missing",
        Kind.IDENTITY,
        FATAL,
        lambda root: (root / "meta.properties").unlink(),
        starts=False,
        fixed=False,
    ),
    Damage(
        "recovery-points-are-noise",
        Kind.CHECKPOINT,
        FATAL,
        lambda root: (root / "recovery-point-offset-checkpoint").write_bytes(noise(60)),
        starts=False,
    ),
    Damage(
        "high-watermarks-cut",
        Kind.CHECKPOINT,
        FATAL,
        lambda root: cut(root / "replication-offset-checkpoint", 30),
        starts=False,
    ),
    Damage(
        "cleaner-offsets-of-a-wrong-count",
        Kind.CHECKPOINT,
        FATAL,
        lambda root: (root / "cleaner-offset-checkpoint").write_text("0\n9\ngolden-none 0 5\n"),
        starts=False,
    ),
    Damage(
        "log-start-below-zero",
        Kind.CHECKPOINT,
        HURT,
        lambda root: write_line(root, "log-start-offset-checkpoint", "golden-none 0 -5"),
    ),
    Damage(
        "high-watermark-past-the-end",
        Kind.CHECKPOINT,
        WARNING,
        lambda root: write_line(root, "replication-offset-checkpoint", "golden-none 0 9999999"),
    ),
    Damage(
        "log-start-past-the-end",
        Kind.EMPTIED,
        LOSS,
        lambda root: write_line(root, "log-start-offset-checkpoint", "golden-none 0 9999999"),
    ),
    Damage(
        "journal-is-noise", Kind.JOURNAL, HURT, lambda root: (root / "tidelog-journal").write_bytes(noise(80))
    ),
    Damage(
        "quorum-state-cut",
        Kind.METADATA,
        FATAL,
        lambda root: (root / "__cluster_metadata-0" / "quorum-state").write_text('{"leaderId":'),
        starts=False,
    ),
    Damage(
        "quorum-state-without-fields",
        Kind.METADATA,
        FATAL,
        lambda root: (root / "__cluster_metadata-0" / "quorum-state").write_text("{}"),
        starts=False,
    ),
    Damage(
        "quorum-state-is-a-list",
        Kind.METADATA,
        FATAL,
        lambda root: (root / "__cluster_metadata-0" / "quorum-state").write_text("[]"),
        starts=False,
    ),
    Damage(
        "quorum-state-of-another-version",
        Kind.METADATA,
        FATAL,
        lambda root: edit(
            root / "__cluster_metadata-0" / "quorum-state",
            lambda data: data.__setitem__(
                slice(None), data.replace(b'"data_version":0', b'"data_version":9')
            ),
        ),
        starts=False,
    ),
    Damage(
        "bootstrap-checkpoint-cut",
        Kind.METADATA,
        WARNING,
        lambda root: cut(root / "bootstrap.checkpoint", 40),
    ),
    Damage(
        "metadata-log-torn",
        Kind.TRUNCATION,
        LOSS,
        lambda root: cut(log(root, "__cluster_metadata-0"), 60),
    ),
    Damage(
        "log-nobody-may-read",
        Kind.PERMISSION,
        WARNING if os.geteuid() == 0 else FATAL,
        lambda root: hide(log(root, number=1)),
        starts=os.geteuid() == 0,
    ),
    Damage("unclean-shutdown", Kind.UNCLEAN, WARNING, lambda root: None, clean=False, tracker="KAFKA-10471"),
    # ---- nothing is broken, but a broker does what may surprise
    Damage(
        "hanging-transaction",
        Kind.TRANSACTION,
        WARNING,
        lambda root: None,
        partition="golden-txn-0",
        tracker="KAFKA-14402",
    ),
    Damage("timestamps-in-the-future", Kind.FUTURE, NOTE, future_times, partition="golden-multi-0"),
]
