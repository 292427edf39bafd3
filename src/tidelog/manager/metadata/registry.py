"""The metadata of a store: read when it is opened, changed as its topics change.

    no metadata log yet     `bootstrap.checkpoint` is replaced whole
    a metadata log          one batch is appended to it, in the epoch of its last one, and synced

Either way a change is there wholly or not at all. A metadata log that several voters share is not ours to
append to; neither is one that ends inside a transaction or in damage. A change that fails is undone: it may
have reached the file, though not the disk.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence

from tidelog.errors import LogError, TidelogError
from tidelog.log import Log
from tidelog.manager.metadata.files import (
    BOOTSTRAP_FILE,
    METADATA_DIRECTORY,
    ClusterMetadata,
    encode_records_batch,
    read_bootstrap,
    read_cluster_metadata,
    write_bootstrap,
)
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.metadata.registration import Registration, bootstrap, changes
from tidelog.protocol.metadata_records import MetadataRecord
from tidelog.storage import FileSystem, read_file
from tidelog.storage.atomic import atomic_write

__all__ = ["Registry"]

_QUORUM_STATE = "quorum-state"


class Registry:
    """Which topics there are, as a broker will be told."""

    def __init__(self, fs: FileSystem, root: str, node_id: int, now_ms: Callable[[], int]) -> None:
        """Read what the metadata files of `root` say; nothing is changed."""
        self._fs = fs
        self._root = root
        self._node_id = node_id
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self.on_torn: Callable[[Exception], None] = lambda error: None
        """Called where a change failed and could not be undone: nobody knows then what is registered."""
        self._found: ClusterMetadata = read_cluster_metadata(fs, root)

    @property
    def image(self) -> MetadataImage:
        """What is known now."""
        return self._found.image

    @property
    def is_new(self) -> bool:
        """Whether there is no metadata at all: nobody has said yet what belongs here."""
        return not self._found.in_log and not self._fs.exists(f"{self._root}/{BOOTSTRAP_FILE}")

    @property
    def in_log(self) -> bool:
        """Whether a broker has begun a metadata log."""
        return self._found.in_log

    def check_writable(self) -> None:
        """LogError if the metadata cannot be changed here, and why."""
        if self._found.in_log:
            self._check_ours(f"{self._root}/{METADATA_DIRECTORY}")

    def register(
        self,
        topics: Iterable[Registration] = (),
        *,
        removed: Collection[uuid.UUID] = (),
        largest_producer_id: int = -1,
    ) -> bool:
        """Make the metadata say this too, durably; False if it does already."""
        with self._lock:
            records = changes(
                self.image,
                topics,
                node_id=self._node_id,
                removed=removed,
                largest_producer_id=largest_producer_id,
            )
            if not records and not self.is_new:
                return False
            self.check_writable()
            before = None if self._found.in_log else self._bootstrap_bytes()
            try:
                if self._found.in_log:
                    self._append(records)
                else:
                    whole = bootstrap(read_bootstrap(self._fs, self._root), records, node_id=self._node_id)
                    write_bootstrap(self._fs, self._root, whole, timestamp_ms=self._now_ms())
            except (OSError, TidelogError) as error:
                self._restore(before, error)
                raise
            self._found = read_cluster_metadata(self._fs, self._root)
            return True

    def _bootstrap_bytes(self) -> bytes | None:
        try:
            return read_file(self._fs, f"{self._root}/{BOOTSTRAP_FILE}")
        except FileNotFoundError:
            return None

    def _restore(self, before: bytes | None, error: Exception) -> None:
        """Have the metadata say what it said before a change failed: it may be there, without its sync.

        The store goes on with the topics that it had.
        """
        path = f"{self._root}/{METADATA_DIRECTORY if self._found.in_log else BOOTSTRAP_FILE}"
        try:
            if self._found.in_log:
                if read_cluster_metadata(self._fs, self._root).end_offset != self._found.end_offset:
                    with self._open_log() as log:
                        log.truncate_to(self._found.end_offset)
                        log.flush()
            elif (now := self._bootstrap_bytes()) == before:
                return
            elif before is not None:
                atomic_write(self._fs, path, before)
            elif now is not None:
                self._fs.unlink(path)
                self._fs.sync_directory(self._root)
        except (OSError, TidelogError) as second:
            error.add_note(f"{path} could not be restored ({second}): what is registered is not known")
            self.on_torn(error)

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        """Append a batch to the metadata log and sync it."""
        directory, found = f"{self._root}/{METADATA_DIRECTORY}", self._found
        data = encode_records_batch(
            records,
            base_offset=found.end_offset,
            leader_epoch=found.leader_epoch,
            timestamp_ms=self._now_ms(),
        )
        with self._open_log() as log:
            if log.log_end_offset != found.end_offset:
                raise LogError(
                    f"{directory} ends at {log.log_end_offset}, but its records at {found.end_offset}: "
                    "start its broker once to repair it"
                )
            log.append_as_follower(data)
            log.flush()

    def _open_log(self) -> Log:
        """Always recovered, as a broker does with its metadata log: no clean-shutdown file speaks for it."""
        directory, known = f"{self._root}/{METADATA_DIRECTORY}", self._found.end_offset
        return Log.open(directory, fs=self._fs, recovery_point=known, now_ms=self._now_ms)

    def _check_ours(self, directory: str) -> None:
        found = self._found
        if found.fault is not None:
            raise LogError(f"{directory} is damaged ({found.fault}): start its broker once to repair it")
        if found.image.in_transaction:
            raise LogError(f"{directory} ends inside a transaction: start its broker once to repair it")
        voters = found.voters or _voters(self._fs, f"{directory}/{_QUORUM_STATE}")
        if voters and set(voters) != {self._node_id}:
            raise LogError(
                f"{directory} is shared by the voters {sorted(voters)}: topics of a cluster are changed "
                "through its brokers"
            )


def _voters(fs: FileSystem, path: str) -> tuple[int, ...]:
    """The voters that a quorum-state file names; none if it is missing or names none."""
    try:
        state = json.loads(read_file(fs, path))
        return tuple(int(voter["voterId"]) for voter in state.get("currentVoters") or ())
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
