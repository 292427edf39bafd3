"""Apache Kafka's jars and programs compiled against them, kept in a cache outside the tree.

    <cache>/kafka-4.3.0/
        jars-<hash of pom.xml>/             every jar Maven resolved; appears by rename when complete
        classes-<hash of the sources>/      compiled programs; the same
        lock                                held while one process fills the cache, the others wait

The cache is `$TIDELOG_ORACLE_CACHE`, else `${XDG_CACHE_HOME:-~/.cache}/tidelog/kafka-4.3.0`. A directory
under its final name is always whole: it is filled under a temporary name, then renamed. Removing the cache
is always safe.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cache import cache_directory
from tests.oracle.running import JvmEndedError, RunningJvm

__all__ = ["Kafka", "KafkaThrewError", "OracleError", "OracleUnavailableError", "Programs"]

JAVA_VERSION = 17
POM = Path(__file__).with_name("pom.xml")

MAVEN_LIMIT_S = 240.0
"""Less than a test's time limit, so that a stuck download is told as such."""

SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""For programs that live for seconds: most of it is loading Kafka's classes."""

SERVER = "tidelog.oracle.Serve"

KAFKA_THREW = 3
"""The exit code of a program to say that Kafka threw (java/Program.java)."""


class OracleError(Exception):
    """A program did not do its work: it crashed, or took too long."""


class OracleUnavailableError(OracleError):
    """Java, Maven or the jars cannot be had here; the message says which and why."""


class KafkaThrewError(OracleError):
    """Kafka refused what it was given; `exception` is the Java class."""

    def __init__(self, exception: str, message: str) -> None:
        self.exception = exception
        self.message = message
        super().__init__(f"{exception}: {message}")


@dataclass(frozen=True, slots=True)
class Kafka:
    """The jars on this machine."""

    cache: Path
    jars: Path

    @classmethod
    def obtain(cls) -> Kafka:
        """Brings the jars into the cache unless they are there. Raises `OracleUnavailableError`."""
        for tool in ("java", "javac"):
            if shutil.which(tool) is None:
                raise OracleUnavailableError(f"{tool} is not on the PATH (a JDK {JAVA_VERSION} is needed)")
        cache = cache_directory()
        jars = cache / f"jars-{_digest([POM])}"
        if not jars.is_dir():
            if shutil.which("mvn") is None:
                raise OracleUnavailableError(
                    "Maven (mvn) is not on the PATH, and Kafka's jars are not in the cache"
                )
            _fill(cache, jars, _resolve_jars)
        return cls(cache, jars)

    def compile(self, sources: Path) -> Programs:
        """Compiles the Java sources in a directory, once for each content they have."""
        files = sorted(sources.glob("*.java"))
        classes = self.cache / f"classes-{_digest([POM, *files])}"
        if not classes.is_dir():
            _require_java()

            def javac(target: Path) -> None:
                command = ["javac", "-nowarn", "-proc:none", "-cp", f"{self.jars}/*", "-d", str(target)]
                _run([*command, *map(str, files)], MAVEN_LIMIT_S, OracleError)

            _fill(self.cache, classes, javac)
        return Programs(f"{classes}{os.pathsep}{self.jars}/*")


@dataclass(frozen=True)
class Programs:
    """Compiled programs, ready to run."""

    classpath: str

    @functools.cached_property
    def running(self) -> RunningJvm:
        """A process that runs one program after the other."""
        return RunningJvm(self.command(SERVER, jvm=("-Xmx1g", *SHORT_LIVED_JVM)))

    def command(self, main: str, args: Sequence[str] = (), jvm: Sequence[str] = ()) -> list[str]:
        """The command line of a program; only warnings are logged unless `jvm` says otherwise."""
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return ["java", quiet, *jvm, "-cp", self.classpath, main, *args]

    def ask(
        self,
        main: str,
        request: dict[str, Any],
        *,
        limit_s: float = 120.0,
        jvm: Sequence[str] | None = None,
    ) -> list[Any]:
        """Runs a program on a JSON request; its answer, one object per line.

        Without options for the JVM, a process that stays runs it and loads Kafka's classes once; benchmarks
        pass their own and get a process for each question. Raises `KafkaThrewError` when Kafka refused,
        `OracleError` when the program failed or ran out of time.
        """
        asked = json.dumps(request).encode()
        if jvm is not None:
            status, said, output = self._run_alone(main, asked, limit_s, jvm)
        else:
            try:
                status, output = self.running.run(main, asked, limit_s)
            except JvmEndedError as failure:
                raise OracleError(f"{main}: {failure}") from failure
            said = output
        if status == KAFKA_THREW:
            report = json.loads(said.decode().splitlines()[-1])
            raise KafkaThrewError(report["exception"], report["message"])
        if status != 0:
            raise OracleError(f"{main} ended with {status}:\n{_tail(said)}")
        return [json.loads(line) for line in output.splitlines() if line]

    def _run_alone(
        self, main: str, request: bytes, limit_s: float, jvm: Sequence[str]
    ) -> tuple[int, bytes, bytes]:
        """The exit code of a process, what it wrote to standard error, and to standard output."""
        command = self.command(main, jvm=jvm)
        try:
            done = subprocess.run(command, input=request, capture_output=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired as late:
            raise OracleError(f"{main} took more than {limit_s:g} s") from late
        return done.returncode, done.stderr, done.stdout


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _resolve_jars(target: Path) -> None:
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    with tempfile.TemporaryDirectory() as scratch:  # Maven may write beside its pom: not in the tree
        pom = shutil.copy(POM, scratch)
        _run(["mvn", "-q", "-B", "-f", str(pom), *goal], MAVEN_LIMIT_S, OracleUnavailableError)
    if not any(target.glob("kafka-storage-*.jar")):
        raise OracleUnavailableError("Maven ran but brought no kafka-storage jar")


def _fill(cache: Path, final: Path, make: Callable[[Path], None]) -> None:
    """Makes the directory `final` by `make(temporary)` and a rename, in one process at a time."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / "lock"):
            if final.is_dir():
                return
            with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as scratch:
                made = Path(scratch) / final.name
                made.mkdir()
                make(made)
                made.rename(final)
    except OSError as failure:
        raise OracleUnavailableError(f"the cache {cache} cannot be filled: {failure}") from failure


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """An exclusive lock that the system drops when its holder dies. Waits as long as a download may take."""
    deadline = time.monotonic() + MAVEN_LIMIT_S
    with path.open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OracleUnavailableError(f"another process has held {path} too long") from None
                time.sleep(0.1)
        yield


def _require_java() -> None:
    """Kafka's classes need Java 17; an older compiler would only say that it cannot read them."""
    asked = subprocess.run(["javac", "-version"], capture_output=True, text=True, timeout=60, check=False)
    said = asked.stdout
    version = re.match(r"javac (\d+)", said)
    if version is None or int(version[1]) < JAVA_VERSION:
        raise OracleUnavailableError(f"Java {JAVA_VERSION} is needed, javac -version says {said.strip()!r}")


def _run(command: list[str], limit_s: float, failure: type[OracleError]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise failure(f"{command[0]} took more than {limit_s:g} s") from late
    if done.returncode != 0:
        raise failure(f"{command[0]} failed:\n{_tail(done.stdout)}")


def _tail(output: bytes, lines: int = 15) -> str:
    return "\n".join(output.decode(errors="replace").splitlines()[-lines:])
