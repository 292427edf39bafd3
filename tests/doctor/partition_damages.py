"""Damages to the files of one partition: logs, indexes, snapshots, leader epochs, leftovers."""

from __future__ import annotations

import os
import shutil

from tests.doctor.damage import FATAL, HURT, LOSS, NOTE, WARNING, Damage
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
    overwrite,
    repeat_batch,
    small,
    split_segment,
    swap_segment,
    write_line,
)
from tidelog.doctor import Kind
from tidelog.storage.names import LEADER_EPOCH_FILE

__all__ = ["PARTITION_DAMAGES"]

PARTITION_DAMAGES = [
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
        lambda root: small(root, LEADER_EPOCH_FILE).write_bytes(noise(30)),
        starts=False,
    ),
    Damage(
        "leader-epochs-with-a-bad-number",
        Kind.EPOCHS,
        FATAL,
        lambda root: small(root, LEADER_EPOCH_FILE).write_text("0\n1\nzero 0\n"),
        starts=False,
    ),
    Damage(
        "leader-epochs-of-a-wrong-count",
        Kind.EPOCHS,
        FATAL,
        lambda root: small(root, LEADER_EPOCH_FILE).write_text("0\n3\n0 0\n"),
        starts=False,
    ),
    Damage("leader-epochs-missing", Kind.EPOCHS, HURT, lambda root: small(root, LEADER_EPOCH_FILE).unlink()),
    Damage(
        "leader-epochs-forget-one",
        Kind.EPOCHS,
        HURT,
        lambda root: small(root, LEADER_EPOCH_FILE).write_text("0\n1\n0 0\n"),
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
    # ---- permissions
    Damage(
        "log-nobody-may-read",
        Kind.PERMISSION,
        WARNING if os.geteuid() == 0 else FATAL,
        lambda root: hide(log(root, number=1)),
        starts=os.geteuid() == 0,
    ),
    Damage(
        "directory-nobody-may-write",
        Kind.PERMISSION,
        WARNING if os.geteuid() == 0 else FATAL,
        lambda root: (root / "golden-none-0").chmod(0o555),
        starts=os.geteuid() == 0,
    ),
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
