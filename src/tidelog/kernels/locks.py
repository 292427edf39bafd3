# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A lock that the thread which holds it may take again, at a tenth of what `threading.RLock` costs.

Who holds it is two numbers. They change while the GIL is held, which makes each change one step for all
threads, so that a lock that is free asks nothing of the operating system:

    take   free, or mine already: noted. Else I count as waiting, wait for `_turn`, and look again
    give   the last time: free. If somebody waits, `_turn` is opened for one of them

`_turn` is a lock that is locked but from a `give` to the first one who comes out of waiting. A turn may find
the lock taken by somebody quicker, and waits again: then that one's `give` opens the next turn. So whoever
waits is either behind a holder that will open, or `_turn` is open.

Uncompiled, nothing is one step: there it is `threading.RLock`.
"""

import threading

import cython

if cython.compiled:
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident


@cython.final
@cython.cclass
class Lock:
    """Held by one thread at a time, as often as it likes."""

    def __init__(self):
        self._holder = 0
        self._depth = 0
        self._waiting = 0
        self._opened = False
        if cython.compiled:
            self._turn = threading.Lock()
            self._turn.acquire()
        else:
            self._turn = threading.RLock()

    def take(self):
        """Hold it from now on."""
        if cython.compiled:
            me: cython.ulong = PyThread_get_thread_ident()
            if self._depth != 0 and self._holder != me:
                self._wait()
            self._holder = me
            self._depth += 1
        else:
            self._turn.acquire()
        return 0

    def _wait(self):
        """Wait until it is free."""
        self._waiting += 1
        try:
            while self._depth != 0:
                self._turn.acquire()
                self._opened = False
        finally:
            self._waiting -= 1
        return 0

    def give(self):
        """Hold it once less."""
        if cython.compiled:
            if self._depth == 0 or self._holder != PyThread_get_thread_ident():
                raise RuntimeError("a lock that this thread does not hold")
            self._depth -= 1
            if self._depth == 0 and self._waiting > 0 and not self._opened:
                self._opened = True
                self._turn.release()
        else:
            self._turn.release()
        return 0

    def __enter__(self):
        """Hold it within a `with` block."""
        self.take()
        return True

    def __exit__(self, kind, error, trace):
        """Hold it no more."""
        self.give()
