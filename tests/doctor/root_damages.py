"""Damages around the files of partitions: ids, directories, other disks, checkpoints, metadata."""

from __future__ import annotations

import shutil

from tests.doctor.damage import FATAL, HURT, LOSS, NOTE, WARNING, Damage
from tests.doctor.harming import (
    cut,
    edit,
    log,
    noise,
    other_cluster,
    other_directory_id,
    rename,
    same_directory_id,
    second,
    small,
    twin,
    write_line,
)
from tidelog.doctor import Kind
from tidelog.storage.names import PARTITION_METADATA_FILE

__all__ = ["ROOT_DAMAGES"]

OTHER_ID = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEA"

ROOT_DAMAGES = [
    # ---- topic ids and directories
    Damage(
        "topic-id-missing", Kind.TOPIC_ID, LOSS, lambda root: small(root, PARTITION_METADATA_FILE).unlink()
    ),
    Damage(
        "topic-id-empty",
        Kind.TOPIC_ID,
        FATAL,
        lambda root: small(root, PARTITION_METADATA_FILE).write_bytes(b""),
        starts=False,
    ),
    Damage(
        "topic-id-is-noise",
        Kind.TOPIC_ID,
        FATAL,
        lambda root: small(root, PARTITION_METADATA_FILE).write_bytes(noise(43)),
        starts=False,
    ),
    Damage(
        "topic-made-again",
        Kind.STRAY,
        LOSS,
        lambda root: small(root, PARTITION_METADATA_FILE).write_text(OTHER_ID),
    ),
    Damage(
        "partition-of-no-topic",
        Kind.STRAY,
        LOSS,
        lambda root: (
            rename(root, "golden-none-0", "unknown-7"),
            (root / "unknown-7" / PARTITION_METADATA_FILE).write_text(OTHER_ID),
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
    Damage("unclean-shutdown", Kind.UNCLEAN, WARNING, lambda root: None, clean=False, tracker="KAFKA-10471"),
]
