"""kafka-dump-log as users have it: what the script of Kafka's distribution starts.

`kafka-dump-log.sh` goes through `kafka-run-class.sh`, which gives the JVM a heap of 256 MB, G1 and JMX, and
Log4j with a YAML file instead of slf4j-simple. The scripts are in no jar, so that JVM is started here without
them: what the shell takes to put a class path of a hundred jars together is left out.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.oracle.jars import MAVEN_LIMIT_S, OracleUnavailableError

from benchmarks.harness import Bench

__all__ = ["DUMP_LOG", "as_the_script"]

DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"

_JVM = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)
_LOGGING = """
Configuration:
  Appenders:
    Console:
      name: STDERR
      target: SYSTEM_ERR
      PatternLayout:
        pattern: "[%d] %p %m (%c)%n"
  Loggers:
    Root:
      level: WARN
      AppenderRef:
        - ref: STDERR
"""


def as_the_script(bench: Bench, args: Sequence[str]) -> list[str]:
    """The command line of the JVM that the script would start. Raises `OracleUnavailableError`."""
    jars = Path(bench.programs.classpath.rpartition(os.pathsep)[2]).parent
    libraries = [jar for jar in sorted(jars.glob("*.jar")) if not jar.name.startswith("slf4j-simple")]
    logging = bench.scratch / "tools-log4j2.yaml"
    logging.write_text(_LOGGING)
    classpath = os.pathsep.join(map(str, [*libraries, _log4j(jars)]))
    return ["java", *_JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", classpath, DUMP_LOG, *args]


def _log4j(jars: Path) -> Path:
    """What makes slf4j use Log4j, of the version that Kafka comes with; kept beside the other jars."""
    core = next(jars.glob("log4j-core-*.jar"), None)
    if core is None:
        raise OracleUnavailableError(f"{jars} has no log4j-core")
    version = core.stem.removeprefix("log4j-core-")
    kept = jars.with_name("log4j") / f"log4j-slf4j-impl-{version}.jar"
    if not kept.exists():
        artifact = f"-Dartifact=org.apache.logging.log4j:log4j-slf4j-impl:{version}"
        command = ["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={kept.parent}"]
        done = subprocess.run(
            command, cwd=jars.parent, capture_output=True, timeout=MAVEN_LIMIT_S, check=False
        )
        if not kept.exists():
            raise OracleUnavailableError(f"Maven brought no {kept.name}: {done.stdout.decode()[-500:]}")
    return kept
