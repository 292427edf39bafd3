"""Ways to break one log: its files and names, flushes, truncation, replaced segments and recovery."""

from __future__ import annotations

from tests.durability.mutant import FAULTY, FOUND, LIVES, LOG, PROMISES, RACES, Mutant

__all__ = ["LOG_MUTANTS"]

_ATOMIC = "storage/atomic.py"
_DIRECTORY = "storage/directory.py"
_SEGMENT = "segment/base.py"
_FILE = "segment/file.py"
_FLUSHING = "log/flushing.py"
_TRUNCATION = "log/truncation.py"
_STATE = "log/state.py"
_DELETION = "log/segments/deletion.py"
_LOADER = "log/opening/loader.py"
_LOG = "log/log.py"
_LINKING = "log/append/linking.py"
_PUBLISHING = ("manager/test_publishing_cut.py", "manager/test_publishing_faults.py", PROMISES)
_LEFTOVERS = ("log/test_leftovers_cut.py",)
_CLEANER = (
    "log/test_splitting.py",
    PROMISES,
    "cleanup/test_cleaner_crashes.py::test_cleaning_survives_power_cuts",
    "durability/test_lives.py",
)

LOG_MUTANTS: tuple[Mutant, ...] = (
    # ---- small files that are replaced whole
    Mutant("a new file is not synced", _ATOMIC, "            file.sync()\n", "            pass\n", LIVES),
    Mutant(
        "a rename is not synced",
        _ATOMIC,
        "                fs.sync_directory(parent(target))\n",
        "                pass\n",
        LIVES,
    ),
    Mutant("what a crash left is not cut", _ATOMIC, "        file.truncate(0)\n", "", LIVES),
    Mutant(
        "writers of one file do not wait",
        _ATOMIC,
        "            with lock:\n",
        "            if lock:\n",
        RACES,
    ),
    Mutant(
        "a created file's name is not synced",
        _ATOMIC,
        "        raise\n    fs.sync_directory(parent(target))\n",
        "        raise\n",
        (PROMISES, "storage/test_files.py"),
    ),
    # ---- names in a partition's directory
    Mutant(
        "a renamed directory is not synced",
        _DIRECTORY,
        "                self.fs.sync_directory(parent(target))\n                if",
        "                if",
        LIVES,
    ),
    Mutant(
        "the name of a new directory is not synced",
        _DIRECTORY,
        "                self.fs.sync_directory(parent(self.path))\n",
        "                pass\n",
        LOG,
    ),
    Mutant(
        "a directory is never synced",
        _DIRECTORY,
        "            self.fs.sync_directory(self.path)\n",
        "            pass\n",
        LIVES,
    ),
    Mutant(
        "a new name is not noticed", _DIRECTORY, "            if create:\n", "            if False:\n", LIVES
    ),
    Mutant(
        "a rename is not noticed",
        _DIRECTORY,
        "            self._changes += 1\n            self.fs.rename",
        "            self.fs.rename",
        LOG,
    ),
    Mutant(
        "a removal is not noticed",
        _DIRECTORY,
        "            self._changes += 1\n            return True",
        "            return True",
        LOG,
    ),
    Mutant(
        "a failed sync is forgotten",
        _DIRECTORY,
        "            self.failure = self.failure or error\n",
        "            pass\n",
        (PROMISES,),
    ),
    Mutant(
        "a sync after a failed one is tried",
        _DIRECTORY,
        "        if before is not None:\n",
        "        if False:\n",
        (PROMISES,),
    ),
    Mutant("a file's sync is left out", _DIRECTORY, "            file.sync()\n", "            pass\n", LIVES),
    # ---- segments
    Mutant("a log is not synced", _SEGMENT, "            self._file.sync()\n", "", LIVES),
    Mutant("an offset index is not synced", _SEGMENT, "            self.offset_index.flush()\n", "", LIVES),
    Mutant("a time index is not synced", _SEGMENT, "            self.time_index.flush()\n", "", LIVES),
    Mutant("a transaction index is not synced", _SEGMENT, "            self.txn_index.flush()\n", "", LIVES),
    Mutant(
        "a swapped log's name may come after its index'",
        _SEGMENT,
        "            if log_first:\n                self.directory.sync()\n",
        "",
        _LEFTOVERS,
    ),
    Mutant(
        "a segment counts as synced though it has grown",
        "segment/active.py",
        "        return self._file.state.changes, self.size, self",
        "        return self._file.state.changes, 0, self",
        LIVES,
    ),
    Mutant(
        "a segment counts as synced before it is",
        _SEGMENT,
        "            mark = self._mark()\n            if state.synced == mark:\n                return\n",
        "            if state.synced == (mark := self._mark()):\n                return\n"
        "            state.synced = mark\n",
        FAULTY,
    ),
    Mutant(
        "the writer's file is not synced",
        _FILE,
        "        if file is not None:\n            self.directory.sync_file(file)\n            return\n",
        "        if file is not None:\n            return\n",
        LIVES,
    ),
    Mutant(
        "a sealed file is not synced",
        _FILE,
        "        try:\n            self.directory.sync_file(file)\n",
        "        try:\n            pass\n",
        LIVES,
    ),
    Mutant(
        "a file to sync is looked up while its name may change",
        _FILE,
        "        with self.directory.lock:  # the name",
        "        if self.directory.lock:  # the name",
        (FOUND,),
    ),
    Mutant(
        "an index to sync is looked up while its name may change",
        "index/base.py",
        "        with self.directory.lock:  # the name",
        "        if self.directory.lock:  # the name",
        (FOUND,),
    ),
    Mutant(
        "a failed write is not undone",
        "segment/active.py",
        "            self._file.undo(self._length)\n",
        "            pass\n",
        ("segment/test_faults.py", *FAULTY),
    ),
    # ---- indexes
    Mutant(
        "an active index is not synced",
        "index/active.py",
        "                    self._mapping.flush()\n",
        "                    pass\n",
        LIVES,
    ),
    Mutant(
        "index entries get no disk space before they are stored",
        "index/active.py",
        "        file.allocate(used, end - used)\n",
        "",
        LIVES,
    ),
    Mutant(
        "entries that were cut off stay in the file",
        "index/active.py",
        "            file.truncate(count * self.ENTRY_SIZE)  # down",
        "            # down",
        ("index/test_files.py", "segment/test_files.py", *LIVES),
    ),
    Mutant(
        "a sealed index is not synced",
        "index/base.py",
        "            self.directory.sync_file(file)\n",
        "            pass\n",
        LIVES,
    ),
    Mutant(
        "aborted transactions are not synced",
        "index/transaction.py",
        "        self.directory.sync_file(file)\n",
        "        pass\n",
        LIVES,
    ),
    # ---- flushing, and the recovery point
    Mutant(
        "a flush leaves segments out",
        _FLUSHING,
        "            segment.flush()\n",
        "            pass\n",
        LIVES,
    ),
    Mutant("a flush leaves snapshots out", _FLUSHING, "        state.snapshots.sync()\n", "", LOG),
    Mutant(
        "a flush leaves names out",
        _FLUSHING,
        "            state.directory.sync()\n",
        "            pass\n",
        LIVES,
    ),
    Mutant(
        "the recovery point may lie above the log end",
        _FLUSHING,
        "min(reach, offsets.log_end.message_offset)",
        "reach",
        LOG,
    ),
    Mutant(
        "a flush trusts the recovery point, not the segments",
        _FLUSHING,
        "segments.values(state.synced_below, reach)",
        "segments.values(state.recovery_point, reach)",
        LOG,
    ),
    Mutant(
        "a log whose sync failed can be flushed",
        _FLUSHING,
        "    with state.sync_lock:\n        state.check_writable()\n        end =",
        "    with state.sync_lock:\n        end =",
        FAULTY,
    ),
    Mutant(
        "flushes do not wait for truncations",
        _FLUSHING,
        "    with state.sync_lock:\n        state.check_writable()\n        end =",
        "    if state.sync_lock:\n        state.check_writable()\n        end =",
        (*RACES, *LOG),
    ),
    Mutant(
        "a truncation leaves the recovery point",
        _STATE,
        "        self.recovery_point = min(self.recovery_point, end_offset)\n",
        "",
        LOG,
    ),
    Mutant(
        "a truncation leaves the mark of what is synced",
        _STATE,
        "        self.synced_below = min(self.synced_below, self.active.base_offset)\n",
        "",
        LOG,
    ),
    Mutant(
        "a truncation is not counted",
        _STATE,
        "        self.truncations += 1\n",
        "",
        ("manager/test_moves.py", "manager/test_cleaning_interrupted.py", *LOG),
    ),
    Mutant(
        "a disk that fails half-way leaves the log online",
        _STATE,
        "        except OSError as error:\n            self._offline = self._offline or error\n",
        "        except OSError as error:\n",
        FAULTY,
    ),
    # ---- truncation
    Mutant("a truncation is not synced", _TRUNCATION, "        sync_changes(state, target + 1)\n", "", LOG),
    Mutant("a truncation does not note itself", _TRUNCATION, "        state.note_cut(target)\n", "", LOG),
    Mutant(
        "a segment is cut while later ones are there",
        _TRUNCATION,
        "        if gone:  # recovery",
        "        if False:  # recovery",
        LIVES,
    ),
    Mutant(
        "a new segment may lie inside an old one",
        _TRUNCATION,
        "        state.directory.sync()  # else",
        "        # else",
        LOG,
    ),
    Mutant(
        "a full truncation is not synced",
        _TRUNCATION,
        "        sync_changes(state, new_offset + 1)\n",
        "",
        LOG,
    ),
    Mutant(
        "flushes run while a log is cut",
        _TRUNCATION,
        '    with state.sync_lock, state.changing_files("truncating"):\n        _reload',
        '    with state.changing_files("truncating"):\n        _reload',
        (*RACES, *LOG),
    ),
    # ---- segments that go, and that take the place of others
    Mutant(
        "deleted segments come back",
        _DELETION,
        "        state.directory.sync()\n    return len(gone)",
        "    return len(gone)",
        LIVES,
    ),
    Mutant(
        "cleaned files are swapped before their names are safe",
        _DELETION,
        "    directory.sync()\n    for segment in reversed(added):\n",
        "    for segment in reversed(added):\n",
        _CLEANER,
    ),
    Mutant(
        "files are swapped without a sync between",
        _DELETION,
        "        segment.rename_to(Transient.SWAP)\n        directory.sync()\n",
        "        segment.rename_to(Transient.SWAP)\n",
        _CLEANER,
    ),
    Mutant("files are swapped oldest first", _DELETION, "in reversed(added):", "in added:", _CLEANER),
    Mutant(
        "old segments may outlive the swap",
        _DELETION,
        "    retire()\n    directory.sync()\n",
        "    retire()\n",
        _LEFTOVERS,
    ),
    Mutant("indexes are swapped in before logs", _DELETION, "log_first=True", "log_first=False", _LEFTOVERS),
    # ---- opening after a crash
    Mutant(
        "recovery vouches for what it has found",
        _LOADER,
        "point = end if self._clean and recover else min(self._recovery_point, end)",
        "point = end",
        LOG,
    ),
    Mutant(
        "removed leftovers may come back",
        _LOADER,
        "        if names:\n            self._directory.sync()\n",
        "",
        _LEFTOVERS,
    ),
    Mutant(
        "finished swaps are not synced",
        _LOADER,
        "        if renames:\n            self._directory.sync()\n",
        "",
        _LEFTOVERS,
    ),
    Mutant(
        "indexes come back before their logs",
        _LOADER,
        "in (plan.rename[:logs], plan.rename[logs:])",
        "in (plan.rename[logs:], plan.rename[:logs])",
        _LEFTOVERS,
    ),
    Mutant(
        "the segment that holds the recovery point is trusted",
        _LOADER,
        "for base in bases) - 1, 0)",
        "for base in bases), 0)",
        LIVES,
    ),
    Mutant(
        "segments behind damage stay",
        _LOADER,
        "                self._remove_segments(index + 1)\n",
        "",
        ("log/test_opening.py",),
    ),
    Mutant(
        "an unclean log is trusted",
        _LOADER,
        "        if not self._clean:\n            self._recover",
        "        if False:\n            self._recover",
        LIVES,
    ),
    # ---- closing
    Mutant(
        "closing does not sync",
        _LOG,
        "                flushing.sync_changes(state, state.view.offsets.log_end.message_offset + 1)\n",
        "",
        LIVES,
    ),
    Mutant(
        "a log whose disk failed can be closed cleanly",
        _LOG,
        "                return\n            state.check_writable()\n",
        "                return\n",
        FAULTY,
    ),
    # ---- snapshots, and segments that are linked in
    Mutant(
        "a linked segment's stamps are not synced",
        _LINKING,
        "        file.sync()\n",
        "        pass\n",
        _PUBLISHING,
    ),
    Mutant("linked names are not synced", _LINKING, "            state.directory.sync()\n", "", _PUBLISHING),
    # ---- what others are doing, or have left
    Mutant(
        "a read may mix what was there before and after a truncation",
        "log/read/reader.py",
        "            else:\n                if state.truncations == truncations:\n",
        "            else:\n                if True:\n",
        ("log/test_truncated_reads.py",),
    ),
    Mutant(
        "names that a killed process made count as synced",
        _LOG,
        "Directory.make(path, fs, synced=clean)",
        "Directory.make(path, fs)",
        (FOUND,),
    ),
    Mutant(
        "what a failed sync has dropped is not written again",
        _LOADER,
        "            self._write_again(bases[first:])\n",
        "            pass\n",
        (FOUND,),
    ),
    Mutant(
        "a failed sync is not told to who comes next",
        _DIRECTORY,
        "                self.fs.open(self.file(SYNC_FAILED_FILE), create=True).close()\n",
        "                pass\n",
        (FOUND,),
    ),
    Mutant(
        "a failed sync on a full disk is not told to who comes next",
        _DIRECTORY,
        "                    self.fs.unlink(self.file(format_segment_file(last, FileKind.OFFSET_INDEX)))\n",
        "                    pass\n",
        (FOUND,),
    ),
)
