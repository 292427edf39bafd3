"""Carrying out a plan, undoing it, and emptying the quarantine; all can be repeated after a crash.

Apply, for each root, under its lock:

1. The manifest says what will change, where what is there now will be kept, and how it was.
2. A clean-shutdown file goes first and comes back last: a crash in between is a crash.
3. Each change keeps first, then changes: a file that is removed or replaced is moved or linked into the
   quarantine, of one that is cut the tail is copied. Every step is synced.
4. The manifest says `applied`, with the state of every file that was left.

Undo goes backwards through the manifest, and does for each entry what is still to do, by what is there. So a
repair that was killed at any point is undone the same way, and so is an undo.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tidelog.doctor.plans import Act, Action
from tidelog.doctor.quarantine import (
    QUARANTINE,
    Kept,
    Manifest,
    RunState,
    check_links,
    directories_of,
    place_for,
    write_manifest,
)
from tidelog.errors import LogError
from tidelog.storage import FileSystem, atomic_write, read_file
from tidelog.storage.attributes import Attributes, read_attributes, restore_attributes
from tidelog.storage.files import make_directories, parent
from tidelog.storage.names import CLEAN_SHUTDOWN_FILE, FileKind

__all__ = [
    "apply_actions",
    "changed_since",
    "check_unchanged",
    "empty",
    "file_state",
    "log_sizes",
    "state_of",
    "undo",
]

_CHUNK = 8 << 20
_END = 1 << 20


def apply_actions(fs: FileSystem, root: str, actions: Iterable[Action], run: str) -> Manifest:
    """Carry out the changes of one root, which the caller holds; the manifest of what was done."""
    todo = _framed(fs, root, list(actions))
    manifest = Manifest(root, run, RunState.APPLYING, [], {"": read_attributes(fs, root)})
    renamed: dict[str, str] = {}
    for number, action in enumerate(todo):
        manifest.kept.append(_kept(fs, root, run, number, action, renamed))
    for one in manifest.kept:
        for path in (one.path, one.target):
            above = parent(path) if "/" in path else ""
            if path and not above.startswith("..") and fs.exists(manifest.at(above)):
                manifest.directories.setdefault(above, read_attributes(fs, manifest.at(above)))
        if one.act is Act.MODE and one.before is not None and fs.stat(manifest.at(one.path)).is_directory:
            manifest.directories.setdefault(one.path, one.before)
    write_manifest(fs, manifest)
    for action, one in zip(todo, manifest.kept, strict=True):
        _DO[one.act](fs, manifest, one, action)
    for one in manifest.kept:
        path = one.target or one.path
        if fs.exists(manifest.at(path)) and not fs.stat(manifest.at(path)).is_directory:
            manifest.after[path] = file_state(fs, manifest.at(path))
    for directory in {parent(one.target or one.path) for one in manifest.kept if "/" in one.path}:
        if not directory.startswith("..") and fs.exists(manifest.at(directory)):
            manifest.logs[directory] = log_sizes(fs, manifest.at(directory))
    manifest.state = RunState.APPLIED
    write_manifest(fs, manifest)
    return manifest


def _framed(fs: FileSystem, root: str, actions: Sequence[Action]) -> list[Action]:
    """The changes between taking the clean-shutdown file away and putting it back.

    What is to be done with that file itself waits until it is back; a directory of its name is none.
    """
    marker = f"{root}/{CLEAN_SHUTDOWN_FILE}"
    if not fs.exists(marker) or fs.stat(marker).is_directory:
        return list(actions)
    data = read_file(fs, marker)
    own = [action for action in actions if action.path == marker]
    others = [action for action in actions if action.path != marker]
    return [Action(Act.REMOVE, marker), *others, Action(Act.WRITE, marker, len(data), data), *own]


def _kept(fs: FileSystem, root: str, run: str, number: int, action: Action, renamed: dict[str, str]) -> Kept:
    path = _below(root, action.path)
    now = renamed.get(action.path, action.path)
    was = read_attributes(fs, now) if fs.exists(now) else None
    if action.act is Act.WRITE and action.path.endswith(CLEAN_SHUTDOWN_FILE):
        was = None  # by then it is away
    one = Kept(action.act, path, place_for(root, path, run, number), was, action.size)
    if action.act is Act.RENAME:
        renamed[action.target] = action.path
        one.target = _below(root, action.target)
        one.place = place_for(root, one.target, run, number)
        one.target_before = read_attributes(fs, action.target) if fs.exists(action.target) else None
        if one.target_before is None:
            one.place = ""
    return one


def _below(root: str, path: str) -> str:
    """A path from the root on, empty for the root; what lies beside the root begins with `..`."""
    if path == root:
        return ""
    if path.startswith(f"{root}/"):
        return path[len(root) + 1 :]
    return f"../{path[len(parent(root).rstrip('/')) + 1 :]}"


def file_state(fs: FileSystem, path: str) -> tuple[int, int]:
    """A file's size, and a digest of its two ends: times need not survive a power cut."""
    file = fs.open(path)
    try:
        size = file.size()
        return _state(size, file.pread(min(size, _END), 0), file.pread(_END, max(size - _END, 0)))
    finally:
        file.close()


