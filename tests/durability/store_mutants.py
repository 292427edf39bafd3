"""Ways to break a store of logs: its roots, checkpoints, partitions, moves, bulk writes and compaction."""

from __future__ import annotations

from tests.durability.mutant import FAULTY, LIVES, LOG, PROMISES, Mutant

__all__ = ["STORE_MUTANTS"]

_ROOT = "layout/roots.py"
_STORE = "manager/store/store.py"
_MOVES = "manager/store/moves.py"
_PARTITION = "manager/store/partition.py"
_APPLYING = "manager/publishing/applying.py"
_COMMITTING = "manager/publishing/committing.py"
_PUBLISHING = (
    "manager/test_publishing.py",
    "manager/test_publishing_cut.py",
    "manager/test_publishing_faults.py",
    PROMISES,
)
_INTERRUPTED = ("durability/test_interrupted.py",)
_TAKE = "            self.fs.unlink(self.file(CLEAN_SHUTDOWN_FILE))\n"

STORE_MUTANTS: tuple[Mutant, ...] = (
    # ---- roots: the clean mark and checkpoints
    Mutant(
        "the clean mark may come back",
        _ROOT,
        _TAKE + "        self.fs.sync_directory(self.path)\n",
        _TAKE,
        LIVES,
    ),
    Mutant("the clean mark stays", _ROOT, _TAKE, "            pass\n", LIVES),
    Mutant(
        "checkpoints are written side by side",
        _ROOT,
        "        with self._writing:\n",
        "        if self._writing:\n",
        (PROMISES,),
    ),
    Mutant(
        "a lost lock is not noticed",
        _ROOT,
        "            self.ensure_lock()\n",
        "",
        ("manager/test_store.py", "manager/test_disks.py", PROMISES),
    ),
    Mutant(
        "a new root's name is not synced",
        "storage/files.py",
        "    fs.sync_directory(above)\n",
        "    pass\n",
        LIVES,
    ),
    Mutant(
        "checkpoints of a truncated log stay high",
        _STORE,
        "self._maintenance.lower_checkpoints(partition) if cut else None",
        "None",
        (*LOG, "manager/test_flushing.py"),
    ),
    Mutant(
        "the clean mark vouches for a log that failed",
        _PARTITION,
        "if all(list(answers))}",
        "if list(answers) or root}",
        FAULTY,
    ),
    Mutant(
        "the last checkpoints are not written",
        _STORE,
        "        self._maintenance.checkpoint()\n        for root in whole:\n",
        "        for root in whole:\n",
        LIVES,
    ),
    Mutant(
        "a deleted topic stays registered",
        _STORE,
        "            self._opened.registry.register(removed=[topic.topic_id])\n",
        "",
        LIVES,
    ),
    Mutant(
        "a store's flush is silent about what it could not flush",
        _STORE,
        "        if failed:\n            raise FlushError(failed)\n",
        "",
        FAULTY,
    ),
    Mutant(
        "a truncation lets appends in between",
        _STORE,
        "            with partition.gate:\n                cut =",
        "            if partition.gate:\n                cut =",
        _INTERRUPTED,
    ),
    Mutant(
        "recovery points are written above what is on the disk",
        "manager/store/checkpointed.py",
        "    Checkpoint.RECOVERY_POINTS: lambda log: log.recovery_point,",
        "    Checkpoint.RECOVERY_POINTS: lambda log: log.log_end_offset,",
        (PROMISES,),
    ),
    # ---- partitions and moves
    Mutant(
        "append(sync=True) does not sync",
        _PARTITION,
        "        if sync:\n            self.flush()\n        return result",
        "        return result",
        LIVES,
    ),
    Mutant(
        "a move's copy is not synced",
        _MOVES,
        "    future.flush()\n    future.rename",
        "    future.rename",
        _INTERRUPTED,
    ),
    Mutant(
        "a log start does not move with its log",
        _MOVES,
        "        target.add_to_checkpoint(",
        "        (lambda *told: None)(",
        LIVES,
    ),
    Mutant("a move is not registered", _MOVES, "        register()\n", "        pass\n", LIVES),
    Mutant(
        "appends go on while logs are switched",
        _MOVES,
        "        with lock, partition.gate:",
        "        with lock:",
        _INTERRUPTED,
    ),
    Mutant(
        "a copy may miss a truncation of its source",
        _MOVES,
        "            if source.truncations != truncations:\n",
        "            if False:\n",
        ("manager/test_moves.py", *LIVES),
    ),
    Mutant(
        "a copy may lack its first segments",
        _MOVES,
        "    if future.log_start_offset > source.log_start_offset:",
        "    if False:",
        LIVES,
    ),
    # ---- bulk writes
    Mutant(
        "what was there before a bulk write is not synced",
        _COMMITTING,
        "            partition.flush()\n",
        "            pass\n",
        _PUBLISHING,
    ),
    Mutant(
        "a bulk write begins before its intent is safe",
        _COMMITTING,
        "        write_journal(fs, root.path, replace(journal, pending=pending, root=ours))\n",
        "",
        _PUBLISHING,
    ),
    Mutant(
        "staged files may outlive their mark",
        "manager/publishing/mark.py",
        "    fs.sync_directory(directory)\n    remove_tree(fs, directory)\n",
        "    remove_tree(fs, directory)\n",
        _PUBLISHING,
    ),
    Mutant(
        "a bulk write is not settled",
        _APPLYING,
        "    settle(fs, root, done=True)\n",
        "",
        _PUBLISHING,
    ),
    Mutant(
        "the recovery point of a write that is taken back stays high",
        _APPLYING,
        "                _lower_recovery_point(partition)\n",
        "",
        _PUBLISHING,
    ),
    # ---- compaction
    Mutant(
        "how far a truncated log is clean is written",
        "manager/background/cleaning.py",
        "        if partition.root is not None and log.truncations == truncations:\n",
        "        if partition.root is not None:\n",
        ("manager/test_cleaning_interrupted.py", PROMISES),
    ),
    Mutant(
        "a log is truncated while it is cleaned",
        _STORE,
        ", self._cleaning.paused(partition.topic_partition):\n            with partition.gate:",
        ":\n            with partition.gate:",
        ("manager/test_cleaning_interrupted.py", "manager/test_threads.py", PROMISES),
    ),
)
