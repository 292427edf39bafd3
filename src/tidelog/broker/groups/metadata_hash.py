"""What Kafka keeps of the topics a consumer group reads: a hash, which tells that they have changed.

XXH3 of 64 bits over the topics' own hashes in the order of their names. A topic's hash is over a version
byte, its id, its name in UTF-16 with its length, its partition count, and each partition's number (with the
racks of its replicas, of which one broker without a rack has none); numbers are little-endian.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable
from uuid import UUID

from tidelog.broker.effects import TopicView
from tidelog.records.libraries import Library

__all__ = ["metadata_hash"]

_MAGIC = 0
_xxhash = Library("xxhash", needed_by="the consumer group protocol", package="xxhash")


def metadata_hash(names: Iterable[str], topics: TopicView) -> int:
    """The hash of the topics with these names, as far as there are any."""
    hashes = []
    for name in sorted(names, key=lambda text: text.encode("utf-16-be", "surrogatepass")):
        topic_id, count = topics.topic_id(name), topics.partition_count(name)
        if topic_id is not None and count is not None:
            hashes.append(_topic_hash(name, topic_id, count))
    return _signed(b"".join(struct.pack("<Q", each) for each in hashes)) if hashes else 0


@functools.lru_cache(maxsize=4096)
def _topic_hash(name: str, topic_id: UUID, count: int) -> int:
    units = name.encode("utf-16-le", "surrogatepass")
    high, low = topic_id.int >> 64, topic_id.int & (1 << 64) - 1
    head = struct.pack("<BQQ", _MAGIC, high, low) + units + struct.pack("<i", len(units) // 2)
    digest: int = _xxhash.xxh3_64_intdigest(head + struct.pack(f"<{count + 1}i", count, *range(count)))
    return digest


def _signed(data: bytes) -> int:
    found: int = _xxhash.xxh3_64_intdigest(data)
    return found - (1 << 64) if found >> 63 else found