def log_sizes(fs: FileSystem, directory: str) -> dict[str, int]:
    """The logs of a partition, and how large they are."""
    names = [entry.name for entry in fs.list(directory) if not entry.is_directory]
    return {name: fs.stat(f"{directory}/{name}").size for name in names if name.endswith(FileKind.LOG.value)}


def state_of(data: bytes) -> tuple[int, int]:
    """The state of a file that holds these bytes."""
    return _state(len(data), data[:_END], data[-_END:])


def _state(size: int, start: bytes, end: bytes) -> tuple[int, int]:
    return size, int.from_bytes(hashlib.sha256(start + end).digest()[:7], "big")


# ---- doing


def _make_place(fs: FileSystem, manifest: Manifest, one: Kept) -> str:
    place = manifest.at(one.place)
    if parent(place) != manifest.root:
        make_directories(fs, parent(place))
    return place


def _cut(fs: FileSystem, manifest: Manifest, one: Kept, action: Action) -> None:
    path = manifest.at(one.path)
    file = fs.open(path, writable=True)
    try:
        size = file.size()
        if size <= one.size:
            return
        place = _make_place(fs, manifest, one)
        part = f"{place}.part"
        tail = fs.open(part, create=True)
        try:
            tail.truncate(0)
            for start in range(one.size, size, _CHUNK):
                tail.pwrite(file.pread(min(_CHUNK, size - start), start), start - one.size)
            tail.sync()
        finally:
            tail.close()
        fs.rename(part, place)
        fs.sync_directory(parent(place))
        file.truncate(one.size)
        file.sync()
    finally:
        file.close()


def _write(fs: FileSystem, manifest: Manifest, one: Kept, action: Action) -> None:
    path = manifest.at(one.path)
    place = _make_place(fs, manifest, one)
    above = read_attributes(fs, parent(path))
    mode = Attributes(0o644, above.uid, above.gid, 0)
    if one.before is not None:
        mode = read_attributes(fs, path)  # an earlier step may have changed the permissions
        fs.link(path, place)
        fs.sync_directory(parent(place))
    atomic_write(fs, path, action.data, temporary=f"{place}.new")
    restore_attributes(fs, path, replace(mode, mtime_ns=read_attributes(fs, path).mtime_ns))


def _remove(fs: FileSystem, manifest: Manifest, one: Kept, action: Action) -> None:
    place = _make_place(fs, manifest, one)
    _move(fs, manifest.at(one.path), place)


def _rename(fs: FileSystem, manifest: Manifest, one: Kept, action: Action) -> None:
    target = manifest.at(one.target)
    if one.target_before is not None:
        _move(fs, target, _make_place(fs, manifest, one))
    make_directories(fs, parent(target))
    _move(fs, manifest.at(one.path), target)


def _mode(fs: FileSystem, manifest: Manifest, one: Kept, action: Action) -> None:
    assert one.before is not None
    restore_attributes(fs, manifest.at(one.path), replace(one.before, mode=action.mode))


