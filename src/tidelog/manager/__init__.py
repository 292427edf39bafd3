"""Many logs over many root directories, as a broker keeps them.

store/          the coordinator (`open`, `Store`), its roots, topics and partitions
background/     what a store does by the clock
upkeep/         work on files at rest: recover, reindex, compact, retain, trim
metadata/       KRaft metadata: what a broker is told
verification/   checks that change nothing
publishing/     bulk writes, whole or not at all
brokerconfig    server.properties
"""

from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.store.partition import Partition
from tidelog.manager.store.store import Store, open_store
from tidelog.manager.store.topics import Topic

open = open_store
"""Open root directories; `tidelog.open`."""

__all__ = ["BrokerConfig", "Partition", "Store", "Topic", "open", "open_store"]
