"""Random questions about the rules of a log, put to Kafka and to tidelog alike. The seed decides all."""

from __future__ import annotations

import base64
import gzip
import random
import struct
import zlib
from typing import Any

from tests.log.crafting import CONTROL, GZIP, LOG_APPEND_TIME, TRANSACTIONAL, Batch

__all__ = ["appends", "leader_epochs", "odd_appends", "producer_states", "segment_rolls"]

NOW_MS = 1_700_000_000_000
EXPIRATION_MS = 5_000

Step = dict[str, Any]


class _Producer:
    """A producer that mostly follows the rules."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.epoch = 0
        self.sequence = 0
        self.open = False
        self.sent: list[tuple[int, int, int]] = []


class _Partition:
    """Steps of a few producers on one log."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.producers = [_Producer(pid) for pid in (1, 2, 16, 17, 35, (1 << 40) + 3)]
        self.end = 0
        self.start = 0
        self.now = NOW_MS
        self.snapshots: set[int] = set()

    def one_in(self, n: int) -> bool:
        return self.random.randrange(n) == 0

    def step(self) -> Step:
        self.now += self.random.randrange(200)
        choice = self.random.randrange(100)
        if choice < 60:
            return self._data(self.random.choice(self.producers))
        if choice < 80:
            return self._marker(self.random.choice(self.producers))
        if choice < 88:
            return {"do": "high_watermark", "offset": self.random.randint(self.start, self.end)}
        if choice < 90:
            return {"do": "expire", "now": self.now}
        if choice < 95:
            self.snapshots.add(self.end)
            return {"do": "snapshot"}
        return self._rare()

    def _rare(self) -> Step:
        if self.one_in(4) and self.snapshots:
            return {"do": "truncate", "start": self.start, "end": self._cut(), "now": self.now}
        if self.one_in(4):
            self.start = self.random.randint(self.start, self.end)
            return {"do": "log_start", "offset": self.start}
        if self.one_in(12):
            self.start = self.end = self.end + self.random.randrange(10)
            self.snapshots.clear()
            return {"do": "truncate_fully", "offset": self.end}
        return {"do": "snapshot"}

    def _cut(self) -> int:
        """A new end: at a snapshot or anywhere."""
        if self.one_in(2):
            self.end = self.random.choice(sorted(self.snapshots))
        else:
            self.end = self.random.randint(self.start, self.end)
        self.end = max(self.start, self.end)
        return self.end

    def _origin(self) -> str:
        return self.random.choices(("CLIENT", "COORDINATOR", "REPLICATION"), (70, 5, 25))[0]

    def _data(self, producer: _Producer) -> Step:
        count = self.random.randint(1, 4)
        epoch, sequence = producer.epoch, producer.sequence
        if producer.sent and self.one_in(6):
            epoch, sequence, count = self.random.choice(producer.sent[-7:])
        elif self.one_in(12):
            epoch = producer.epoch = producer.epoch + 1
            sequence = 0 if not self.one_in(4) else 3
        elif self.one_in(15):
            epoch = max(0, epoch - 1)
        elif self.one_in(15):
            sequence += self.random.choice((-1, 1, 2))
        elif self.one_in(40):
            sequence = (1 << 31) - self.random.randint(1, 3)
        sequence = max(0, sequence) % (1 << 31)
        transactional = producer.open if not self.one_in(8) else not producer.open
        producer.open = producer.open or transactional
        producer.sequence = (sequence + count) % (1 << 31)
        producer.sent.append((epoch, sequence, count))
        offset = self._next_offset(count)
        return {
            "do": "data",
            "origin": self._origin(),
            "pid": producer.pid,
            "epoch": epoch,
            "seq": sequence,
            "offset": offset,
            "count": count,
            "timestamp": self.now,
            "txn": transactional,
        }

    def _marker(self, producer: _Producer) -> Step:
        version = self.random.choice((0, 1, 2, 2))
        if version == 2 and not self.one_in(4):
            producer.epoch += 1
            producer.sequence = 0
        epoch = producer.epoch if not self.one_in(12) else max(0, producer.epoch - 1)
        producer.open = False
        return {
            "do": "marker",
            "origin": self.random.choice(("COORDINATOR", "COORDINATOR", "REPLICATION", "CLIENT")),
            "pid": producer.pid,
            "epoch": epoch,
            "offset": self._next_offset(1),
            "coordinator_epoch": self.random.choice((3, 3, 3, 3, 3, 4, 2)),
            "timestamp": self.now,
            "abort": self.one_in(2),
            "version": version if not self.one_in(20) else -1,
        }

    def _next_offset(self, count: int) -> int:
        offset = self.end + (self.random.randrange(5) if self.one_in(10) else 0)
        self.end = offset + count
        return offset


