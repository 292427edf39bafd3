"""One client's connection: frames in, responses out, one request at a time.

    reading   a length (int32), then so many bytes, into a buffer that grows with what has come: a length
              alone allocates nothing
    handling  the next request is looked at when the response to the last one has been handed over, as in
              Kafka: responses are in order, and a client that sends ahead waits in its socket
    writing   records go from the log's memory to the socket as they are; while a client does not read,
              no more of its requests are handled

Whatever is wrong with a request ends this connection and no other. What a client does wrong is logged at
debug level; what we do wrong, with its traceback.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable
from typing import Any, Protocol

from tidelog.broker.context import Client
from tidelog.broker.limits import SMALL_BYTES, Budget
from tidelog.broker.wire.encoding import Pieces
from tidelog.broker.wire.requests import MalformedRequestError, join_pieces

__all__ = ["CloseConnectionError", "Connection", "Service"]

_logger = logging.getLogger(__name__)

_LENGTH = struct.Struct(">i")
_FIRST_BUFFER = 16 << 10
_PACE_S = 1.0
"""How long a request has had before its pace says something."""
_SEND_BYTES = 256 << 10
"""Large pieces are handed to the transport in parts of this size: what a socket does not take is copied."""


class CloseConnectionError(Exception):
    """The connection has to end; the reason is for the log."""


class Service(Protocol):
    """Who answers requests."""

    def answer(self, frame: bytes, connection: Connection) -> Pieces | Awaitable[Pieces | None] | None:
        """A request's response, in pieces; None for none. Raises to end the connection."""

    def opened(self, connection: Connection) -> None:
        """A client is there."""

    def closed(self, connection: Connection) -> None:
        """It is gone."""

    @property
    def budget(self) -> Budget:
        """Memory for large requests."""

    @property
    def max_request_bytes(self) -> int:
        """The largest request."""


