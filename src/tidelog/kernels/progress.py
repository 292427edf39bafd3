# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Where the writer of a segment stands: what its next append of one batch goes on from.

Which entries a batch makes follows from the bytes written since the last one (`kernels.entries` does the same
for many batches at once): `due` says so before the batch is written, `note` counts it after.
"""

import cython


@cython.final
@cython.cclass
class Progress:
    """Where the writer of a segment stands.

    `since` counts the bytes since the last offset entry, `last_time` is the timestamp of the last time entry,
    `slots` a number of batches with entries for which both indexes have room. `beginnings` counts how often
    the segment's first batch was written or removed; `index_full` says that the segment must roll because an
    index has no room.
    """

    def __init__(self, interval: cython.longlong):
        """`interval`: how many bytes are written from one index entry to the next."""
        self.interval = interval
        self.last_offset = -1
        self.since = 0
        self.max_timestamp = -1
        self.max_offset = -1
        self.last_time = -1
        self.slots = 0
        self.beginnings = 0
        self.index_full = False

    @cython.ccall
    @cython.exceptval(check=False)
    def due(self, timestamp: cython.longlong) -> cython.int:
        """The entries that go with a batch of this largest timestamp: 0, 1 an offset's, 2 a time's too."""
        if self.since <= self.interval:
            return 0
        return 2 if timestamp > self.last_time or self.max_timestamp > self.last_time else 1

    @cython.ccall
    @cython.exceptval(check=False)
    def note(
        self, size: cython.longlong, last: cython.longlong, timestamp: cython.longlong, due: cython.int
    ) -> cython.void:
        """Count a batch that was written, with the entries that were due."""
        self.last_offset = last
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_offset = last
        if due == 0:
            self.since += size
            return
        self.since = size
        self.slots -= 1
        if due == 2:
            self.last_time = self.max_timestamp