def producer_states(seed: int, steps: int = 1000) -> dict[str, Any]:
    """Steps on the state of a log's producers."""
    partition = _Partition(seed)
    return {"expiration_ms": EXPIRATION_MS, "steps": [partition.step() for _ in range(steps)]}


def leader_epochs(seed: int, steps: int = 200) -> dict[str, Any]:
    """Steps on a leader epoch cache."""
    chance = random.Random(seed)
    made: list[Step] = []
    for _ in range(steps):
        offset = chance.randint(-1, 29)
        if chance.random() < 0.7:
            made.append({"do": "assign", "epoch": chance.randint(-1, 11), "offset": offset})
        else:
            made.append({"do": chance.choice(("from_end", "from_start")), "offset": offset})
        if chance.random() < 0.02:
            made.append({"do": "clear"})
    return {"steps": made, "epochs": 13, "offsets": 30}


def segment_rolls(seed: int, cases: int = 150) -> dict[str, Any]:
    """Segments and appends around each limit."""
    chance = random.Random(seed)
    made: list[Step] = []
    for _ in range(cases):
        base = chance.choice((0, 5, 1 << 33))
        case = {
            "base": base,
            "created_ms": NOW_MS,
            "index_bytes": chance.choice((4096, 4096, 4096, 24, 12)),
            "jitter_ms": chance.choice((0, 0, 10)),
            "max_segment_ms": 100,
            "max_segment_bytes": chance.choice((200, 1 << 20)),
            "max_timestamp": chance.choice(
                (-1, NOW_MS + 89, NOW_MS + 90, NOW_MS + 91, NOW_MS + 100, NOW_MS + 101)
            ),
            "last_offset": base + chance.choice((-1, 0, 10, (1 << 31) - 1, 1 << 31)),
            "size": chance.choice((10, 122, 123, 124, 200, 201)),
            "now_ms": NOW_MS + chance.choice((0, 90, 91, 100, 101, 1000)),
        }
        if chance.random() < 0.75:
            case["timestamp"] = chance.choice((NOW_MS, NOW_MS, -1, 0))
        made.append(case)
    return {"cases": made}


def appends(seed: int, count: int = 120) -> dict[str, Any]:
    """Appends of one batch each, many of them wrong in one way or another, to a log with some config."""
    chance = random.Random(seed)
    config = {
        "compression.type": chance.choice(("producer", "producer", "uncompressed", "gzip")),
        "message.timestamp.type": chance.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        "message.timestamp.before.max.ms": "100000",
        "message.timestamp.after.max.ms": "1000",
        "cleanup.policy": chance.choice(("delete", "compact")),
        "max.message.bytes": "300",
    }
    made = [_append(chance, i) for i in range(count)]
    return {"config": config, "now_ms": NOW_MS, "appends": made}