def _move(fs: FileSystem, source: str, target: str) -> None:
    fs.rename(source, target)
    fs.sync_directory(parent(target))
    if parent(source) != parent(target):
        fs.sync_directory(parent(source))


_DO: dict[Act, Callable[[FileSystem, Manifest, Kept, Action], None]] = {
    Act.CUT: _cut,
    Act.WRITE: _write,
    Act.REMOVE: _remove,
    Act.RENAME: _rename,
    Act.MODE: _mode,
}


# ---- undoing


def changed_since(fs: FileSystem, manifest: Manifest) -> list[str]:
    """The files that are not as the repair left them; none where it was not finished.

    A rewrite says beforehand what it leaves (`after`): then a file is as it was before, or so.
    """
    if manifest.state is RunState.APPLYING:
        return [manifest.at(one.path) for one in manifest.kept if _is_another(fs, manifest, one)]
    if manifest.state is not RunState.APPLIED:
        return []
    found = []
    for path, state in manifest.after.items():
        full = manifest.at(path)
        if not fs.exists(full) or file_state(fs, full) != state:
            found.append(full)
    removed = [one for one in manifest.kept if one.act is Act.REMOVE and one.path not in manifest.after]
    found += [manifest.at(one.path) for one in removed if fs.exists(manifest.at(one.path))]
    return list(dict.fromkeys([*found, *_written_since(fs, manifest)]))


def _written_since(fs: FileSystem, manifest: Manifest) -> Iterator[str]:
    """Logs beside those of the repair that were made, written or removed: by a broker, it may be, that has
    given out the offsets anew that come back.
    """
    for directory, before in manifest.logs.items():
        full = manifest.at(directory)
        now = log_sizes(fs, full) if fs.exists(full) else {}
        for name in sorted({*before, *now}):
            if before.get(name) != now.get(name):
                yield f"{full}/{name}"


def _is_another(fs: FileSystem, manifest: Manifest, one: Kept) -> bool:
    path, place = manifest.at(one.path), manifest.at(one.place)
    kept = one.before is None or fs.exists(place)
    if one.path not in manifest.after or not kept or not fs.exists(path):
        return False
    now = file_state(fs, path)
    before = None if one.before is None else file_state(fs, place)
    return now not in (before, tuple(manifest.after[one.path]))


def check_unchanged(fs: FileSystem, manifest: Manifest) -> None:
    """LogError if a repair cannot be undone."""
    check_links(fs, manifest)
    changed = changed_since(fs, manifest)
    if changed:
        raise LogError(
            f"{changed[0]} has changed since the repair{_more(changed)}: undoing it would lose that. Delete "
            f"the change, or forget the repair with tidelog fix --empty-quarantine"
        )
    if manifest.state is RunState.EMPTYING:
        raise LogError(f"the quarantine of {manifest.root} is being emptied: finish that first")


def undo(fs: FileSystem, manifest: Manifest) -> None:
    """Put everything back as it was; the caller holds the root. LogError if files have changed since."""
    check_unchanged(fs, manifest)
    manifest.state = RunState.UNDOING
    write_manifest(fs, manifest)
    for one in reversed(manifest.kept):
        _UNDO[one.act](fs, manifest, one)
    _forget(fs, manifest)


def _more(paths: Sequence[str]) -> str:
    return f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""


def _undo_cut(fs: FileSystem, manifest: Manifest, one: Kept) -> None:
    place, path = manifest.at(one.place), manifest.at(one.path)
    if not fs.exists(place):
        return
    tail, file = fs.open(place), fs.open(path, writable=True)
    try:
        size = tail.size()
        for start in range(0, size, _CHUNK):
            file.pwrite(tail.pread(min(_CHUNK, size - start), start), one.size + start)
        file.truncate(one.size + size)
        file.sync()
    finally:
        tail.close()
        file.close()
    _restore(fs, path, one.before)
    fs.unlink(place)


def _undo_write(fs: FileSystem, manifest: Manifest, one: Kept) -> None:
    place, path = manifest.at(one.place), manifest.at(one.path)
    if one.before is None:
        if fs.exists(path) and not _is_back(fs, manifest, one):
            fs.unlink(path)
            fs.sync_directory(parent(path))
    elif fs.exists(place):
        _move(fs, place, path)
        if fs.exists(place):  # two names of one file: renaming does nothing
            fs.unlink(place)
        _restore(fs, path, one.before)


