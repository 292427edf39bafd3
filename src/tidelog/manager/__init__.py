"""Many logs over many root directories, as a broker keeps them.

store         the coordinator: `open`, `Store`           opening, survey, loading   from roots to loaded logs
root          one root: lock, identity, checkpoints      metadata                   what a broker is told
topics, partition, placement                             moves, directories         logs that move, and go
scheduler, maintenance                                   events, metrics            what is told, and measured
cleaning, cleaner_states, throttle                       compacting                 compaction, also at rest
brokerconfig  server.properties
"""

from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.store.partition import Partition
from tidelog.manager.store.store import Store, open_store
from tidelog.manager.store.topics import Topic

open = open_store
"""Open root directories; `tidelog.open`."""

__all__ = ["BrokerConfig", "Partition", "Store", "Topic", "open", "open_store"]
