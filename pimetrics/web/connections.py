"""At most so many connections, and none for ever: a neighbour that connects and is silent keeps nobody else out.

A connection *waits* while the client has to act: shake hands, send the head of a request, take an answer. It may do so
for a while only, and when all places are taken the one that waits longest gives way to the next that comes. A
connection whose request is being answered is never ended here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import ssl
from collections.abc import Callable
from typing import Final

MOST_CONNECTIONS: Final = 256
"""Fewer where the process may open fewer than twice as many files."""

PATIENCE_SECONDS: Final = 10.0
"""How long a client may take to connect and send the head of a request, and from one request to the next."""

ANSWER_SECONDS: Final = 30.0
"""How long a client may take to take an answer."""

_AT_A_TIME: Final = 64
"""Connections accepted before others get their turn."""

_RETRY_SECONDS: Final = 0.1
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Place:
    """What one connection takes up.

    Attributes:
        leave: Ends the connection, at once and from outside.
    """

    def __init__(self, places: Places, leave: Callable[[], None]) -> None:
        self.leave = leave
        self._places = places
        self._timer: asyncio.TimerHandle | None = None
        self.wait(PATIENCE_SECONDS)

    def wait(self, seconds: float, *, taking: bool = False) -> None:
        """Note that the client has to act, and within what time.

        Args:
            seconds: The time.
            taking: It has an answer to take; it gives way after those that have none.
        """
        self._stop()
        self._timer = self._places.loop.call_later(seconds, self.end)
        (self._places.taking if taking else self._places.waiting)[self] = None

    def work(self) -> None:
        """Note that it is our turn to act."""
        self._stop()

    def end(self) -> None:
        """End the connection."""
        self.free()
        self.leave()

    def free(self) -> None:
        """Give the place back."""
        self._stop()
        self._places.taken.discard(self)

    def _stop(self) -> None:
        self._places.waiting.pop(self, None)
        self._places.taking.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Places:
    """The places for connections: those that are taken, and of these the ones that wait, longest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self.loop = loop
        self.most = most
        self.taken: set[Place] = set()
        self.waiting: dict[Place, None] = {}
        self.taking: dict[Place, None] = {}

    def take(self, leave: Callable[[], None]) -> Place | None:
        """Take a place, that of the longest waiting when there is no other; None if nobody waits."""
        if len(self.taken) >= self.most and not self.make_room():
            return None
        place = Place(self, leave)
        self.taken.add(place)
        return place

    def make_room(self) -> bool:
        """End the connection that waits longest; return whether there is one."""
        for place in self.waiting or self.taking:
            place.end()
            return True
        return False

    def end_waiting(self) -> None:
        """End all connections whose client has to act."""
        while self.make_room():
            pass


class Acceptor:
    """Takes connections from a listening socket.

    Args:
        listener: The socket.
        make_protocol: Makes what speaks over a connection.
        context: Gives TLS as it is in force, for each connection anew; None for plain connections.
        most: See `MOST_CONNECTIONS`.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[Place], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext | None],
        *,
        most: int | None = None,
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._places = Places(self._loop, most or most_connections())
        self._opening: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        listener.setblocking(False)  # noqa: FBT003  its own interface
        self._listen()

    def close(self) -> None:
        """Take no more connections and end those that wait."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._listener)
        self._places.end_waiting()

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(min(_AT_A_TIME, self._places.most)):
            try:
                connection, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                # Files are used up: one that waits gives way; the socket stays readable, so rest a moment.
                self._places.make_room()
                self._loop.remove_reader(self._listener)
                self._retry = self._loop.call_later(_RETRY_SECONDS, self._listen)
                return
            self._open(connection)

    def _open(self, connection: socket.socket) -> None:
        def hang_up() -> None:
            """End a connection that may still shake hands; whoever has it sees it end."""
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

        place = self._places.take(hang_up)
        if place is None:
            connection.close()
            return
        task = self._loop.create_task(self._shake_hands(connection, place))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _shake_hands(self, connection: socket.socket, place: Place) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(place), connection, ssl=self._context()
            )
        except OSError:  # it went away, or speaks no TLS that is allowed: its own affair
            place.free()
            connection.close()


def most_connections() -> int:
    """Return how many connections there may be: half of the files that the process may open are for other things."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, max(8, soft // 2))