def _is_back(fs: FileSystem, manifest: Manifest, one: Kept) -> bool:
    """Whether what has the name of a new file is the old one: not yet taken away, or put back already."""
    removed = [each for each in manifest.kept if each.act is Act.REMOVE and each.path == one.path]
    return any(not fs.exists(manifest.at(each.place)) for each in removed)


def _undo_remove(fs: FileSystem, manifest: Manifest, one: Kept) -> None:
    place = manifest.at(one.place)
    if fs.exists(place):
        _move(fs, place, manifest.at(one.path))


def _undo_rename(fs: FileSystem, manifest: Manifest, one: Kept) -> None:
    path, target = manifest.at(one.path), manifest.at(one.target)
    if not fs.exists(path) and fs.exists(target):
        _move(fs, target, path)
    if one.place and fs.exists(manifest.at(one.place)):
        _move(fs, manifest.at(one.place), target)
    _restore(fs, path, one.before)
    if one.target.startswith(".."):
        with suppress(OSError):
            fs.remove_directory(parent(target))


def _undo_mode(fs: FileSystem, manifest: Manifest, one: Kept) -> None:
    """A directory has to be writable until nothing is kept in it any more: `_forget` restores it."""
    if one.path not in manifest.directories and fs.exists(manifest.at(one.path)):
        _restore(fs, manifest.at(one.path), one.before)


def _restore(fs: FileSystem, path: str, before: Attributes | None) -> None:
    if before is not None and fs.exists(path):
        restore_attributes(fs, path, before)


_UNDO: dict[Act, Callable[[FileSystem, Manifest, Kept], None]] = {
    Act.CUT: _undo_cut,
    Act.WRITE: _undo_write,
    Act.REMOVE: _undo_remove,
    Act.RENAME: _undo_rename,
    Act.MODE: _undo_mode,
}


# ---- forgetting


def empty(fs: FileSystem, manifest: Manifest) -> int:
    """Delete what a repair has kept: it cannot be undone any more. The bytes that become free."""
    check_links(fs, manifest)
    cut_short = manifest.state not in (RunState.APPLIED, RunState.EMPTYING)
    if cut_short and not (manifest.state is RunState.APPLYING and manifest.after):
        raise LogError(f"a repair of {manifest.root} was cut short: undo it first, with tidelog fix --undo")
    manifest.state = RunState.EMPTYING
    write_manifest(fs, manifest)
    freed = 0
    for one in manifest.kept:
        place = manifest.at(one.place)
        if one.place and fs.exists(place):
            freed += fs.stat(place).size
            fs.unlink(place)
    _forget(fs, manifest)
    return freed


def _forget(fs: FileSystem, manifest: Manifest) -> None:
    """Remove the run's empty directories and its manifest; give directories their times back."""
    for directory in sorted(directories_of(manifest)):
        full = manifest.at(directory)
        if not fs.exists(full):
            continue
        for entry in fs.list(full):
            if entry.name.endswith((".part", ".new")):
                fs.unlink(f"{full}/{entry.name}")
        fs.sync_directory(full)  # the manifest goes last, also on the disk
        with suppress(OSError):
            fs.remove_directory(full)
            fs.sync_directory(parent(full))
            fs.remove_directory(parent(full))
            fs.sync_directory(parent(parent(full)))
    for entry in fs.list(manifest.root):
        ours = entry.name.startswith(f"{QUARANTINE}-{manifest.run}-")
        if ours and entry.name.endswith((".part", ".new")):
            fs.unlink(f"{manifest.root}/{entry.name}")
    fs.sync_directory(manifest.root)
    if manifest.state is RunState.UNDOING:
        for path, before in manifest.directories.items():
            if path:
                _restore(fs, manifest.at(path), before)
    fs.unlink(manifest.path)
    fs.sync_directory(manifest.root)
    if manifest.state is RunState.UNDOING:
        _restore(fs, manifest.root, manifest.directories.get(""))
