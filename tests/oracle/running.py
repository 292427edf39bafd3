"""A Java process that stays: Kafka's classes are loaded once, not for each question (java/Serve.java).

One per test process: it ends when its standard input does, at the latest with the process that started it.
After a question that it did not survive, the next one starts another.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["JvmEndedError", "RunningJvm"]

_LENGTH = struct.Struct(">I")
_HEAD = struct.Struct(">BI")


class JvmEndedError(Exception):
    """The process ended or took too long; the message has the end of its log."""


class RunningJvm:
    """Programs run by one process, one after the other."""

    def __init__(self, command: Sequence[str]) -> None:
        """`command` starts `tidelog.oracle.Serve`; it runs at the first question."""
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = -1
        self._owner = 0

    def run(self, main: str, request: bytes, limit_s: float) -> tuple[int, bytes]:
        """The exit code of a program and what it wrote. Raises `JvmEndedError`."""
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            name = main.encode()
            try:
                for piece in (name, request):
                    process.stdin.write(_LENGTH.pack(len(piece)) + piece)
                process.stdin.flush()
                deadline = time.monotonic() + limit_s
                status, length = _HEAD.unpack(self._read(_HEAD.size, deadline))
                return status, self._read(length, deadline)
            except (OSError, EOFError, TimeoutError) as failure:
                self._kill()
                raise JvmEndedError(f"{failure or type(failure).__name__}\n{self._tail()}") from failure

    def close(self) -> None:
        """Ends the process, if this one started it."""
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                self._kill()

    def _started(self) -> subprocess.Popen[bytes]:
        """The process. One that a fork inherited belongs to the parent."""
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._log, path = tempfile.mkstemp()
            Path(path).unlink()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
            )
            self._owner = os.getpid()
            atexit.register(self.close)
        return self._process

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        content = bytearray()
        while len(content) < size:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("it took too long")
            piece = os.read(pipe, size - len(content))
            if not piece:
                raise EOFError("it ended without an answer")
            content += piece
        return bytes(content)

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # what was not sent is not needed
                    pipe.close()

    def _tail(self, size: int = 3000) -> str:
        end = os.fstat(self._log).st_size
        return os.pread(self._log, size, max(0, end - size)).decode(errors="replace")
