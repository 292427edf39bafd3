"""Questions to Apache Kafka's own classes, each a Java program (java/*.java say what each one does)."""

from __future__ import annotations

import base64
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.oracle.broker import QUICK_JVM, Broker, run_broker, run_cluster
from tests.oracle.jars import Kafka, Programs

__all__ = ["Oracle"]

GOLDEN_CONFIG = {"segment.index.bytes": "65536", "index.interval.bytes": "512", "cleanup.policy": "compact"}
"""The topic config the golden partitions were written and asked with."""

NOW_MS = 1_700_000_000_000
KINDS = ("plain", "idempotent", "transactional")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Answers = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Oracle:
    """Kafka, to be asked. Partition directories given to it are copied first and never changed."""

    programs: Programs

    @classmethod
    def obtain(cls) -> Oracle:
        """Fetches and compiles what is needed, once per machine. Raises `OracleUnavailableError`."""
        return cls(Kafka.obtain().compile(Path(__file__).with_name("java")))

    def decode(self, *logs: Path | str) -> Answers:
        """Every record of `.log` files as Kafka's reader decodes it, CRCs checked.

        The keys are those of golden/expected/*.records.jsonl.gz; keys and values in base64. Raises
        `KafkaThrewError` for what Kafka finds corrupt. A torn tail is passed over in silence, as Kafka's
        reader does.
        """
        return self.programs.ask(
            "tidelog.oracle.Decode", {"files": [str(Path(log).absolute()) for log in logs]}
        )

    def coordinator_records(
        self,
        groups: Sequence[tuple[bytes, bytes | None]] = (),
        transactions: Sequence[bytes] = (),
    ) -> tuple[list[tuple[bytes, bytes | None]], list[bytes]]:
        """Records of `__consumer_offsets` and values of `__transaction_state`, read and written by Kafka."""

        def text(data: bytes | None) -> str | None:
            return None if data is None else base64.b64encode(data).decode()

        def data(text: str | None) -> bytes | None:
            return None if text is None else base64.b64decode(text)

        answers = self.programs.ask(
            "tidelog.oracle.CoordinatorRecords",
            {
                "groups": [[text(key), text(value)] for key, value in groups],
                "transactions": [text(value) for value in transactions],
            },
        )
        pairs = [(data(each.get("key")) or b"", data(each["value"])) for each in answers]
        return pairs[: len(groups)], [value or b"" for _, value in pairs[len(groups) :]]

    def metadata_hash(self, topics: Sequence[tuple[str, str, int]]) -> int:
        """The hash that a consumer group keeps of topics: name, id as Kafka prints it, partitions."""
        told = [{"name": name, "id": topic_id, "partitions": count} for name, topic_id, count in topics]
        (answer,) = self.programs.ask("tidelog.oracle.CoordinatorRecords", {"topics": told})
        return int(answer["hash"])

    def decode_bytes(self, data: bytes | bytearray | memoryview) -> Answers:
        """Like `decode`, of batches in memory."""
        with tempfile.TemporaryDirectory() as scratch:
            log = Path(scratch, f"{0:020}.log")
            log.write_bytes(data)
            return self.decode(log)

    def lookups(
        self,
        directory: Path | str,
        *,
        offsets: Iterable[int] = (),
        timestamps: Iterable[int] = (),
        committed_from: Iterable[int] | None = None,
        epochs: Iterable[int] = (),
        random: int = 0,
        seed: int = 1,
        clean: bool = True,
        log_start: int = 0,
        recovery_point: int = 0,
        config: Mapping[str, object] = GOLDEN_CONFIG,
        now_ms: int | None = None,
        keep: Path | None = None,
    ) -> Answers:
        """What Kafka's log answers about a partition directory, in the order asked.

        First the key offsets (`log_start_offset`, `log_end_offset`, `segments`, `size`;
        `last_stable_offset`), then per offset its segment, index entry and batch, per timestamp what it
        finds, per leader epoch its end, and the aborted transactions of a committed read from each of
        `committed_from` (None: from each segment). `random` adds that many made-up offsets and timestamps.
        `clean=False` recovers from `recovery_point` on. The opened, then closed copy is left as
        `keep/<directory name>` if given: with `clean=False` its indexes are Kafka's own.
        """
        request: dict[str, Any] = {
            "clean": clean,
            "log_start": log_start,
            "recovery_point": recovery_point,
            "config": {key: str(value) for key, value in config.items()},
            "now_ms": now_ms,
            "offsets": list(offsets),
            "timestamps": list(timestamps),
            "epochs": list(epochs),
            "random": random,
            "seed": seed,
        }
        if committed_from is not None:
            request["committed_from"] = list(committed_from)
        with tempfile.TemporaryDirectory() as scratch:
            copy = shutil.copytree(directory, (keep or Path(scratch)) / Path(directory).name)
            request["dir"] = str(copy.absolute())
            return self.programs.ask("tidelog.oracle.Lookups", request)

    def recover(
        self,
        directory: Path | str,
        into: Path,
        *,
        log_start: int = 0,
        config: Mapping[str, object] = GOLDEN_CONFIG,
        now_ms: int | None = None,
    ) -> Path:
        """A copy under `into` that Kafka opened as unclean from offset 0: every index and snapshot is
        rebuilt.

        The strongest check of files that we wrote: compare them with the ones in the copy.
        """
        self.lookups(
            directory,
            clean=False,
            log_start=log_start,
            config=config,
            now_ms=now_ms,
            committed_from=(),
            keep=into,
        )
        return into / Path(directory).name

    def write_log(
        self,
        directory: Path | str,
        *,
        seed: int = 1,
        batches: int = 200,
        max_records: int = 20,
        codecs: Sequence[str] = CODECS,
        kinds: Sequence[str] = KINDS,
        config: Mapping[str, object] = GOLDEN_CONFIG | {"cleanup.policy": "delete"},
        now_ms: int = NOW_MS,
    ) -> dict[str, Any]:
        """Fills a partition directory (`<topic>-<n>`) with v2 batches through Kafka's log, all from the seed.

        `kinds` also knows "horizon" (batches with a delete horizon) and "kraft" (control batches of each
        KRaft type). Answers `log_end_offset`, `segments` and `leader_epoch`.
        """
        request = {
            "dir": str(Path(directory).absolute()),
            "seed": seed,
            "batches": batches,
            "max_records": max_records,
            "codecs": list(codecs),
            "kinds": list(kinds),
            "config": {key: str(value) for key, value in config.items()},
            "now_ms": now_ms,
        }
        (answer,) = self.programs.ask("tidelog.oracle.WriteLog", request)
        return dict(answer)

    def write_legacy(
        self,
        parent: Path | str,
        *,
        seed: int = 1,
        segments: int = 2,
        sets: int = 20,
        config: Mapping[str, object] = GOLDEN_CONFIG,
    ) -> list[Path]:
        """Partition directories of magic 0 and 1 messages, each codec of theirs, under `parent`."""
        request = {
            "dir": str(Path(parent).absolute()),
            "seed": seed,
            "segments": segments,
            "sets": sets,
            "config": {key: str(value) for key, value in config.items()},
        }
        return [Path(line["dir"]) for line in self.programs.ask("tidelog.oracle.WriteLegacy", request)]

    def clean(self, *cases: Mapping[str, Any]) -> Answers:
        """Cleans partition directories themselves (not copies) with Kafka's Cleaner, one after the other.

        A case has `dir`, `clean_at_ms` and, unless the default will do: `config`, `now_ms` (the clock),
        `log_start`, `first_dirty` (the log start), `map_bytes`, `load_factor`, `rounds` (as many as it
        takes) and `copy_to`, where the directory is copied when that is done. The active segment is rolled
        first; the log is cleaned up to its last stable offset. Answers each `upper_bound`, `end_offsets`
        (one a round), `segments`, `size` and `invalid` (records without a key).
        """
        defaults = {"config": GOLDEN_CONFIG, "now_ms": NOW_MS}
        requests = [defaults | dict(case) | {"dir": str(Path(case["dir"]).absolute())} for case in cases]
        return self.programs.ask("tidelog.oracle.Clean", {"cases": requests})

    def broker(
        self,
        root: Path | str,
        *,
        adopt: bool = False,
        config: Mapping[str, object] | None = None,
        jvm: Sequence[str] = QUICK_JVM,
    ) -> AbstractContextManager[Broker]:
        """A single-node Kafka broker on the log directory `root` itself (not a copy); see `run_broker`."""
        return run_broker(self.programs, Path(root).absolute(), adopt=adopt, config=config or {}, jvm=jvm)

    def cluster(
        self, nodes: Sequence[Sequence[Path]], *, config: Mapping[str, object] | None = None
    ) -> AbstractContextManager[list[Broker]]:
        """A broker for each list of disks, in one cluster, on the disks themselves; see `run_cluster`."""
        return run_cluster(self.programs, nodes, config=config or {})
