"""What a stock broker makes of a disk, and repairs that can be undone.

    findings      what is found: severity, evidence, what a broker does with it, what to do
    disks         the roots of one broker as they are; what Kafka reads into names and checkpoints
    forecast      what Kafka's loader does with a log, rehearsed in memory (`changes`: file by file)
    coordinated   what coordinators do about open transactions
    partitions    one partition (`misnamed`: names); `identity`, `roots`, `permissions`: what lies around it
    examining     all of it together
    mending       how a partition's files would be in order; `repairs`: the plan (`plans`) for all disks
    applying      carrying a plan out and undoing it; `quarantine`: what is kept meanwhile
    fixing        from examination to undo
    adopting      a topic of another cluster's disks in a root; `adopted_groups`: committed offsets of groups

Examining and planning only read.
"""

from tidelog.doctor.examining import Examination, examine
from tidelog.doctor.findings import Finding, Kind, PartitionVerdict, RootVerdict, Severity

__all__ = ["Examination", "Finding", "Kind", "PartitionVerdict", "RootVerdict", "Severity", "examine"]
