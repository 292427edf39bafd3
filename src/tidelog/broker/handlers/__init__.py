"""One handler for each API: a request and the broker's state in, a response out. None of them knows a socket.

A handler answers with values for all versions of its API (`wire.encoding`), with None where no response is
expected, or with an awaitable where it has to wait.
"""
