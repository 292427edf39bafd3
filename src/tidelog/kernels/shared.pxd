# The fields of shared.py.
from tidelog.kernels.locks cimport Lock

cdef class EpochFields:
    cdef public tuple _entries

cdef class TransactionFields:
    cdef public dict _ongoing
    cdef public list _unreplicated

cdef class ProducerFields:
    cdef public dict _producers
    cdef public long long _map_end_offset

cdef class PartitionFields:
    cdef public Lock gate
    cdef public long long leader_epoch
    cdef public object _log
    cdef public object _offline
    cdef public tuple _listeners

cdef class SegmentFields:
    cdef public object _time_path

cdef class SegmentsFields:
    cdef public tuple _all
    cdef public list _largest
