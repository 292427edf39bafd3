"""Many logs over many root directories, as a broker keeps them.

store/          the coordinator (`open`, `Store`), its roots, topics and partitions
background/     what a store does by the clock
upkeep/         work on files at rest: recover, reindex, compact, retain, trim
metadata/       KRaft metadata: what a broker is told
verification/   checks that change nothing
publishing/     bulk writes, whole or not at all
brokerconfig    server.properties
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_names

if TYPE_CHECKING:
    from tidelog.manager.brokerconfig import BrokerConfig
    from tidelog.manager.store.opener import open_store
    from tidelog.manager.store.partition import Partition
    from tidelog.manager.store.store import Store
    from tidelog.manager.store.topics import Topic

__all__ = ["BrokerConfig", "Partition", "Store", "Topic", "open_store"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BrokerConfig": "tidelog.manager.brokerconfig",
        "Partition": "tidelog.manager.store.partition",
        "Store": "tidelog.manager.store.store",
        "Topic": "tidelog.manager.store.topics",
        "open_store": "tidelog.manager.store.opener",
    },
)
