"""The command in a process of its own, without the time that Python takes to start and import.

A server imports what commands use, and forks for each call. The child runs the command's entry point and ends
as any Python does: it has its own arguments, environment, directory and standard streams. How a start itself
goes, and what it imports, is tested with the installed command (`test_start`).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Server", "server"]

ROOT = Path(__file__).parents[2]
_MOST_BYTES = 1 << 17


@dataclass(slots=True)
class Server:
    """A process that forks for each call."""

    process: subprocess.Popen[bytes]
    line: socket.socket
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, args: Sequence[str], limit_s: float, said: bytes) -> tuple[int, bytes, bytes]:
        """Run the command, with `said` on its standard input; its exit code, and what it answered."""
        asked = {"args": list(args), "cwd": str(Path.cwd()), "environment": dict(os.environ)}
        with self.lock:
            (child_in, in_), (out, child_out), (err, child_err) = os.pipe(), os.pipe(), os.pipe()
            theirs = [child_in, child_out, child_err]
            try:
                socket.send_fds(self.line, [json.dumps(asked).encode()], theirs)
            finally:
                for fd in theirs:
                    os.close(fd)
            pid = int(self.line.recv(64))
            clock = threading.Timer(limit_s, os.kill, (pid, signal.SIGKILL))
            clock.start()
            with ThreadPoolExecutor(3) as threads:
                threads.submit(_say, in_, said)
                answers = [threads.submit(_hear, fd) for fd in (out, err)]
            code = int(self.line.recv(64))
            clock.cancel()
        return code, answers[0].result(), answers[1].result()


def _say(fd: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(fd, "wb") as file:
        file.write(data)


def _hear(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


@functools.cache
def server() -> Server:
    """The one of this process."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.forking", str(its.fileno())],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        pass_fds=[its.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    its.close()
    atexit.register(mine.close)  # which ends it
    return Server(process, mine)


# ---- in the server


def _import_all() -> None:
    import tidelog.cli

    for one in pkgutil.walk_packages(tidelog.cli.__path__, "tidelog.cli."):
        importlib.import_module(one.name)
    for name in ("pyarrow.compute", "rich.table", "rich.progress", "tidelog.manager.store.store"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _serve(line: socket.socket) -> None:
    """Answer calls until nobody is there; comes back in each child, ready to run the command."""
    while True:
        message, fds, _, _ = socket.recv_fds(line, _MOST_BYTES, 3)
        if not message:
            os._exit(0)
        asked = json.loads(message)
        pid = os.fork()
        if not pid:
            line.close()
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
                os.close(fd)
            os.chdir(asked["cwd"])
            os.environ.clear()
            os.environ.update(asked["environment"])
            sys.argv = ["tidelog", *asked["args"]]
            return
        for fd in fds:
            os.close(fd)
        line.send(b"%d" % pid)
        _, status = os.waitpid(pid, 0)
        line.send(b"%d" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _import_all()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from tidelog.cli.main import main

    main()
