# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Fields of Python classes that an append or a look-up by time looks at. A class that has its fields from
here is written in Python as any other; kernels read them without asking for an attribute by its name.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.locks import Lock
else:
    from tidelog.kernels.locks import Lock


@cython.cclass
class EpochFields:
    """Of `log.epochs.LeaderEpochCache`: its entries, oldest first."""

    def __init__(self):
        self._entries = ()


@cython.cclass
class TransactionFields:
    """Of `log.producers.transactions.TransactionTable`: what is open, and what has ended unreplicated."""

    def __init__(self):
        self._ongoing = {}
        self._unreplicated = []


@cython.cclass
class ProducerFields:
    """Of `log.producers.producers.ProducerStateManager`: the producers by id, and where that state ends."""

    def __init__(self):
        self._producers = {}
        self._map_end_offset = 0


@cython.cclass
class PartitionFields:
    """Of `manager.store.partition.Partition`: its log, who may append to it, and whom that wakes."""

    def __init__(self):
        self.gate = Lock()
        self.leader_epoch = 0
        self._log = None
        self._offline = None
        self._listeners = ()


@cython.cclass
class SegmentFields:
    """Of `segment.base.Segment`: the way to a time in it, once it was found."""

    def __init__(self):
        self._time_path = None


@cython.cclass
class SegmentsFields:
    """Of `log.segments.segments.LogSegments`: the segments, and of the first of the sealed ones the running
    maximum of their largest timestamps.
    """

    def __init__(self, segments: tuple, largest: list):
        self._all = segments
        self._largest = largest
