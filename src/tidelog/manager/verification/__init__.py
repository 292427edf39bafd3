"""Checking files without changing them: what is damaged, where, and why one can tell.

    findings     what is found
    segment      a log file, and its offset, time and transaction index against it
    partition    all segments of a directory, snapshots, leader epochs
    root         checkpoints, identity and metadata of a root, and all of its partitions

Nothing is opened for writing, and nothing is locked: a broker may be running, but then the end of an active
segment may look torn.
"""

from tidelog.manager.verification.findings import Finding, Kind
from tidelog.manager.verification.partition import verify_partition
from tidelog.manager.verification.root import verify_root

__all__ = ["Finding", "Kind", "verify_partition", "verify_root"]
