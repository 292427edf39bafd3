"""The lock on a root: against ourselves, another Python process, and Kafka's own lock in both directions."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.errors import LogClosedError, LogLockedError
from tidelog.storage import lock as lock_module
from tidelog.storage.lock import LOCK_FILE, RootLock, check_lock_file, holder_of, refusal

if TYPE_CHECKING:
    from tests.oracle import Oracle

PYTHON = [
    sys.executable,
    "-c",
    "import sys\n"
    "from tidelog.errors import LogLockedError\n"
    "from tidelog.storage.lock import RootLock\n"
    "def say(word): print(word, flush=True)\n"
    "def attempt():\n"
    "    try:\n"
    "        global lock\n"
    "        lock = RootLock(sys.argv[1])\n"
    "        say('locked')\n"
    "    except LogLockedError as error: say(f'refused: {error}')\n"
    "attempt()\n"
    "for line in sys.stdin:\n"
    "    if line == 't\\n': attempt()\n"
    "    else: lock.release(); say('released')\n",
]


class Other:
    """Another process, which says what became of its lock."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, order: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(order)
        self.process.stdin.flush()
        return self.hear()


@contextlib.contextmanager
def another(command: list[str]) -> Iterator[Other]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Other(process)
        finally:
            process.kill()


def test_a_second_process_is_told_who_holds_the_root(tmp_path: Path) -> None:
    with RootLock(tmp_path) as lock, another([*PYTHON, str(tmp_path)]) as other:
        said = other.hear()
        assert said.startswith("refused: ")
        assert f"process {os.getpid()}" in said
        assert str(tmp_path / LOCK_FILE) in said
        lock.release()
        assert other.tell("t\n") == "locked"
        assert holder_of(tmp_path) == other.pid
        with pytest.raises(LogLockedError, match=f"process {other.pid} "):
            RootLock(tmp_path)
        assert other.tell("r\n") == "released"
        assert holder_of(tmp_path) is None
        RootLock(tmp_path).release()


def test_a_look_at_the_lock_file_takes_no_lock_away_from_another_thread(tmp_path: Path) -> None:
    RootLock(tmp_path).release()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            check_lock_file(tmp_path)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        with another([*PYTHON, str(tmp_path)]) as other:
            if other.hear() == "locked":
                other.tell("r\n")
            for _ in range(100):
                with RootLock(tmp_path):
                    assert other.tell("t\n").startswith("refused")
    finally:
        stop.set()
        for looker in lookers:
            looker.join()


def test_what_is_no_file_in_the_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    check_lock_file(tmp_path)
    os.mkfifo(tmp_path / LOCK_FILE)
    with pytest.raises(OSError, match=r"\.lock"):
        check_lock_file(tmp_path)


def test_a_holder_that_cannot_be_seen_has_no_number(tmp_path: Path) -> None:
    """Such as a process of another container, for which the system says 0."""
    assert str(refusal(tmp_path, 0)).startswith(f"{tmp_path} is in use by another process")
    assert f"process {os.getpid()} (" in str(refusal(tmp_path, os.getpid()))


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    with another([*PYTHON, str(tmp_path)]) as other:
        assert other.hear() == "locked"
        other.process.kill()
        other.process.wait()
        RootLock(tmp_path).release()


def test_a_second_hold_in_this_process_is_refused_and_costs_the_first_nothing(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "root")
    with RootLock(tmp_path / "root"):
        for path in ("root", "alias", "root/../root"):
            with pytest.raises(LogLockedError, match="already open in this process"):
                RootLock(tmp_path / path)
            assert holder_of(tmp_path / path) == os.getpid()
        with another([*PYTHON, str(tmp_path / "root")]) as other:
            assert other.hear().startswith("refused")
    RootLock(tmp_path / "alias").release()


def test_a_forked_child_is_refused_by_its_parents_lock(tmp_path: Path) -> None:
    with RootLock(tmp_path):
        child = os.fork()
        if child == 0:
            code = 1
            with contextlib.suppress(BaseException):
                try:
                    RootLock(tmp_path)
                except LogLockedError as error:
                    code = 0 if f"process {os.getppid()}" in str(error) else 2
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with another([*PYTHON, str(tmp_path)]) as other:
            assert other.hear().startswith("refused")


def test_an_unlinked_lock_file_is_locked_anew(tmp_path: Path) -> None:
    with RootLock(tmp_path) as lock:
        lock.ensure()
        (tmp_path / LOCK_FILE).unlink()
        lock.ensure()
        with another([*PYTHON, str(tmp_path)]) as other:
            assert other.hear().startswith("refused")
        (tmp_path / LOCK_FILE).unlink()
        with another([*PYTHON, str(tmp_path)]) as other:
            assert other.hear() == "locked"
            with pytest.raises(LogLockedError, match=f"process {other.pid}"):
                lock.ensure()
    lock.release()
    with pytest.raises(LogClosedError):
        lock.ensure()


def test_a_file_unlinked_while_it_was_being_locked_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    def lock_and_lose(descriptor: int, operation: int) -> None:
        fcntl_lockf(descriptor, operation)
        taken.append(os.fstat(descriptor).st_ino)
        if len(taken) < 3:  # a stopping broker unlinks it in between
            (tmp_path / LOCK_FILE).unlink()

    fcntl_lockf = lock_module.fcntl.lockf
    monkeypatch.setattr(lock_module.fcntl, "lockf", lock_and_lose)
    with RootLock(tmp_path):
        monkeypatch.undo()
        assert len(taken) == 3
        assert (tmp_path / LOCK_FILE).stat().st_ino == taken[-1]
        with another([*PYTHON, str(tmp_path)]) as other:
            assert other.hear().startswith("refused")


def test_what_the_system_refuses_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RootLock(tmp_path / "missing")
    (tmp_path / LOCK_FILE).mkdir()
    with pytest.raises(IsADirectoryError):
        RootLock(tmp_path)
    assert holder_of(tmp_path / "missing") is None
    (tmp_path / LOCK_FILE).rmdir()
    RootLock(tmp_path).release()


def test_kafka_and_we_exclude_each_other(oracle: Oracle, tmp_path: Path) -> None:
    command = oracle.programs.command("tidelog.oracle.HoldLock", [str(tmp_path)])
    with RootLock(tmp_path) as lock, another(command) as kafka:
        assert kafka.hear() == "refused"
        lock.release()
        assert kafka.tell("t") == "locked"
        with pytest.raises(LogLockedError, match=rf"process {kafka.pid} \(java\)"):
            RootLock(tmp_path)
        assert kafka.tell("d") == "destroyed"
        assert not (tmp_path / LOCK_FILE).exists()
        with RootLock(tmp_path), another([*PYTHON, str(tmp_path)]) as other:
            assert other.hear().startswith("refused")
