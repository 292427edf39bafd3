"""Apache Kafka's storage layer as a Python library.

open              root directories, as a broker keeps them: a `Store` of `Topic`s of `Partition`s
scan              directories at rest or in use, as Arrow record batches
groups            consumer groups from the disk      transactions      transactions from the disk
Log               one partition on its own
Record, Header    what is appended and read
Codec             how batches are compressed
TopicPartition    a name and a number
plot              the charts of `tidelog report` as objects
Values            how values are decoded: Avro, Protobuf or JSON, with schemas from a directory or a registry
errors            everything that is raised on purpose
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_names
from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog import errors, plot
    from tidelog.log.log import Log
    from tidelog.manager.coordinators.tables import groups, transactions
    from tidelog.manager.store.opener import open_store as open
    from tidelog.manager.store.partition import Partition
    from tidelog.manager.store.store import Store
    from tidelog.manager.store.topics import Topic
    from tidelog.records.record import Header, Record
    from tidelog.scanning.reader import scan
    from tidelog.types import Codec, TopicPartition
    from tidelog.values.spec import Values

__all__ = [
    "Codec",
    "Header",
    "Log",
    "Partition",
    "Record",
    "Store",
    "Topic",
    "TopicPartition",
    "Values",
    "__version__",
    "errors",
    "groups",
    "open",
    "plot",
    "scan",
    "transactions",
]

# Imported at first use: `import tidelog` and the command's start-up stay light.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Codec": "tidelog.types",
        "Header": "tidelog.records.record",
        "Log": "tidelog.log.log",
        "Partition": "tidelog.manager.store.partition",
        "Record": "tidelog.records.record",
        "Store": "tidelog.manager.store.store",
        "Topic": "tidelog.manager.store.topics",
        "TopicPartition": "tidelog.types",
        "Values": "tidelog.values.spec",
        "errors": "tidelog.errors",
        "groups": "tidelog.manager.coordinators.tables",
        "open": "tidelog.manager.store.opener:open_store",
        "plot": "tidelog.plot",
        "scan": "tidelog.scanning.reader",
        "transactions": "tidelog.manager.coordinators.tables",
    },
)
