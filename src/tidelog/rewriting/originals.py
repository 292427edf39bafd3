"""The originals of a rewrite in the quarantine (`doctor.quarantine`), so that it can be undone.

Before anything is swapped, the manifest of the run names every file that may change, be made or be left by a
crash on the way, and says what the logs will be. Then the logs are linked into the quarantine, and the small
files, which an open log changes in place, are copied.

The erased records stay there until the quarantine is emptied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.doctor.applying import file_state, state_of
from tidelog.doctor.plans import Act
from tidelog.doctor.quarantine import Kept, Manifest, RunState, place_for, write_manifest
from tidelog.rewriting.partitions import PartitionPlan
from tidelog.rewriting.segments import SegmentDone
from tidelog.storage import CANNOT_LINK, FileSystem, atomic_write, read_file
from tidelog.storage.attributes import read_attributes
from tidelog.storage.files import make_directories, parent
from tidelog.storage.names import (
    LEADER_EPOCH_FILE,
    SEGMENT_FILES,
    FileKind,
    Transient,
    format_segment_file,
    parse_segment_file,
)

__all__ = ["finish_run", "keep_originals"]

_CHUNK = 8 << 20


def keep_originals(
    fs: FileSystem, root: str, run: str, changes: Sequence[tuple[PartitionPlan, Sequence[SegmentDone]]]
) -> Manifest:
    """Keep what the swap of `changes` replaces; the manifest of the run, which is being applied."""
    manifest = Manifest(root, run, RunState.APPLYING, [], {"": read_attributes(fs, root)})
    for plan, done in changes:
        name = plan.path.rpartition("/")[2]
        manifest.directories[name] = read_attributes(fs, plan.path)
        for file in _files(fs, plan, done):
            path = f"{name}/{file}"
            before = read_attributes(fs, f"{root}/{path}") if fs.exists(f"{root}/{path}") else None
            place = place_for(root, path, run, len(manifest.kept))
            manifest.kept.append(Kept(Act.WRITE, path, place, before))
        for one in done:
            if one.staged is not None:
                log = format_segment_file(one.base_offset, FileKind.LOG)
                made = format_segment_file(one.base_offset, FileKind.LOG, Transient.CLEANED)
                manifest.after[f"{name}/{log}"] = file_state(fs, f"{one.staged}/{made}")
        if fs.exists(f"{plan.path}/{LEADER_EPOCH_FILE}"):  # the swap leaves them as they are
            manifest.after[f"{name}/{LEADER_EPOCH_FILE}"] = file_state(fs, f"{plan.path}/{LEADER_EPOCH_FILE}")
        if any(one.base_offset == plan.active_base_offset and one.staged is not None for one in done):
            manifest.after[f"{name}/{format_segment_file(plan.log_end_offset, FileKind.LOG)}"] = state_of(b"")
    write_manifest(fs, manifest)
    for kept in manifest.kept:
        if kept.before is not None:
            _keep(fs, manifest.at(kept.path), manifest.at(kept.place))
    for directory in {parent(manifest.at(one.place)) for one in manifest.kept if one.before is not None}:
        fs.sync_directory(directory)
    return manifest


def _files(fs: FileSystem, plan: PartitionPlan, done: Sequence[SegmentDone]) -> Iterator[str]:
    """The names in a partition's directory that the swap may touch or leave."""
    changed = [one.base_offset for one in done if one.staged is not None]
    for base_offset in changed:
        for kind in SEGMENT_FILES:
            for transient in (Transient.CLEANED, Transient.SWAP, Transient.DELETED, Transient.NONE):
                yield format_segment_file(base_offset, kind, transient)
    if plan.active_base_offset in changed:
        for kind in SEGMENT_FILES:
            yield format_segment_file(plan.log_end_offset, kind)
    names = {entry.name for entry in fs.list(plan.path)}
    parsed = {name: parse_segment_file(name) for name in sorted(names)}
    snapshots = [name for name, file in parsed.items() if file is not None and file.kind is FileKind.SNAPSHOT]
    bases = [file.offset for file in parsed.values() if file is not None and file.kind is FileKind.LOG]
    made = (format_segment_file(offset, FileKind.SNAPSHOT) for offset in (*bases, plan.log_end_offset))
    yield from sorted({*snapshots, *made})  # an open log makes those that are missing
    yield LEADER_EPOCH_FILE


def _keep(fs: FileSystem, path: str, place: str) -> None:
    make_directories(fs, parent(place))
    if path.endswith(FileKind.LOG.value):
        try:
            fs.link(path, place)
        except OSError as error:
            if error.errno not in CANNOT_LINK:
                raise
            _copy(fs, path, place)
    else:
        atomic_write(fs, place, read_file(fs, path))


def _copy(fs: FileSystem, path: str, place: str) -> None:
    """Where there are no links: a copy on the disk, whole or not at all."""
    source, target = fs.open(path), fs.open(f"{place}.part", create=True)
    try:
        target.truncate(0)
        for start in range(0, source.size(), _CHUNK):
            target.pwrite(source.pread(_CHUNK, start), start)
        target.sync()
    finally:
        source.close()
        target.close()
    fs.rename(f"{place}.part", place)


def finish_run(fs: FileSystem, manifest: Manifest) -> None:
    """All is swapped. What the logs are then is noted already; other files can be made from them."""
    manifest.state = RunState.APPLIED
    write_manifest(fs, manifest)