def _append(chance: random.Random, number: int) -> Step:
    def one_in(n: int) -> bool:
        return chance.randrange(n) == 0

    attributes = GZIP if one_in(3) else 0
    attributes |= LOG_APPEND_TIME if one_in(12) else 0
    attributes |= CONTROL | TRANSACTIONAL if one_in(12) else 0
    origin = chance.choices(("CLIENT", "COORDINATOR", "REPLICATION", "RAFT_LEADER"), (60, 20, 15, 15))[0]
    records = []
    for _ in range(chance.randint(1, 4)):
        timestamp = NOW_MS - chance.randrange(1000)
        if one_in(15):
            timestamp = chance.choice(
                (-1, NOW_MS - 100_000, NOW_MS - 100_001, NOW_MS + 1000, NOW_MS + 1001, 0)
            )
        keyless = one_in(20) and not attributes & LOG_APPEND_TIME  # of two errors either would do
        records.append((timestamp, None if keyless else b"key", bytes(chance.randrange(60))))
    if attributes & CONTROL:
        records = [(NOW_MS, b"\0\0\0\1", bytes(6))]
    with_producer = one_in(4) or bool(attributes & CONTROL)
    batch = Batch(
        records=records,
        attributes=attributes,
        base_offset=_base_offset(chance, number, origin),
        leader_epoch=chance.choice((7, 7, 7, 6, 8)),
        producer_id=1000 + number if with_producer else -1,
        producer_epoch=0 if with_producer else -1,
        base_sequence=(0 if not one_in(8) else -1) if with_producer else -1,
        count=None if not one_in(20) or origin != "CLIENT" else chance.choice((0, -1, 9)),
        last_offset_delta=None if not one_in(25) or origin != "CLIENT" else chance.choice((-1, 9)),
        max_timestamp=None if not one_in(10) else NOW_MS + 5,
    )
    return {"data": base64.b64encode(batch.encode()).decode(), "origin": origin, "epoch": 7}


def odd_appends(seed: int, count: int = 60) -> dict[str, Any]:
    """Appends of old clients, compressed messages wrong inside, and of ones that set bits nobody knows."""
    chance = random.Random(seed)
    config = {
        "compression.type": chance.choice(("producer", "uncompressed")),
        "message.timestamp.type": chance.choice(("CreateTime", "LogAppendTime")),
    }
    made = [chance.choice((_old_append, _bits_append))(chance) for _ in range(count)]
    data = [base64.b64encode(each).decode() for each in made]
    steps = [{"data": each, "origin": "CLIENT", "epoch": 7} for each in data]
    return {"config": config, "now_ms": NOW_MS, "appends": steps}


def _old_append(chance: random.Random) -> bytes:
    magic = chance.choice((0, 1))
    messages = []
    for number in range(chance.randint(1, 4)):
        own, codec, spoiled = magic, 0, 0
        if chance.randrange(8) == 0:
            own, codec, spoiled = chance.choice(
                ((1 - magic, 0, 0), (2, 0, 0), (magic, GZIP, 0), (magic, 0, 1))
            )
        messages.append(_message(number, own, codec, b"k", b"v%d" % number, spoiled))
    if chance.randrange(3) == 0:
        return messages[0]
    cut = chance.choice((0, 0, 0, 5))
    payload = b"".join(messages)
    whole = gzip.compress(payload[: len(payload) - cut] if len(messages) > 1 else payload, mtime=0)
    return _message(len(messages) - 1, magic, GZIP, None, whole)


def _message(offset: int, magic: int, codec: int, key: bytes | None, value: bytes, spoiled: int = 0) -> bytes:
    """A message of magic 0 or 1; the checksum of a spoiled one does not match."""
    time = struct.pack(">q", NOW_MS + offset) if magic else b""
    field = [
        struct.pack(">i", -1) if one is None else struct.pack(">i", len(one)) + one for one in (key, value)
    ]
    body = bytes((magic, codec)) + time + field[0] + field[1]
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body) ^ spoiled) + body


def _bits_append(chance: random.Random) -> bytes:
    bits = chance.choice((0x80, 0x100, 0x4000, 0x40, 0x180))
    records = [(NOW_MS - chance.randrange(5), b"key", b"value") for _ in range(3)]
    attributes = chance.choice((0, GZIP)) | bits
    return Batch(
        records=records,
        attributes=attributes,
        leader_epoch=7,
        max_timestamp=chance.choice((None, NOW_MS + 5)),
    ).encode()


def _base_offset(chance: random.Random, number: int, origin: str) -> int:
    """0 for a log to assign offsets; well past the end of a log that takes them; now and then wrong."""
    wrong = chance.randrange(15) == 0
    if origin in ("CLIENT", "COORDINATOR"):
        return 5 if wrong and origin == "CLIENT" else 0
    return 0 if wrong else 10 * number