class Connection(asyncio.BufferedProtocol):
    """A client's connection."""

    def __init__(self, service: Service, host: str = "127.0.0.1", listener: int = 0) -> None:
        self._service = service
        self._transport: asyncio.Transport | None = None
        self.client = Client(host, listener=listener)
        self.state: Any = None
        """What authentication keeps of it."""
        self.max_frame_bytes = service.max_request_bytes
        """The largest request that it may send."""
        self._buffer = bytearray(_FIRST_BUFFER)
        self._begin = 0
        self._end = 0
        self._task: asyncio.Task[None] | None = None
        self._taken = 0
        self._waits_for_memory = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_reading = True
        self._is_closing = False
        self._is_finishing = False
        self.last_read = 0.0
        self.stalled_at: float | None = None
        """Since when the client has not read what it was sent."""
        self.begun_at: float | None = None
        """Since when a request is coming in that is not whole yet."""

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.last_read = asyncio.get_running_loop().time()
        self._service.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        self._is_closing = True
        self._writable.set()
        if self._task is not None:
            self._task.cancel()
        if self._waits_for_memory:
            self._service.budget.forget(self._got_memory)
        self._give_back()
        self._service.closed(self)
        self._buffer = bytearray()
        self._begin = self._end = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        if self._end == len(self._buffer):
            self._make_room()
        return memoryview(self._buffer)[self._end :]

    def _make_room(self) -> None:
        """Move what is left to the front, or grow: by as much as has come, or to the frame's size."""
        waiting = self._end - self._begin
        size = len(self._buffer)
        if waiting * 2 > size:
            size = max(size * 2, _FIRST_BUFFER)
        wanted = self._frame_size()
        if wanted is not None:
            size = max(min(size, max(wanted, _FIRST_BUFFER)), waiting + 4096)
        fresh = bytearray(size)
        fresh[:waiting] = memoryview(self._buffer)[self._begin : self._end]
        self._buffer, self._begin, self._end = fresh, 0, waiting

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        self._end += nbytes
        self.last_read = asyncio.get_running_loop().time()
        self._go_on()

    def eof_received(self) -> bool:
        """The client sends no more."""
        return False

    def pause_writing(self) -> None:
        """The client does not read what it was sent."""
        self._writable.clear()
        self.stalled_at = asyncio.get_running_loop().time()

    def resume_writing(self) -> None:
        """It does again."""
        self._writable.set()
        self.stalled_at = None
        self._go_on()

    # Requests

    def _frame_size(self) -> int | None:
        """The size of the frame that comes, with its length; None before that is known."""
        if self._end - self._begin < 4:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer, self._begin)
        return 4 + int(length)

    def _go_on(self) -> None:
        """Handle requests that have come, unless one is being handled."""
        if self._is_finishing and self._task is None:
            self.close("the broker stops")
        while not (self._task or self._is_closing or self._waits_for_memory) and self._writable.is_set():
            try:
                frame = self._next_frame()
                if frame is None:
                    break
                self._answer(frame)
            except (MalformedRequestError, CloseConnectionError) as error:
                self.close(str(error))
            except Exception:
                self._fail()
        self._read_or_not()

    def _next_frame(self) -> bytes | None:
        """The next whole request, without its length; None where it is not here yet."""
        size = self._frame_size()
        if size is None:
            self.begun_at = self.last_read if self._end > self._begin else None
            return None
        if size < 4 or size - 4 > self.max_frame_bytes:
            raise MalformedRequestError(f"a request of {size - 4} bytes")
        here = self._end - self._begin
        if size > SMALL_BYTES and not self._taken and here >= SMALL_BYTES and not self._take(size):
            return None
        if here < size:
            self.begun_at = self.begun_at or self.last_read
            return None
        self.begun_at = None
        frame = bytes(memoryview(self._buffer)[self._begin + 4 : self._begin + size])
        self._begin += size
        if self._begin == self._end:
            self._begin = self._end = 0
            if len(self._buffer) > 4 * SMALL_BYTES:
                self._buffer = bytearray(SMALL_BYTES)
        return frame

    def _take(self, size: int) -> bool:
        if self._service.budget.take(size, self._got_memory):
            self._taken = size
            return True
        self._waits_for_memory = True
        return False

    def _got_memory(self) -> None:
        self._waits_for_memory = False
        self._taken = self._frame_size() or 0
        self.begun_at = asyncio.get_running_loop().time()  # the wait was not the client's fault
        self._go_on()

    def _give_back(self) -> None:
        if self._taken:
            taken, self._taken = self._taken, 0
            self._service.budget.give_back(taken)

    def _answer(self, frame: bytes) -> None:
        answer = self._service.answer(frame, self)
        if answer is None or isinstance(answer, list):
            self._give_back()
            if answer is not None:
                self._send(answer)
            return
        self._task = asyncio.get_running_loop().create_task(self._later(answer))

    async def _later(self, answer: Awaitable[Pieces | None]) -> None:
        try:
            pieces = await answer
            if pieces is not None and not self._is_closing:
                await self._send_slowly(pieces)
        except (MalformedRequestError, CloseConnectionError) as error:
            self.close(str(error))
        except Exception:
            self._fail()
        finally:
            self._task = None
            self._give_back()
        self._go_on()

    def _read_or_not(self) -> None:
        """Read on unless enough is here that cannot be handled yet."""
        transport = self._transport
        if transport is None or self._is_closing:
            return
        busy = self._task is not None or self._waits_for_memory or not self._writable.is_set()
        wanted = not (busy and self._end - self._begin >= SMALL_BYTES) and not self._waits_for_memory
        if wanted and not self._is_reading:
            self._is_reading = True
            transport.resume_reading()
        elif not wanted and self._is_reading:
            self._is_reading = False
            transport.pause_reading()

    # Responses

    def _send(self, pieces: Pieces) -> None:
        transport = self._transport
        if transport is None or self._is_closing:
            return
        few = join_pieces(pieces)
        if len(few) == 1 and len(few[0]) <= _SEND_BYTES:
            transport.write(few[0])
            return
        self._task = asyncio.get_running_loop().create_task(self._send_rest(few))

    async def _send_rest(self, pieces: Pieces) -> None:
        try:
            await self._write_all(pieces)
        finally:
            self._task = None
        self._go_on()

    async def _send_slowly(self, pieces: Pieces) -> None:
        await self._write_all(join_pieces(pieces))

    async def _write_all(self, pieces: Pieces) -> None:
        """Hand over pieces as the client takes them."""
        for piece in pieces:
            view = memoryview(piece)
            for at in range(0, len(view), _SEND_BYTES):
                if not self._writable.is_set():
                    await self._writable.wait()
                if self._is_closing or self._transport is None:
                    return
                self._transport.write(view[at : at + _SEND_BYTES])

    # The end

    def close(self, reason: str = "") -> None:
        """End the connection; what was handed over is still sent."""
        if not self._is_closing and self._transport is not None:
            if reason:
                _logger.debug("connection of %s closed: %s", self.client.host, reason)
            self._is_closing = True
            self._transport.close()

    def _fail(self) -> None:
        """A request has met a mistake of ours: its client must not wait for ever."""
        _logger.exception("a request of %s has failed", self.client.host)
        self.close("a request has failed")

    def finish(self) -> None:
        """Take no more requests, and close when the one that is being handled is answered."""
        self._is_finishing = True
        self._go_on()

    @property
    def is_waiting(self) -> bool:
        """Whether a request is being handled and nothing is left to be sent."""
        return (
            self._task is not None
            and self._transport is not None
            and not (self._transport.get_write_buffer_size())
        )

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_busy(self) -> bool:
        """Whether a request is being handled, or waits for memory."""
        return self._task is not None or self._waits_for_memory

    def is_behind(self, now: float, allowed_s: float) -> bool:
        """Whether a request that has taken memory comes in too slowly to be here in the time that it has."""
        if not self._taken or self.begun_at is None:
            return False
        spent_s = now - self.begun_at
        return spent_s > _PACE_S and (self._end - self._begin) * allowed_s < self._taken * spent_s

    @property
    def transport(self) -> asyncio.Transport | None:
        """What carries it."""
        return self._transport
